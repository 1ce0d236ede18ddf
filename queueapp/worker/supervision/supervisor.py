"""Keeps worker processes at work: restarts what died, replaces what asks for it, ends all in time.

It holds no connection and does no job itself. A stop is passed on once a signal: SIGTERM means
finish what runs, however often it comes; SIGINT after it means hurry. What still runs some seconds
after the grace is killed.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from queueapp.jobs.transitions import Death
from queueapp.worker.bell import Bell
from queueapp.worker.shutdown import MARGIN_S
from queueapp.worker.supervision.child import Child, End
from queueapp.worker.supervision.lifeline import Word
from queueapp.worker.supervision.statuses import HOPELESS, REPLACE, STOPPED, UNAVAILABLE

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
# A process that has lived this long was well: what kills it now has nothing to do with its start.
WELL_AFTER_S = 10.0
# So many starts in a row that never came as far as working: about two minutes.
MOST_FALSE_STARTS = 10
# One that somebody has stopped; a signal to all processes may be on its way here.
AFTER_STOP_S = 1.0
# All that a process does of itself after its grace takes less, however slow the database: one that
# has announced its end and is still there hangs in something that was registered with atexit.
ENDS_WITHIN_S = 30.0
# How long the end waits for jobs of dead processes to be taken back.
TAKE_BACK_S = 3.0
LOOK_EVERY_S = 0.25


@dataclass
class Slot:
    """The place of one worker process; its ``child`` changes."""

    number: int
    child: Child | None = None
    start_at: float = 0.0
    quick_ends: int = 0
    false_starts: int = 0
    done: bool = False


class Supervisor:
    """Build it, ``run`` it, read its exit status.

    ``start`` starts a worker process, ``bereave`` takes back what a dead one held: it is called in
    a thread of its own and may take its time.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        bereave: Callable[[Death], None],
        *,
        processes: int,
        grace: float,
        drain: bool = False,
    ) -> None:
        self._start = start
        self._bereave = bereave
        self._grace = grace
        self._drain = drain
        self._slots = [Slot(number) for number in range(1, processes + 1)]
        self._replaced: list[tuple[Slot, Child]] = []
        self._bell = Bell()
        self._deadline: float | None = None
        self._failed = False
        self._threads: list[threading.Thread] = []

    def run(self, *, for_good: bool = False) -> int:
        """Supervise until stopped, drained, or without hope; the exit status.

        ``for_good``: the process ends then, and hears no signal any more.
        """
        heard = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
        with self._bell.hearing(*heard, for_good=for_good):
            while self._look():
                for number in self._bell.wait(LOOK_EVERY_S):
                    if number != signal.SIGCHLD:
                        self._asked(number)
        deadline = time.monotonic() + TAKE_BACK_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        log.info("supervisor stopped%s", ": not in good order" * self._failed)
        return int(self._failed)

    @property
    def _stopping(self) -> bool:
        return self._deadline is not None

    def _children(self) -> list[tuple[Slot, Child]]:
        here = [(slot, slot.child) for slot in self._slots if slot.child is not None]
        return here + self._replaced

    def _look(self) -> bool:
        """Hear, bury, start, and kill what is over its time; whether there is more to do."""
        for slot, child in self._children():
            self._look_at(slot, child)
        if self._deadline is None:
            for slot in self._slots:
                self._fill(slot)
        elif time.monotonic() >= self._deadline:
            self._kill_all()
        open_ = not self._stopping and any(not slot.done for slot in self._slots)
        return open_ or bool(self._children())

    def _look_at(self, slot: Slot, child: Child) -> None:
        child.hear()
        if child.to_be_replaced and slot.child is child and not self._stopping:
            # It finishes what it runs beside its successor: no capacity is lost meanwhile.
            self._replaced.append((slot, child))
            slot.child, slot.start_at = None, 0.0
        if end := child.end():
            self._ended(slot, child, end)
        elif child.leaves_for_s > self._grace + ENDS_WITHIN_S:
            self._kill(slot, child)

    # Signals

    def _asked(self, number: int) -> None:
        again = self._stopping and number == signal.SIGINT
        log.info("%s received: %s", signal.Signals(number).name, _TOLD[again])
        self._stop(Word.HURRY if again else Word.STOP)

    def _stop(self, word: Word) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace + MARGIN_S
        if word is Word.HURRY:
            self._deadline = min(self._deadline, time.monotonic() + MARGIN_S)
        for _, child in self._children():
            child.tell(word)
            if child.name is None:
                child.interrupt()

    def _kill(self, slot: Slot, child: Child) -> None:
        log.error("worker process %d (pid %d) is over its time: killed", slot.number, child.pid)
        child.kill()

    def _kill_all(self) -> None:
        for slot, child in self._children():
            self._kill(slot, child)
        # Even a kill takes a moment.
        self._deadline = time.monotonic() + MARGIN_S

    # The life of a child

    def _fill(self, slot: Slot) -> None:
        if slot.child is not None or slot.done or time.monotonic() < slot.start_at:
            return
        try:
            slot.child = self._start()
        except OSError as error:
            wait = self._wait(slot)
            log.error("worker process %d: %s, again in %.1fs", slot.number, error, wait)
            return
        log.info("worker process %d: started as pid %d", slot.number, slot.child.pid)

    def _ended(self, slot: Slot, child: Child, end: End) -> None:
        if child.name is not None and not end.orderly:
            self._take_back(Death(f"worker:{child.name}", end.how, end.crashed))
            # One that was just starting dies of the platform's signal, and holds nothing.
            self._failed = self._failed or self._stopping
        if slot.child is not child:
            self._replaced.remove((slot, child))
            self._log_end(slot, child, end, "")
            return
        slot.child = None
        if self._stopping:
            self._log_end(slot, child, end, "")
        elif self._drain and end.orderly and end.status == STOPPED:
            slot.done = True
            self._log_end(slot, child, end, "")
        elif child.name is None and end.status in HOPELESS:
            self._lose_hope(slot, child, end)
        else:
            self._come_back(slot, child, end)

    def _come_back(self, slot: Slot, child: Child, end: End) -> None:
        if end.orderly:
            wait = 0.0 if end.status == REPLACE else AFTER_STOP_S
            slot.start_at = time.monotonic() + wait
        else:
            ready = child.name is not None or end.status == UNAVAILABLE
            slot.false_starts = 0 if ready else slot.false_starts + 1
            if slot.false_starts >= MOST_FALSE_STARTS:
                self._lose_hope(slot, child, end)
                return
            if end.lived_s >= WELL_AFTER_S:
                slot.quick_ends = 0
            wait = self._wait(slot)
        self._log_end(slot, child, end, f", again in {wait:.1f}s")

    def _wait(self, slot: Slot) -> float:
        """Let the slot wait, longer each time in a row."""
        slot.quick_ends += 1
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (slot.quick_ends - 1))
        wait = longest * random.uniform(0.8, 1.0)  # noqa: S311
        slot.start_at = time.monotonic() + wait
        return wait

    def _lose_hope(self, slot: Slot, child: Child, end: End) -> None:
        self._log_end(slot, child, end, ": a restart cannot help, stopping")
        self._failed = True
        self._stop(Word.STOP)

    def _log_end(self, slot: Slot, child: Child, end: End, further: str) -> None:
        unborn = child.name is None and self._stopping
        log.log(
            logging.INFO if end.orderly or unborn else logging.ERROR,
            "worker process %d (pid %d) ended after %.0fs: %s%s",
            slot.number, child.pid, end.lived_s, end.how, further,
        )  # fmt: skip

    def _take_back(self, death: Death) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._bereave, args=(death,), daemon=True)
        self._threads.append(thread)
        thread.start()


_TOLD = {False: "the worker processes finish what runs", True: "hurrying"}
