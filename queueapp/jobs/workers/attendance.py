"""One worker as it is known at one instant, and how that is told from what was read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from queueapp.jobs.presence import Connections, Worker, connections_of

# Silent for so long, and without a job: gone, though it never said so.
FORGOTTEN_S = 3600.0


class State(StrEnum):
    """How a worker stands, the one to look at first on top."""

    SILENT = "silent"
    UNCONNECTED = "unconnected"
    UNKNOWN = "unknown"
    LIVE = "live"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Longest:
    """The job that a worker has been at for the longest; ``started_at`` None: none has begun."""

    id: int
    kind: str
    started_at: datetime | None


@dataclass(frozen=True)
class Holding:
    """What a worker holds. ``overdue``: leases that have run out, ``lease_ends_at``: the first."""

    held: int
    started: int
    overdue: int
    lease_ends_at: datetime
    longest: Longest


@dataclass(frozen=True)
class Attendance:
    """A worker: by its signs, its leases and its connections, whichever there are.

    ``name`` is what ``locked_by`` of its jobs says. ``is_elsewhere``: it leases over HTTP, and
    several programs may share the name, which is that of their token. ``slots``: threads that can
    run a job, ``lost`` those that cannot any more. ``drains``: it was asked to, and has said so.
    """

    name: str
    state: State
    seen_at: datetime | None
    first_seen_at: datetime | None
    stopped_at: datetime | None
    stopped_for: str | None
    slots: int
    lost: int
    kinds: tuple[str, ...]
    lease_s: float | None
    host: str | None
    version: str | None
    release: str | None
    is_elsewhere: bool
    connections: int | None
    holding: Holding | None
    clock_ahead_s: float | None
    drains: bool = False

    @property
    def held(self) -> int:
        """How many jobs it holds."""
        return self.holding.held if self.holding else 0

    @property
    def is_dead(self) -> bool:
        """Whether it lives no more, for all that is known: its jobs may be released as they are."""
        if self.state is State.UNKNOWN:
            # Only just begun, perhaps, or not among the signs that are read.
            return self.connections == 0 or bool(self.holding and self.holding.overdue)
        return self.state is not State.LIVE

    def is_gone(self, now: datetime) -> bool:
        """Whether it is only history: ended, or not heard of for long, and without a job."""
        if self.held:
            return False
        silent_s = (now - self.seen_at).total_seconds() if self.seen_at else 0.0
        return self.state is State.STOPPED or (
            self.state is State.SILENT and silent_s > FORGOTTEN_S
        )


def attendances(
    signs: Iterable[Worker],
    holdings: Mapping[str, Holding],
    connections: Connections,
    now: datetime,
) -> list[Attendance]:
    """Put together what is known, the stale ones first: those that hold jobs, then by last sign."""
    by_holder: dict[str, list[Worker]] = {}
    for sign in signs:
        by_holder.setdefault(sign.holder, []).append(sign)
    names = [*by_holder, *(name for name in holdings if name not in by_holder)]
    known = [_known(n, by_holder.get(n, []), holdings.get(n), connections, now) for n in names]
    return sorted(known, key=lambda one: _order(one, now))


def _order(one: Attendance, now: datetime) -> tuple[Any, ...]:
    states = list(State)
    return (one.held == 0 or not one.is_dead, states.index(one.state), one.seen_at or now, one.name)


def _known(
    name: str,
    signs: Sequence[Worker],
    holding: Holding | None,
    connections: Connections,
    now: datetime,
) -> Attendance:
    if not signs:
        return _without_sign(name, holding, connections)
    newest = max(signs, key=lambda sign: sign.seen_at)
    live = [sign for sign in signs if sign.is_live(now)]
    renews = _renews(newest, holding.lease_ends_at if holding else None, now)
    counted = connections_of(newest, connections)
    return Attendance(
        name=name,
        state=_state(newest, counted, is_live=bool(live) or renews),
        seen_at=newest.seen_at,
        first_seen_at=min((s.first_seen_at for s in signs if s.first_seen_at), default=None),
        stopped_at=newest.stopped_at,
        stopped_for=newest.stopped_for,
        slots=sum(sign.slots for sign in live or [newest]),
        lost=int(newest.told.get("lost") or 0),
        kinds=tuple(sorted({kind for sign in live or [newest] for kind in sign.kinds})),
        lease_s=newest.lease_s,
        host=newest.told.get("host"),
        version=newest.told.get("version"),
        release=newest.told.get("release") or None,
        is_elsewhere=newest.is_elsewhere,
        connections=counted,
        holding=holding,
        clock_ahead_s=clock_ahead_s(newest),
        drains=bool(newest.told.get("drains")),
    )


def why_not_drained(one: Attendance) -> str | None:
    """Why it makes no sense to ask a worker to drain; None if it does."""
    if one.is_elsewhere:
        return (
            "it leases over HTTP, and every program with its token goes by this name; stop the"
            " program itself"
        )
    return "it has ended" if one.state is State.STOPPED else None


def _without_sign(name: str, holding: Holding | None, connections: Connections) -> Attendance:
    """One that holds jobs and was never heard of: just begun, or silent since before yesterday."""
    is_elsewhere = not name.startswith("worker:")
    return Attendance(
        name=name, state=State.UNKNOWN, seen_at=None, first_seen_at=None, stopped_at=None,
        stopped_for=None, slots=0, lost=0, kinds=(), lease_s=None, host=None, version=None,
        release=None, is_elsewhere=is_elsewhere,
        connections=None if is_elsewhere else connections.of(name),
        holding=holding, clock_ahead_s=None,
    )  # fmt: skip


def renewing(
    signs: Iterable[Worker], lease_ends: Mapping[str, datetime], now: datetime
) -> frozenset[str]:
    """The newest signs of those elsewhere that renew; ``lease_ends``: of each holder the first."""
    newest = {sign.holder: sign for sign in sorted(signs, key=lambda sign: sign.seen_at)}
    return frozenset(
        sign.name for sign in newest.values() if _renews(sign, lease_ends.get(sign.holder), now)
    )


def _renews(sign: Worker, lease_ends_at: datetime | None, now: datetime) -> bool:
    """Whether its leases have been renewed of late: at a long job it asks for no other."""
    if lease_ends_at is None or not sign.lease_s or not sign.is_elsewhere:
        return False
    return (lease_ends_at - now).total_seconds() > sign.lease_s / 3


def _state(newest: Worker, connections: int | None, *, is_live: bool) -> State:
    if newest.stopped_at is not None and not is_live:
        return State.STOPPED
    if not is_live:
        return State.SILENT
    return State.UNCONNECTED if connections == 0 else State.LIVE


def clock_ahead_s(sign: Worker) -> float | None:
    """How far the worker's clock is before the database's, as far as its sign tells."""
    try:
        clock = datetime.fromisoformat(sign.told["clock"])
        return (clock - sign.seen_at).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None
