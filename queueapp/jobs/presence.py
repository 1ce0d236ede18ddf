"""Who is there: the last sign of life of a worker, and the database's connections. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from queueapp.jobs.connection_names import short_name, told_by
from queueapp.jobs.queries.drain import instant

# A worker says once a minute that it is there.
LIVE_S = 150.0
# A holder renews after a third of its lease; after two thirds without it is silent.
SILENT_PART = 2 / 3
POOLED = "behind a pooler the database's connections are the pooler's, not the workers'"
RENAMED = "DATABASE_URL gives its connections a name of its own (application_name)"
# Two to five connections a worker.
MOST_CONNECTIONS = 5_000

# Names are seen by every role, also those of others' connections. ``own``: an address may name its
# connections itself, and then they say nothing of whose they are.
CONNECTIONS = """
SELECT a.application_name AS name, count(*) AS number,
  current_setting('application_name') AS own
FROM pg_stat_activity a
WHERE a.datname = current_database() AND starts_with(a.application_name, 'queueapp-')
GROUP BY 1 ORDER BY 1 LIMIT %(most)s"""


@dataclass(frozen=True)
class Worker:
    """A worker by its last sign of life. ``slots``: threads that can still run a job.

    ``is_elsewhere``: no ``flask work``, it leases over HTTP. It signs once for each set of kinds,
    its slots are the jobs it asks for at once, and it neither sweeps nor lifts holds. ``told``: all
    that the sign says. ``first_seen_at``: its first sign since yesterday; None: not asked for.
    """

    name: str
    seen_at: datetime
    stopped_at: datetime | None
    stopped_for: str | None
    slots: int
    kinds: tuple[str, ...]
    lease_s: float | None
    is_elsewhere: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    first_seen_at: datetime | None = None

    @property
    def holder(self) -> str:
        """What ``locked_by`` of its jobs says."""
        if not self.is_elsewhere:
            return self.name
        return self.name.removeprefix("worker:").rpartition(":")[0]

    def is_live(self, now: datetime) -> bool:
        """Whether it has been heard of lately, and not of its end."""
        return self.stopped_at is None and (now - self.seen_at).total_seconds() <= LIVE_S

    def ended_by(self, now: datetime) -> datetime:
        """When it ended, as far as that is known; ``now`` while it lives."""
        return min(now, self.stopped_at or self.seen_at + timedelta(seconds=LIVE_S))


# What a sign of life holds.
_TOLD: dict[str, Any] = {
    "slots": int, "lost": int, "kinds": list, "lease_s": (int, float), "host": str,
    "version": str, "release": str, "clock": str,
}  # fmt: skip


def worker_of(found: Mapping[str, Any]) -> Worker:
    """Read a row of ``statement.SIGNS``. What no release of ours has written tells nothing."""
    data = found["data"] if isinstance(found["data"], dict) else {}
    told = {name: said for name, said in data.items() if isinstance(said, _TOLD.get(name, object))}
    seen_at = instant(found["seen_at"])
    assert seen_at is not None
    return Worker(
        name=found["name"],
        seen_at=seen_at,
        stopped_at=instant(found["stopped_at"]),
        stopped_for=found["stopped_for"],
        slots=max(0, told.get("slots", 0) - told.get("lost", 0)),
        kinds=tuple(kind for kind in told.get("kinds", ()) if isinstance(kind, str)),
        lease_s=told.get("lease_s"),
        is_elsewhere=told.get("via") == "api",
        told=told,
        first_seen_at=instant(found.get("first_seen_at")),
    )


@dataclass(frozen=True)
class Connections:
    """The database's connections by name. ``blind``: why a missing one proves nothing, if so."""

    numbers: Mapping[str, int]
    blind: str | None = None

    def of(self, worker: str) -> int | None:
        """How many are this worker's; None where that cannot be told."""
        number = self._by_worker[short_name(worker.removeprefix("worker:"))]
        return number or (None if self.blind or self._has_nameless else 0)

    @cached_property
    def _by_worker(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, number in self.numbers.items():
            found[told_by(name)] += number
        # Those of other processes.
        del found[""]
        return found

    @property
    def _has_nameless(self) -> bool:
        # Workers of an older release do not say whose their connections are.
        return any(name in ("queueapp-work", "queueapp-listen") for name in self.numbers)


def connections_among(rows: Sequence[Mapping[str, Any]], *, pooled: bool) -> Connections:
    """The rows of ``CONNECTIONS``. ``pooled``: they come through a pooler."""
    blind = POOLED if pooled else None
    # Our own one is among them, unless it is called otherwise.
    if not rows or not rows[0]["own"].startswith("queueapp-"):
        blind = blind or RENAMED
    return Connections({row["name"]: row["number"] for row in rows}, blind)


def connections_of(sign: Worker, connections: Connections) -> int | None:
    """How many connections are this worker's; None where that cannot be told."""
    if sign.is_elsewhere or sign.told.get("nameless"):
        return None
    return connections.of(sign.name)


def cut_off(
    signs: Iterable[Worker], connections: Connections | None, now: datetime
) -> frozenset[str]:
    """Who signed a moment ago and is not connected: ``UNCONNECTED``, for whoever asks who lives."""
    if connections is None:
        return frozenset()
    live = (one for one in signs if one.is_live(now))
    return frozenset(one.holder for one in live if connections_of(one, connections) == 0)
