"""How far the run is, on stderr: a line for each measurement, what runs now on a terminal."""

from __future__ import annotations

import sys
import time

from bench.raw import Line

_NAMES = {
    "w1": "W1 lone enqueue",
    "w2": "W2 bulk enqueue",
    "w3": "W3 drain",
    "w3b": "W3b drain by two",
    "w4": "W4 idle to start",
    "w5": "W5 deep queue",
    "w6": "W6 long history",
    "api": "lone enqueue by API",
    "scheduled": "scheduled ahead",
    "snapshot": "under a snapshot",
    "memory": "memory",
    "one": "pgbench, one by one",
    "batch": "pgbench, by hundreds",
}


class Progress:
    """Counts the steps of a run."""

    def __init__(self, steps: int) -> None:
        self._steps, self._step = steps, 0
        self._began = time.monotonic()
        self._live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """A line of its own."""
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def begin(self, peer: str, workload: str) -> None:
        """The next step is under way."""
        self._step += 1
        if self._live:
            text = f"{self._where()} {peer} {_NAMES.get(workload, workload)} …"
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def tell(self, line: Line) -> None:
        """A figure, or why there is none."""
        name = _NAMES.get(line["workload"], line["workload"])
        self.say(f"{self._where()} {line['peer']:<19} {name:<20} {outcome(line)}")

    def _where(self) -> str:
        gone = time.monotonic() - self._began
        left = gone / max(1, self._step) * (self._steps - self._step)
        clock = f"{gone // 60:3.0f}:{gone % 60:02.0f}"
        return f"[{self._step:3}/{self._steps} {clock}, about {left / 60:.0f} min left]"

    def _clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr)


def outcome(line: Line) -> str:
    """The result of one measurement in a few words."""
    if line["status"] != "ok":
        return f"{line['status']}: {line['why']}" if line["why"] else line["status"]
    if "p50" in line:
        return f"p50 {line['p50']:.1f} ms, p99 {line['p99']:.1f} ms"
    cut = "" if line.get("whole", True) else f" ({line['jobs']:,} in {line['secs']:.0f} s)"
    return f"{line['rate']:,.0f} jobs/s{cut}"
