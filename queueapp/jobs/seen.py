"""What somebody has seen of a job who is asked whether to move it; where that is over, it moved on.

A question may stand for a while. What is done upon its answer is done to the jobs that it spoke of,
as they stood: one that has started, ended, or been moved in the line since is another matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from queueapp.jobs.instants import EARLIEST, LATEST
from queueapp.jobs.status import FINAL, WAITING, Status

_WRITTEN = re.compile(
    r"([a-z]{1,20})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00)@(-?\d{1,5})", re.ASCII
)
# The row as it is read again under its lock: a job that moves while the statement waits counts.
# What Python has no instant for was read as the nearest one.
AS_SEEN = f"""%(seen_statuses)s::text[] IS NULL OR (
      j.status, j.priority, least(greatest(CASE WHEN j.status = 'running' THEN j.claimed_at
        WHEN j.status IN ('queued', 'held') THEN j.available_at ELSE j.finished_at END,
        timestamptz '{EARLIEST.isoformat()}'), timestamptz '{LATEST.isoformat()}')
    ) = (
      (%(seen_statuses)s::text[])[array_position(%(ids)s::bigint[], j.id)],
      (%(seen_priorities)s::smallint[])[array_position(%(ids)s::bigint[], j.id)],
      (%(seen_at)s::timestamptz[])[array_position(%(ids)s::bigint[], j.id)])"""


class _Row(Protocol):
    """A row of ``jobs``, as far as ``Seen`` looks at it."""

    status: Any
    priority: Any
    claimed_at: Any
    available_at: Any
    finished_at: Any


@dataclass(frozen=True)
class Seen:
    """How a job stood: its status, the instant that tells this stay in it, and its priority.

    ``at``: of a waiting job when it is due, of a running one when it was claimed, of any other when
    it ended.
    """

    status: Status
    at: datetime
    priority: int

    @classmethod
    def of(cls, job: _Row) -> Seen:
        """How the job stands."""
        status = Status(job.status)
        at = job.available_at if status in WAITING else job.claimed_at
        return cls(status, job.finished_at if status in FINAL else at, job.priority)

    @classmethod
    def read(cls, text: str) -> Seen | None:
        """Read what ``str`` wrote; None for anything else."""
        match = _WRITTEN.fullmatch(text)
        try:
            return match and cls(Status(match[1]), datetime.fromisoformat(match[2]), int(match[3]))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.status}@{self.at.astimezone(UTC).isoformat()}@{self.priority}"


def parameters_of(seen: Mapping[int, Seen] | None, ids: Sequence[int]) -> dict[str, Any]:
    """The parameters of ``AS_SEEN``. Of what is not in ``seen`` nothing was seen: it stays."""
    if seen is None:
        return dict.fromkeys(("seen_statuses", "seen_priorities", "seen_at"))
    found = [seen.get(one) for one in ids]
    return {
        "seen_statuses": [one and str(one.status) for one in found],
        "seen_priorities": [one and one.priority for one in found],
        "seen_at": [one and one.at for one in found],
    }
