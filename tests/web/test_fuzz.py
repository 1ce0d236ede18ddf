"""Raw bytes against gunicorn: no 5xx, memory that stays level, and everybody else is answered.

Each case comes from a seed and a number, and is told when it is one too much: ``case(seed, n)``
of ``tests.live.odd_bytes`` makes it again.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.odd_bytes import SECRET, case
from tests.live.raw import children_of, exchange, memory_of, statuses

CLIENTS = 4
MIB = 1024 * 1024


class Fuzz:
    """One run."""

    def __init__(self, web: Web, seed: int, seconds: float) -> None:
        self.web, self.seed = web, seed
        self.until = time.monotonic() + seconds
        self.numbers = itertools.count()
        self.answers: Counter[int] = Counter()
        self.faults: list[str] = []
        self.plain = 0
        self.memory: list[int] = []
        self.over = threading.Event()

    def client(self) -> None:
        """Send case after case."""
        while time.monotonic() < self.until:
            made = case(self.seed, next(self.numbers))
            said = exchange(self.web.port, made.pieces, ends=made.ends)
            found = statuses(said)
            self.answers.update(found or [0])
            # The second is a page of gunicorn's own.
            if any(status >= 500 for status in found) or b"<h1><p>" in said:
                self.faults.append(f"{made}\nanswered {said[:600]!r}")

    def bystander(self) -> None:
        """Ask what is right, all along."""
        workers = children_of(self.web.process)
        for path in itertools.cycle(("/healthz", "/api/jobs?limit=1", "/api/jobs/1")):
            answer = self.web.ask("GET", path)
            if answer.status not in (200, 404):
                self.faults.append(f"{path} was answered {answer.status}")
            self.plain += 1
            self.memory.append(memory_of(workers))
            if self.over.wait(0.1):
                return

    def run(self) -> None:
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            beside = pool.submit(self.bystander)
            clients = [pool.submit(self.client) for _ in range(CLIENTS)]
            for one in clients:
                one.result()
            self.over.set()
            beside.result()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, 3.0), pytest.param(2, 300.0, marks=pytest.mark.slow)]
)
def test_raw_bytes_cause_no_5xx_and_leave_memory_level(
    journey: Journey, seed: int, seconds: float
) -> None:
    web = journey.web(workers=2, threads=4)
    workers = children_of(web.process)
    # What comes first makes the processes as large as they will be.
    Fuzz(web, seed + 1000, seconds / 4).run()
    fuzz = Fuzz(web, seed, seconds)
    fuzz.run()

    third = len(fuzz.memory) // 3 or 1
    first, last = min(fuzz.memory[:third]) / MIB, min(fuzz.memory[-third:]) / MIB
    sys.stdout.write(
        f"seed {seed}: {next(fuzz.numbers)} cases in {seconds:g} s, {fuzz.plain} plain requests"
        f" beside; memory {first:.0f} MiB, {last:.0f} at the end, {max(fuzz.memory) / MIB:.0f}"
        f" at most; answers {dict(sorted(fuzz.answers.items()))}\n"
    )
    assert not fuzz.faults, "\n\n".join(fuzz.faults[:5])
    assert fuzz.plain > seconds / 10
    assert last < first * 1.25 + 16
    assert children_of(web.process) == workers, "a worker has died"
    said = web.process.said()
    assert "Traceback" not in said, said[-3000:]
    assert SECRET not in said
    stand(journey)
