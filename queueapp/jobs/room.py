"""How many jobs may be created before the limit of the depth: exactly, whoever creates beside us.

The depth is the number of queued jobs, due and scheduled. Ids come from one sequence, and all who
create below a limit pass a gate, an advisory lock that they share. Whoever has the gate alone, so
that nobody is in the middle of it, counts ``depth`` jobs and reads ``last_id``. From then on, as
long as no job has an id above ``last_id + limit - depth``, not more than ``limit`` wait: of those
up to ``last_id`` ``depth`` at most, and behind it not more than there are ids. So a creation looks
at nothing but its own number. The count, which costs an index entry a job, is made anew when the
numbers up to the ceiling are used up: far below the limit once in many thousand jobs.

What is not created but comes back (a retry, a lifted hold) has an old id and is not refused; nor is
what a program creates in its own transaction. The next count finds both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.autocommit import is_autocommit, one_transaction
from queueapp.jobs.database import Database, connection_of, run

GATE = 730_051
# NULL before the first one.
LAST_ID = "coalesce(pg_sequence_last_value(pg_get_serial_sequence('jobs', 'id')::regclass), 0)"

# A plan made from stale statistics must neither scan the table nor spend its time compiling.
_PLAIN = "set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
_BESIDE = f"SELECT {_PLAIN}"
_ALONE = f"SELECT pg_advisory_xact_lock({GATE}), {_PLAIN}"
# The number is read behind the gate.
_ENTER = f"""
WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({GATE}))
SELECT {LAST_ID} AS last_id FROM gate"""

# ORDER BY names the index of the claim, which has all that is asked for; LIMIT ends the walk.
_MEASURE = f"""
SELECT {LAST_ID} AS last_id, count(*) AS depth,
  count(*) FILTER (WHERE available_at <= statement_timestamp()) AS due,
  statement_timestamp() AS now
FROM (
  SELECT available_at FROM jobs WHERE status = 'queued'
  ORDER BY priority DESC, available_at, created_at, id LIMIT %(bound)s
) waiting"""

_KNOWN_KEYS = """
SELECT idempotency_key FROM jobs
WHERE producer = %(producer)s AND idempotency_key = ANY(%(keys)s)"""


@dataclass(frozen=True)
class Reading:
    """How many jobs waited, counted up to a bound; ``due``: those of them that could start.

    ``took_s``: what the count took, without the wait for those who were creating.
    """

    last_id: int
    depth: int
    due: int
    now: datetime
    took_s: float


def enter(database: Database) -> int:
    """Pass the gate until the end of the transaction; the last id that was drawn before."""
    last_id: int = run(database, _ENTER)[0].last_id
    return last_id


def measure(
    database: Database,
    bound: int,
    *,
    alone: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Reading:
    """Count what waits, ``bound`` at most; ``alone``: while nobody creates.

    In a transaction that is open nobody creates to its end. Never alone in one that has entered:
    two of those would wait for each other.
    """
    connection = connection_of(database)
    with one_transaction(connection) if is_autocommit(connection) else nullcontext():
        run(database, _ALONE if alone else _BESIDE)
        began = clock()
        found = run(database, _MEASURE, bound=bound)[0]
        return Reading(found.last_id, found.depth, found.due, found.now, clock() - began)


def known_keys(database: Database, producer: str, keys: Sequence[str]) -> set[str]:
    """Those of the keys that jobs of ``producer`` have already."""
    rows = run(database, _KNOWN_KEYS, producer=producer, keys=list(keys))
    return {row.idempotency_key for row in rows}
