"""Backpressure of the queue: what may be created while much waits, and how producers learn of it.

Each process keeps what it has last seen. Below the hard limit a creation asks for nothing but its
own number (``queueapp.jobs.room``), so that the limit holds exactly however many processes create;
the depth is looked at once a second. A full queue is looked at ten times a second, not for each
request that it refuses.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from flask import Flask, current_app
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queueapp.api.invalid import invalid_at
from queueapp.errors import InvalidRequest, QueueFull, SettingError
from queueapp.handlers import Enqueued
from queueapp.jobs import queries, room
from queueapp.jobs.room import Reading
from queueapp.jobs.transitions import NewJob

# How often the depth is looked at, and a full queue is tried again; more seldom where one count
# takes longer than a twentieth of that. Where there is room, it may take a fifth of the time.
LOOK_EVERY_S = 1.0
TRY_EVERY_S = 0.1
_SPARING, _LESS_SPARING = 20, 4
RATE_EVERY_S = 5.0
# Retry-After: between these, and this where nothing says how fast the queue is drained.
SOONEST_S, LATEST_S, UNKNOWN_S = 1, 3600, 60
# Rivals may take what room there was; after so many times it is full.
_ROUNDS = 3
# Without a hard limit, counting stops at so many times the soft one.
_SOFT_BOUND = 10

Create = Callable[[int | None], Enqueued]
CreateMany = Callable[[Sequence[NewJob]], list[Enqueued]]
_FULL = Enqueued(0, "full")


def init_app(app: Flask) -> None:
    """Give the process its own. Raises SettingError for limits that contradict each other."""
    settings = app.extensions["queue_settings"]
    soft, hard = settings.soft_limit, settings.hard_limit
    if hard and soft > hard:
        raise SettingError(
            f"QUEUE_SOFT_LIMIT: expected {hard} (QUEUE_HARD_LIMIT) at most, not {soft}",
            setting="QUEUE_SOFT_LIMIT",
        )
    app.extensions["queue_intake"] = Intake(soft, hard)


def intake() -> Intake:
    """That of this process."""
    found: Intake = current_app.extensions["queue_intake"]
    return found


class Intake:
    """Creates jobs while there is room. ``soft``, ``hard``: numbers of queued jobs, 0 for none."""

    def __init__(
        self, soft: int, hard: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._soft, self._hard, self._clock = soft, hard, clock
        self._bound = hard + 1 if hard else soft * _SOFT_BOUND
        self._measuring = threading.Lock()
        self._fields = threading.Lock()
        self._ceiling: int | None = None
        # How often it has been measured alone, and whether what was found is known to be gone.
        self._turn, self._is_used_up = 0, False
        self._depth = self._due = 0
        self._rate: float | None = None
        self._look_at = self._measure_at = self._rate_at = -math.inf

    # Creating

    def create(self, database: Session | Connection, create: Create, *, keyed: bool) -> Enqueued:
        """Create one job by ``create``, which gets the highest id it may have; None: any.

        Raises QueueFull. With a key that is known the job is found however full the queue is.
        """
        self._look(database)
        made = self._create_below(database, create, keyed=keyed) if self._hard else create(None)
        self._count([made])
        return made

    def create_many(
        self,
        session: Session,
        jobs: Sequence[NewJob],
        create: CreateMany,
        *,
        producer: str,
        atomic: bool,
    ) -> list[Enqueued]:
        """Create many in the transaction of ``session``, in which nothing was written yet.

        All or none: raises QueueFull. Not ``atomic``: those for which there is no room are full.
        """
        self._look(session)
        if not self._hard or not jobs:
            made = create(jobs)
        else:
            many = _Many(session, jobs, create, producer)
            made = self._create_many_below(many, atomic=atomic)
        self._count(made)
        return made

    def _create_below(
        self, database: Session | Connection, create: Create, *, keyed: bool
    ) -> Enqueued:
        rounds = 0 if self._is_closed() else _ROUNDS
        for _ in range(rounds):
            turn, ceiling = self._turn, self._ceiling
            if ceiling is not None:
                made = create(ceiling)
                if made.outcome != "full":
                    return made
                _leave(database)
            if not self._measure_once(database, turn):
                break
        made = create(0) if keyed else _FULL
        if made.outcome == "full":
            raise self.full(1)
        return made

    def _create_many_below(self, many: _Many, *, atomic: bool) -> list[Enqueued]:
        if self._is_closed():
            return self._what_fits(many, ceiling=0, last_id=0, atomic=atomic)
        ceiling = self._ceiling
        if ceiling is not None:
            last_id = room.enter(many.session)
            if last_id + len(many.jobs) <= ceiling:
                made = many.create(many.jobs)
                if _is_below(ceiling, made):
                    return made
            elif not self._may_measure():
                return self._what_fits(many, ceiling=ceiling, last_id=last_id, atomic=atomic)
            _leave(many.session)
        # Nobody else creates from here on to the end of the transaction.
        with self._measuring:
            ceiling, last_id = self._measure(many.session)
        return self._what_fits(many, ceiling=ceiling, last_id=last_id, atomic=atomic)

    def _what_fits(
        self, many: _Many, *, ceiling: int, last_id: int, atomic: bool
    ) -> list[Enqueued]:
        known, unknown = many.by_key()
        places = max(ceiling - last_id, 0)
        if atomic and len(unknown) > self._hard:
            raise self._never(unknown[self._hard])
        if atomic and len(unknown) > places:
            raise self.full(len(unknown) - places)
        # The new ones first: each job draws a number, one that is known as well.
        found: dict[int, Enqueued] = {}
        for part in (unknown[:places], known):
            made = many.create([many.jobs[place] for place in part])
            found.update(zip(part, made, strict=True))
        if not _is_below(ceiling, found.values()):
            _leave(many.session)
            raise self.full(len(unknown))
        return [found.get(place, _FULL) for place in range(len(many.jobs))]

    # What producers are told

    def headers(self) -> dict[str, str]:
        """What an answer says while more waits than the soft limit."""
        with self._fields:
            if not self._soft or self._depth <= self._soft:
                return {}
            wait = "unknown" if not self._rate else str(math.ceil(self._due / self._rate) or 1)
        return {"Queue-Estimated-Wait": wait}

    def full(self, jobs: int) -> QueueFull:
        """The refusal: there is no room for so many jobs."""
        return QueueFull(
            f"{self._hard} jobs may wait in this queue (QUEUE_HARD_LIMIT), and there is no room for"
            f" {jobs} more; nothing was created: try again later",
            retry_after=self.retry_after(jobs),
        )

    def _never(self, place: int) -> InvalidRequest:
        """The refusal of a bulk that no wait would let in."""
        said = f"more new jobs than may wait in this queue, {self._hard}; send several requests"
        return invalid_at((place,), said)

    def retry_after(self, jobs: int) -> int:
        """In how many seconds there should be room for so many, at the present rate."""
        with self._fields:
            over = max(self._depth - self._hard, 0)
            if not self._rate:
                return UNKNOWN_S
            seconds = math.ceil((over + jobs) / self._rate)
        return min(max(seconds, SOONEST_S), LATEST_S)

    # What this process knows

    def _is_closed(self) -> bool:
        return self._is_used_up and not self._may_measure()

    def _may_measure(self) -> bool:
        return self._clock() >= self._measure_at

    def _count(self, made: Sequence[Enqueued]) -> None:
        new = sum(one.outcome == "new" for one in made)
        with self._fields:
            self._depth += new
            self._due += new

    def _look(self, database: Session | Connection) -> None:
        """See how much waits, if it is time to; one thread does, the others go on."""
        is_known = not self._hard or self._ceiling is not None
        if not self._bound or not is_known or self._clock() < self._look_at:
            return
        if not self._measuring.acquire(blocking=False):
            return
        try:
            reading = room.measure(database, self._bound, alone=False, clock=self._clock)
            self._keep(reading)
            if self._depth > self._soft > 0:
                self._see_rate(database, reading)
            if self._ceiling is not None:
                # Lower by what came back. Never higher: somebody may be creating.
                self._ceiling = min(self._ceiling, self._ceiling_of(reading))
        finally:
            self._measuring.release()

    def _measure_once(self, database: Session | Connection, turn: int) -> bool:
        """Measure unless another thread has since ``turn``; whether there is room."""
        with self._measuring:
            if self._turn == turn:
                self._is_used_up = True
                if self._may_measure():
                    self._measure(database)
        return not self._is_closed()

    def _measure(self, database: Session | Connection) -> tuple[int, int]:
        """Measure with the gate to oneself: the ceiling, and the last id that was drawn."""
        reading = room.measure(database, self._bound, alone=True, clock=self._clock)
        self._ceiling = self._ceiling_of(reading)
        self._turn += 1
        self._is_used_up = reading.depth >= self._hard
        pause = _LESS_SPARING * reading.took_s
        if self._is_used_up:
            pause = max(TRY_EVERY_S, _SPARING * reading.took_s)
        self._measure_at = self._clock() + pause
        self._keep(reading)
        # Whoever measures may have to be refused.
        self._see_rate(database, reading)
        return self._ceiling, reading.last_id

    def _ceiling_of(self, reading: Reading) -> int:
        return reading.last_id + self._hard - reading.depth

    def _keep(self, reading: Reading) -> None:
        with self._fields:
            self._depth, self._due = reading.depth, reading.due
        self._look_at = self._clock() + max(LOOK_EVERY_S, _SPARING * reading.took_s)

    def _see_rate(self, database: Session | Connection, reading: Reading) -> None:
        if self._clock() >= self._rate_at:
            self._rate = queries.claims_per_s(database, reading.now)
            self._rate_at = self._clock() + RATE_EVERY_S


class _Many:
    """Jobs that are to be created together."""

    def __init__(
        self, session: Session, jobs: Sequence[NewJob], create: CreateMany, producer: str
    ) -> None:
        self.session, self.jobs, self.create, self.producer = session, jobs, create, producer

    def by_key(self) -> tuple[list[int], list[int]]:
        """The places of jobs whose key is there already, and those of the others."""
        keys = [job.key for job in self.jobs if job.key is not None]
        there = room.known_keys(self.session, self.producer, keys) if keys else set()
        known: list[int] = []
        unknown: list[int] = []
        for place, job in enumerate(self.jobs):
            (known if job.key in there else unknown).append(place)
        return known, unknown


def _is_below(ceiling: int, made: Iterable[Enqueued]) -> bool:
    return all(one.id <= ceiling for one in made if one.outcome == "new")


def _leave(database: Session | Connection) -> None:
    """Give up the gate, and what was done behind it: two who stay and want it alone would wait."""
    if isinstance(database, Session):
        database.rollback()
