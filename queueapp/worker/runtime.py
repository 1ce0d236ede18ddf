"""One worker process: its threads, its slots, and how it ends.

Asked to drain: no more claims, what has begun takes as long as it takes, then the process ends.

SIGTERM or SIGINT: no more claims, what has not begun is handed back, running handlers get ``grace``
seconds while their leases are renewed; then they are asked to stop and what remains is handed back
unused. A SIGTERM that comes again says nothing new, for platforms repeat it; a SIGINT that comes
again is a person in a hurry. A loop that dies or hangs ends the process non-zero.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import threading
import time

from flask import Flask
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from queueapp.extensions import db
from queueapp.handlers import kinds
from queueapp.jobs.draining import Drain
from queueapp.jobs.transitions import Keep, Outcome
from queueapp.worker import story
from queueapp.worker.attempts import Attempt, Attempts
from queueapp.worker.bell import Bell
from queueapp.worker.housekeeping import Housekeeping
from queueapp.worker.inbox import Inbox
from queueapp.worker.last_resort import end_within
from queueapp.worker.lease_keeper import LeaseKeeper
from queueapp.worker.line import Line, lines
from queueapp.worker.loop import Loop
from queueapp.worker.lost_slots import LostSlots
from queueapp.worker.pump import Pump
from queueapp.worker.recycle import Recycling
from queueapp.worker.sessions import Sessions
from queueapp.worker.settler import Settler
from queueapp.worker.shutdown import MARGIN_S, SIGN_OFF_S, Shutdown
from queueapp.worker.slots import Slots
from queueapp.worker.supervision.lifeline import Lifeline, Word
from queueapp.worker.supervision.statuses import DIED, REPLACE, STOPPED
from queueapp.worker.sweeper import Sweeper
from queueapp.worker.teller import Teller
from queueapp.worker.terms import Terms
from queueapp.worker.upkeep import Upkeep
from queueapp.worker.wakeup import Wakeup

log = logging.getLogger("queueapp.worker")

# A shutdown that takes so much longer than it may is stuck: the machine alone is not that slow.
STUCK_S = 15.0


class Worker:
    """Everything one process runs. Build it, ``run`` it, read its exit status."""

    def __init__(
        self,
        app: Flask,
        terms: Terms,
        engine: Engine,
        keep: Keep,
        lifeline: Lifeline | None = None,
    ) -> None:
        self.app = app
        self.terms = terms
        self.attempts = Attempts()
        self.recycling = Recycling(terms, self.attempts.lost)
        self.inbox = Inbox()
        with app.app_context():
            self.sessions = Sessions(db.engine)
        hot, beat, side = self._lines = lines(engine, lease_s=terms.lease, give_way=self._give_way)
        self._beat = beat
        self.slots = Slots(app, terms, self.attempts, self.inbox, self.sessions)
        self.slots.returned, self.slots.after = self._returned, self._after_one
        self.pump = Pump(terms, hot, self.attempts, self.inbox, self.slots)
        self.teller = Teller(self._gave_up)
        self.pump.tell = self.teller.settled
        if terms.settles_beside and engine.dialect.name == "postgresql":
            self.pump.settler = Settler(Line(engine), self.inbox, terms.actor, self._gave_up)
        self.keeper = LeaseKeeper(terms, beat, self.attempts, self.inbox)
        self.upkeep = Upkeep(terms, side, keep, self._kinds, LostSlots(terms, self.attempts))
        self.housekeeping = Housekeeping(
            terms, side, self.pump, self.keeper, Sweeper(terms, side), self.upkeep
        )
        self._lifeline = lifeline
        self._bell = Bell()
        # What asked for the end; nothing as long as it works.
        self._stopping, self._hurried = "", False
        self._dead: str | None = None
        self._replace: str | None = None
        self._drains: Drain | None = None
        self._listener: Loop | None = None
        self._loops = self._make_loops()
        self.housekeeping.wake = self._loops[0].wake
        self.housekeeping.drain = self._drain

    def _make_loops(self) -> list[Loop]:
        ticks = {"housekeeping": self.housekeeping.tick}
        if self.terms.concurrency > 0:
            ticks |= {"pump": self._pump_turn, "lease keeper": self.keeper.tick}
        loops = [Loop(name, tick, self._gave_up) for name, tick in ticks.items()]
        loops += [loop for loop in (self.teller, self.pump.settler) if loop]
        return loops

    def listen(self, wakeup: Wakeup) -> None:
        """Hear of new jobs at once; without it they wait for the poll."""
        wakeup.come_after(self._lines, lambda: self.sessions.are_short)
        self._listener = Loop("wakeup", wakeup.tick, self._gave_up)
        self._loops.append(self._listener)

    # What threads call

    def _give_way(self) -> None:
        """Let go of connections of lesser use: the leases need one."""
        self.sessions.give_way()
        if settler := self.pump.settler:
            settler.rest()

    def _pump_turn(self) -> float:
        wait = self.pump.turn()
        if self.terms.drain and self.pump.drained:
            self._bell.ring()
        return wait

    def _returned(self, attempt: Attempt, outcome: Outcome) -> None:
        self.pump.prefetch.measured(
            attempt.claim.kind, outcome.ran_s or 0.0, well=outcome.verb == "succeed"
        )
        story.returned(attempt, outcome)

    def _after_one(self) -> None:
        if self.recycling.finished() or not self.pump.claiming:
            self._bell.ring()

    def _kinds(self) -> tuple[str, ...]:
        terms = self.terms
        wanted = terms.only or tuple(handler.kind for handler in kinds())
        return tuple(kind for kind in wanted if kind not in terms.skip)

    def _gave_up(self, name: str, how: str = "died") -> None:
        self._dead = f"{name} {how}"
        self._bell.ring()

    def _drain(self, asked: Drain) -> None:
        """Take nothing more, and end once nothing runs."""
        if self._drains is None:
            self._drains = asked
            log.info("worker %s takes nothing more: %s", self.terms.name, asked.said)
            self.pump.claiming = False
            self.upkeep.drains()
            self.inbox.wake()
            self._bell.ring()

    # The life of the process

    def stop(self, *, hurry: bool = False) -> None:
        """Ask for an end, as a signal does."""
        self._hurried = self._hurried or hurry
        self._stopping = self._stopping or "asked by its supervisor"
        self._bell.ring()

    def run(self, *, for_good: bool = False) -> int:
        """Work until told to stop, drained, replaced, or a loop has died; the exit status.

        ``for_good``: the process ends then, and hears no signal any more.
        """
        if self._lifeline:
            self._lifeline.listen(self.stop)
        with self._bell.hearing(signal.SIGTERM, signal.SIGINT, for_good=for_good):
            self._start()
            while not self._finished():
                self._pause(1.0)
                self._look_at_loops()
            if for_good:
                end_within(self.terms.grace + MARGIN_S + STUCK_S)
            self._shut_down()
        return self._end()

    def _end(self) -> int:
        name = self.terms.name
        if self._dead:
            log.critical("worker %s stopped: %s", name, self._dead)
            return DIED
        if self._replace and not self._stopping:
            log.warning("worker %s stopped, to be replaced: %s", name, self._replace)
            return REPLACE
        log.info("worker %s stopped%s", name, f": {self._drains.said}" if self._drains else "")
        return STOPPED

    def _say(self, word: Word, about: str = "") -> None:
        if self._lifeline:
            self._lifeline.say(word, about)

    def _start(self) -> None:
        terms = self.terms
        self._say(Word.READY, terms.name)
        log.info(
            "worker %s: %d threads, lease %gs, grace %gs, kinds %s",
            terms.name, terms.concurrency, terms.lease, terms.grace,
            ", ".join(self._kinds()) or "none",
        )  # fmt: skip
        if tight := self.recycling.too_tight():
            log.warning("%s", tight)
        # What is there from the start stays, and need not be looked through again and again.
        gc.collect()
        gc.freeze()
        self.slots.start()
        if terms.concurrency > 0:
            # Leases come first when the server has few connections left.
            with contextlib.suppress(SQLAlchemyError):
                self._beat.open()
        self.pump.blind = True
        for loop in self._loops:
            loop.start()

    def _pause(self, seconds: float) -> None:
        for number in self._bell.wait(seconds):
            # Under a supervisor one Ctrl-C may come twice: from the terminal and from there, which
            # is why only the supervisor hurries.
            heard = number == signal.SIGINT and not self._lifeline
            again, name = bool(self._stopping) and heard, signal.Signals(number).name
            log.info("%s received%s", name, _HURRY[again])
            self._stopping = self._stopping or name
            self._hurried = self._hurried or again

    def _look_at_loops(self) -> None:
        for loop in self._loops:
            if loop.hangs():
                self._gave_up(loop.name, "hangs")

    def _finished(self) -> bool:
        drained = self.terms.drain and self.pump.drained
        if self._stopping or self._dead or drained:
            return True
        if self._drains:
            # However long it takes: there is no hurry, unless somebody sends a signal as well.
            return self.pump.closed and not self.attempts.leases()
        self._replace = self.recycling.reason()
        return self._replace is not None

    def _shut_down(self) -> None:
        self._say(Word.REPLACE if self._replace else Word.LEAVING)
        if self._replace:
            log.info("worker %s takes nothing more: %s", self.terms.name, self._replace)
        if self._listener:
            self._listener.stop()
        shutdown = Shutdown(
            self.terms,
            self.attempts,
            self.inbox,
            self.pump,
            self._loops,
            pause=self._pause,
            sign_off=self._sign_off,
            is_hurried=lambda: self._hurried,
            is_dead=lambda: self._dead is not None,
        )
        shutdown.run()
        self.teller.tell()
        for line in self._lines:
            line.cut()
        self.close()

    def close(self) -> None:
        """Close the connections of the loops."""
        for line in self._lines:
            line.drop()
        if settler := self.pump.settler:
            settler.line.drop()

    def _sign_off(self) -> None:
        # Who still waits for the database now waits in vain, and must not keep us from leaving.
        pump, *others = self._lines
        for line in others:
            line.cut(but_for=pump)
        deadline = time.monotonic() + SIGN_OFF_S
        # In a thread of its own, for it may wait much longer for an answer than we do.
        last = threading.Thread(target=self._say_good_bye, name="sign-off", daemon=True)
        for thread in (self._loops[0], last):
            if thread is last:
                last.start()
            thread.join(max(deadline - time.monotonic(), 0.0))
            if thread.is_alive():
                log.warning("could not sign off: the database does not answer")
                return

    def _say_good_bye(self) -> None:
        try:
            drained = self._drains and self._drains.said
            self.upkeep.sign_off(self._dead or self._replace or drained or self._stopping or "done")
        except SQLAlchemyError as error:
            log.warning("could not sign off: %s", type(error).__name__)


_HURRY = {False: ": finishing what runs", True: " again: hurrying"}
