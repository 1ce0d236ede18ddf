"""When a supervisor restarts, how long it waits, when it loses hope, and what it takes for a crash.

Its children are stand-ins here; ``tests/faults`` has real ones.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from queueapp.commands.supervise import _words
from queueapp.jobs.transitions import Death
from queueapp.worker.supervision import Lifeline, Supervisor, Word, supervisor
from queueapp.worker.supervision.child import Child, End
from queueapp.worker.supervision.statuses import REPLACE, STOPPED, UNAVAILABLE, UNUSABLE


@dataclass
class Stand:
    """A child that ends as the test says."""

    pid: int = 1
    name: str | None = "h:1:000000"
    ends: End | None = None
    to_be_replaced: bool = False
    told: list[Word] = field(default_factory=list)
    leaves_for_s: float = -1.0
    killed: bool = False

    def hear(self) -> None: ...

    def end(self) -> End | None:
        return self.ends

    def tell(self, word: Word) -> None:
        self.told.append(word)

    def interrupt(self) -> None:
        self.told.append(Word.HURRY)

    def kill(self) -> None:
        self.killed = True


class Bench:
    """A supervisor of one process, looked at by hand."""

    def __init__(self, **how: Any) -> None:
        self.children: list[Stand] = []
        self.deaths: list[Death] = []
        settings = {"processes": 1, "grace": 5.0, **how}
        self.supervisor = Supervisor(self._start, self.deaths.append, **settings)  # type: ignore[arg-type]
        self.look()

    def _start(self) -> Stand:
        self.children.append(Stand(pid=len(self.children) + 1))
        return self.children[-1]

    @property
    def slot(self) -> supervisor.Slot:
        return self.supervisor._slots[0]

    def look(self) -> bool:
        """Whether it goes on."""
        going = self.supervisor._look()
        for thread in self.supervisor._threads:
            thread.join()
        return going

    def end(self, status: int, lived_s: float = 0.1, *, announced: bool = False) -> bool:
        """The present child ends and, if anything is to follow it, the wait is skipped."""
        self.children[-1].ends = End(status, announced, lived_s)
        self.look()
        self.slot.start_at = 0.0
        return self.look()

    def wait_after(self, status: int, lived_s: float) -> float:
        child = self.children[-1]
        child.ends = End(status, False, lived_s)
        before = time.monotonic()
        self.look()
        wait = self.slot.start_at - before
        self.slot.start_at = 0.0
        self.look()
        return wait


def test_waits_grow_while_it_dies_at_once_and_begin_anew_when_it_was_well() -> None:
    bench = Bench()

    waits = [bench.wait_after(1, 0.1) for _ in range(9)]
    after_a_while = bench.wait_after(1, supervisor.WELL_AFTER_S + 1)

    assert waits[0] <= 0.6
    assert all(later > earlier for earlier, later in pairwise(waits[:7]))
    assert waits[-1] <= supervisor.LONGEST_WAIT_S + 0.1
    assert after_a_while <= 0.6


def test_a_job_may_end_its_process_with_any_status_and_it_comes_back() -> None:
    bench = Bench(drain=True)

    for status in (STOPPED, 2, 3, UNUSABLE, REPLACE):
        assert bench.end(status)

    assert len(bench.children) == 6
    assert [death.crashed for death in bench.deaths] == [True] * 5


@pytest.mark.parametrize("status", [2, 3, UNUSABLE])
def test_what_a_restart_cannot_mend_ends_it_all(status: int) -> None:
    bench = Bench()
    bench.children[-1].name = None

    assert not bench.end(status)

    assert len(bench.children) == 1
    assert bench.supervisor._failed


def test_so_many_false_starts_in_a_row_end_it_but_no_absent_database() -> None:
    bench = Bench()

    for _ in range(supervisor.MOST_FALSE_STARTS * 2):
        bench.children[-1].name = None
        assert bench.end(UNAVAILABLE)
    for _ in range(supervisor.MOST_FALSE_STARTS - 1):
        bench.children[-1].name = None
        assert bench.end(-signal.SIGSEGV)
    bench.children[-1].name = None

    assert not bench.end(-signal.SIGSEGV)


def test_what_is_to_be_replaced_has_its_successor_before_it_ends() -> None:
    bench = Bench()
    bench.children[0].to_be_replaced = True

    bench.look()
    assert len(bench.children) == 2
    bench.children[0].ends = End(REPLACE, True, 100)

    assert bench.look()
    assert len(bench.children) == 2
    assert bench.deaths == []


@pytest.mark.parametrize("to_be_replaced", [True, False])
def test_a_child_that_has_announced_its_end_and_hangs_is_killed(to_be_replaced: bool) -> None:
    bench = Bench()
    leaving = bench.children[0]
    leaving.to_be_replaced = to_be_replaced
    leaving.leaves_for_s = 5.0 + supervisor.ENDS_WITHIN_S - 1

    bench.look()
    killed_within_its_time = leaving.killed
    leaving.leaves_for_s += 2
    bench.look()

    assert (killed_within_its_time, leaving.killed) == (False, True)


def test_words_are_passed_on_and_only_a_second_interrupt_hurries() -> None:
    bench = Bench()

    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        bench.supervisor._asked(number)

    assert bench.children[0].told == [Word.STOP, Word.STOP, Word.HURRY]
    bench.children[0].ends = End(STOPPED, True, 3)
    assert not bench.look()
    assert not bench.supervisor._failed


def test_a_child_that_dies_in_the_shutdown_makes_the_end_no_good_one() -> None:
    bench = Bench()
    bench.supervisor._asked(signal.SIGTERM)

    assert not bench.end(-signal.SIGKILL)
    assert bench.supervisor._failed


def test_a_replaced_child_that_dies_in_the_shutdown_counts_as_well() -> None:
    bench = Bench()
    bench.children[0].to_be_replaced = True
    bench.look()
    bench.supervisor._asked(signal.SIGTERM)

    bench.children[0].ends = End(-signal.SIGKILL, True, 3)

    assert not bench.end(STOPPED, announced=True)
    assert bench.supervisor._failed


def test_a_machine_without_a_process_to_spare_is_waited_out() -> None:
    refused: list[int] = []

    def start() -> Any:
        refused.append(1)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    watch = Supervisor(start, lambda _death: None, processes=1, grace=1)

    assert watch._look()
    assert watch._look()
    assert len(refused) == 1, "it does not try again at once"


@pytest.mark.parametrize(
    ("status", "announced", "crashed"),
    [
        (1, False, True),
        (0, False, True),
        (-signal.SIGSEGV, False, True),
        (-signal.SIGABRT, False, True),
        (-signal.SIGKILL, False, False),
        (-signal.SIGTERM, False, False),
        (-signal.SIGRTMIN - 1, False, False),
        (1, True, False),
    ],
)
def test_only_what_a_process_did_to_itself_is_a_crash(
    status: int, announced: bool, crashed: bool
) -> None:
    assert End(status, announced, 1.0).crashed == crashed


def test_words_come_whole_over_the_line_and_its_end_is_heard() -> None:
    ours, theirs = Lifeline.pair()

    theirs.say(Word.READY, "host:1:abc")
    theirs.say(Word.LEAVING)
    assert ours.hear() == [("ready", "host:1:abc"), ("leaving", "")]
    assert ours.hear() == []
    theirs.close()
    assert ours.hear() is None
    ours.say(Word.STOP)
    ours.close()


def test_the_time_since_a_child_announced_its_end_is_counted() -> None:
    say = "import os; os.write(int(os.environ['QUEUE_LIFELINE']), b'leaving\\n'); input()"
    child = Child([sys.executable, "-c", say], {})

    before = child.leaves_for_s
    while child.end() is None:
        child.hear()

    assert before < 0 < child.leaves_for_s
    child.kill()
    assert child.leaves_for_s < 0


def test_a_child_that_still_waits_for_the_database_ends_with_its_supervisor(
    capfd: pytest.CaptureFixture[str],
) -> None:
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    child = Child([sys.executable, "-m", "flask", "--app", "wsgi", "work"], nowhere)
    said = ""
    while "takes no connection yet" not in said:
        assert child.end() is None, said
        time.sleep(0.02)
        said += capfd.readouterr().err

    child._line.close()

    assert child._process.wait(30) == STOPPED


def test_children_are_started_with_the_options_of_their_supervisor() -> None:
    options = {"concurrency": 4, "kinds": None, "grace": 0.5, "drain": True, "max_rss": 1024}

    assert list(_words(options)) == [
        "--processes=1", "--concurrency=4", "--grace=0.500000", "--drain", "--max-rss=1024",
    ]  # fmt: skip
    assert list(_words({"drain": False, "concurrency": 0})) == ["--processes=1", "--concurrency=0"]


@pytest.mark.parametrize("supervised", [True, False])
def test_only_the_supervisor_hurries_its_children(bench: Any, supervised: bool) -> None:
    """It passes a Ctrl-C on that the terminal has sent to the child as well."""
    worker = bench.worker()
    ours, theirs = Lifeline.pair()
    worker._lifeline = theirs if supervised else None

    worker.stop()
    worker._bell._heard(signal.SIGINT, None)
    worker._pause(0)

    assert worker._hurried is not supervised
    worker.stop(hurry=True)
    assert worker._hurried
    ours.close()
    theirs.close()
