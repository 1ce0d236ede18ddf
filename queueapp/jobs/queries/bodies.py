"""What a job was given and what came of it, as the text that a page can show.

PostgreSQL writes the JSON: numbers of any size and precision stay as they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.jobs.database import Database, run

BODY_LIMIT = 256 * 1024

_BODIES = """
SELECT left(payload, %(limit)s) AS payload, octet_length(payload) AS payload_size,
  length(payload) > %(limit)s AS payload_cut,
  left(result, %(limit)s) AS result, octet_length(result) AS result_size,
  length(result) > %(limit)s AS result_cut
FROM (
  SELECT jsonb_pretty(payload) AS payload, jsonb_pretty(result) AS result
  FROM jobs WHERE id = %(job_id)s OFFSET 0
) pretty"""


@dataclass(frozen=True)
class Body:
    """Indented JSON. ``size`` in bytes, of the whole; ``cut``: ``text`` is only its beginning."""

    text: str
    size: int
    cut: bool


@dataclass(frozen=True)
class Bodies:
    """Payload and result of one job; None: the row is gone, or there is no result."""

    payload: Body | None
    result: Body | None


def bodies_of(database: Database, job_id: int, *, limit: int = BODY_LIMIT) -> Bodies:
    """The payload and the result of a job, each up to ``limit`` characters."""
    rows = run(database, _BODIES, job_id=job_id, limit=limit)
    if not rows:
        return Bodies(None, None)
    row = rows[0]
    payload = Body(row.payload, row.payload_size, row.payload_cut)
    result = None if row.result is None else Body(row.result, row.result_size, row.result_cut)
    return Bodies(payload, result)
