"""Look up every poll interval: wake the pump for what is due, sweep, heed the controls.

One statement a tick. It is also the net below LISTEN: polling is the truth, a wake-up only hurry.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from queueapp.jobs import holds
from queueapp.jobs.control import Controls
from queueapp.jobs.draining import Drain
from queueapp.jobs.expiry import lift_expired
from queueapp.jobs.outlook import Edge, Outlook, look
from queueapp.worker.lease_keeper import LeaseKeeper
from queueapp.worker.line import Line
from queueapp.worker.looks import SHARE
from queueapp.worker.pump import Pump
from queueapp.worker.sweeper import Sweeper
from queueapp.worker.terms import Terms
from queueapp.worker.upkeep import Upkeep

JITTER = 0.15
# A claim that came back short of jobs wants to know when the next one is due: not more often than
# this, so it may start so much too late.
HURRIED_EVERY_S = 0.1
HURRY_AFTER_S = 0.02
# Control events younger than this are read at each tick, all of them once a minute: one that was
# written in a transaction open for longer is then found as well.
CONTROL_WINDOW = timedelta(hours=1)
CONTROLS_EVERY_S = 60.0
# A look at everything is due after ``SHARE`` times its own duration, and after this at the latest.
WHOLE_EVERY_S = 60.0


class Housekeeping:
    """One tick at a time, from a thread and a connection of its own."""

    def __init__(
        self,
        terms: Terms,
        line: Line,
        pump: Pump,
        keeper: LeaseKeeper,
        sweeper: Sweeper,
        upkeep: Upkeep,
    ) -> None:
        self._terms = terms
        self._line = line
        self._pump = pump
        self._keeper = keeper
        self._sweeper = sweeper
        self._upkeep = upkeep
        self._controls = Controls()
        self._controls_at = 0.0
        self._seen: datetime | None = None
        self._edge = Edge()
        self._whole_at = 0.0
        self._holds = holds.Holds()
        self._canary = 0
        self._hurried = False
        self._hurried_at = self._next_at = 0.0
        # Has the next tick come at once; whoever runs the ticks sets it.
        self.wake: Callable[[], None] = lambda: None
        # Called at each look once somebody has asked this worker to drain.
        self.drain: Callable[[Drain], None] = lambda _asked: None
        pump.look_soon = self.hurry

    def tick(self) -> float:
        """Look up and act; seconds until the next tick."""
        if self._hurried and time.monotonic() < self._next_at:
            return self._hurried_tick()
        self._hurried = False
        self._look_up()
        if self._lift_expired():
            self._look_up()
        self._move_held()
        self._upkeep.tick()
        wait = self._terms.poll * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        self._next_at = time.monotonic() + wait
        return wait

    def hurry(self) -> None:
        """From another thread: see soon when the next job is due."""
        # Not at once: the jobs that were just claimed are about to start, and come first.
        self._hurried_at = max(self._hurried_at, time.monotonic() + HURRY_AFTER_S)
        self._hurried = True
        self.wake()

    def _hurried_tick(self) -> float:
        """Look up, if the last hurried look is long enough ago, and leave the rest for later."""
        now = time.monotonic()
        if now < self._hurried_at:
            return min(self._hurried_at, self._next_at) - now
        self._hurried = False
        self._hurried_at = now + HURRIED_EVERY_S
        self._look_up()
        return max(self._next_at - time.monotonic(), 0.0)

    def _look_up(self) -> None:
        began = time.monotonic()
        whole = began >= self._whole_at
        edge = self._edge.widened() if whole else self._edge
        outlook = self._look(edge)
        if whole:
            now = time.monotonic()
            self._whole_at = now + min(SHARE * (now - began), WHOLE_EVERY_S)
        self._edge = outlook.edge
        self._heed(outlook)
        self._pump.expect_due(outlook.due_in_s)
        if outlook.overdue:
            self._sweeper.sweep(edge.low)

    def _look(self, edge: Edge) -> Outlook:
        all_controls = self._seen is None or time.monotonic() >= self._controls_at
        since = None if all_controls or self._seen is None else self._seen - CONTROL_WINDOW
        with self._line.use() as connection:
            outlook = look(connection, me=self._terms.actor, edge=edge, controls_since=since)
        if all_controls:
            self._controls_at = time.monotonic() + CONTROLS_EVERY_S
        self._seen = outlook.at
        return outlook

    def _heed(self, outlook: Outlook) -> None:
        self._controls.merge(outlook.controls)
        self._pump.paused = self._controls.pause is not None
        self._pump.holder = self._terms.holder_without(self._controls.held_kinds)
        if outlook.drain:
            self.drain(outlook.drain)
        self._pump.may_look()
        if outlook.canary and outlook.canary > self._canary:
            self._canary = outlook.canary
            self._upkeep.canary_begun()
        if outlook.cancels:
            self._keeper.hurry()

    def _lift_expired(self) -> bool:
        """Lift the pauses and holds whose time is over; whether there were any."""
        if self._seen is None or not self._controls.any_over(self._seen):
            return False
        with self._line.transaction() as connection:
            return bool(lift_expired(connection, actor=f"housekeeping:{self._terms.name}"))

    def _move_held(self) -> None:
        if self._seen is None:
            return
        with self._line.use() as connection:
            self._holds.tick(
                connection,
                self._controls,
                self._seen,
                actor=f"housekeeping:{self._terms.name}",
            )
