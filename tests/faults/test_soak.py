"""A steady load for a while: threads, memory, open files and connections stay level.

``SOAK_MINUTES=20 bin/test --slow -s tests/faults/test_soak.py`` is the long one, with its table.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until

MINUTES = float(os.environ.get("SOAK_MINUTES", "1"))
EVERY_S = 2.0
JOBS_A_SECOND = 20
PAGES = ("/", "/jobs", "/jobs?status=failed", "/events", "/api/stats", "/readyz")

# The first third warms up: modules, pools, prepared statements. Then nothing grows but by what one
# look differs from the next: a connection that was just opened anew, a file that is being read, a
# handler's thread that has not been seen yet. Memory comes in arenas of 1 MiB, for each of several
# threads; a leak of 200 bytes a job is 1.6 MiB in the last third of 20 minutes.
MARGINS = {"threads": 1.0, "files": 2.0, "MiB": 3.0}
CONNECTIONS_MARGIN = 1.0

CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-%%'
"""


@dataclass
class Level:
    """What was measured of one thing, oldest first."""

    seen: list[float] = field(default_factory=list)

    def third(self, which: int) -> float:
        """The median of the first, second or last third."""
        size = len(self.seen) // 3
        return median(self.seen[which * size : (which + 1) * size])


class Watch:
    """Looks at every process now and then."""

    def __init__(self, journey: Journey) -> None:
        self.levels: dict[tuple[str, str], Level] = {}
        self._journey = journey

    def look(self) -> None:
        for name, pid in self._processes():
            for what, much in measured(pid).items():
                self.levels.setdefault((name, what), Level()).seen.append(much)
        connections = self._journey.one(CONNECTIONS)
        self.levels.setdefault(("all", "connections"), Level()).seen.append(connections)

    def _processes(self) -> Iterator[tuple[str, int]]:
        for process in self._journey.processes.all:
            yield process.name, process.pid
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            for place, child in enumerate(children.split()):
                yield f"{process.name}.{place + 1}", int(child)

    def table(self) -> Iterator[str]:
        yield f"\n{'':16}{'':12}{'first':>10}{'second':>10}{'last third':>12}"
        for (name, what), level in sorted(self.levels.items()):
            first, second, last = (level.third(which) for which in range(3))
            yield f"{name:16}{what:12}{first:>10.1f}{second:>10.1f}{last:>12.1f}"

    def grown(self) -> list[str]:
        """What the last third has more of than the second."""
        return [
            f"{name} {what}: {level.third(1):.1f}, then {level.third(2):.1f}"
            for (name, what), level in self.levels.items()
            if level.third(2) > level.third(1) + MARGINS.get(what, CONNECTIONS_MARGIN)
        ]


def measured(pid: int) -> dict[str, float]:
    """Threads, open files and resident memory of a process."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return {
        "threads": float(status["Threads"]),
        "files": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "MiB": int(status["VmRSS"].split()[0]) / 1024,
    }


def poll(web: Web, over: threading.Event, wrong: list[str]) -> None:
    """Ask for every page in turn, as open consoles do."""
    while True:
        for page in PAGES:
            if over.wait(0.25):
                return
            status = web.ask("GET", page).status
            if status != 200:
                wrong.append(f"{status} from {page}")


def feed(journey: Journey, seconds: float, watch: Watch) -> list[int]:
    """Create jobs at a steady rate, some that fail at first, and look every few seconds."""
    made: list[int] = []
    began = time.monotonic()
    looks = 0
    while (spent := time.monotonic() - began) < seconds:
        due = int(spent * JOBS_A_SECOND) - len(made)
        if due > 0:
            kind, payload = (
                ("journey.flaky", {}) if len(made) % 7 == 0 else ("journey.tick", {"ms": 20})
            )
            made += journey.enqueue(kind, payload, count=due)
        if spent >= looks * EVERY_S:
            watch.look()
            looks += 1
        time.sleep(0.05)
    return made


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60) + 240)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc is Linux's")
def test_under_a_steady_load_threads_memory_files_and_connections_stay_level(
    journey: Journey,
) -> None:
    web = journey.web()
    journey.workers(2, "--concurrency", "5")
    watch, over = Watch(journey), threading.Event()
    wrong: list[str] = []
    console = threading.Thread(target=poll, args=(web, over, wrong))
    console.start()
    try:
        jobs = feed(journey, MINUTES * 60, watch)
    finally:
        over.set()
        console.join()

    sys.stdout.write("\n".join([*watch.table(), f"{len(jobs)} jobs", ""]))
    assert wrong == []
    assert watch.grown() == []
    journey.wait_for_end(jobs)
    assert journey.one("SELECT count(*) FROM jobs WHERE status = 'succeeded'") == len(jobs)
    until(lambda: len(journey.ledger.ends()) >= len(jobs), "every run has ended")
    stand(journey, accepted=jobs)
