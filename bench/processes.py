"""Processes as the bench sees them: started, asked for their CPU and memory, stopped.

Reads /proc, so the bench runs on Linux. Signals go only to what it started, by number.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# A worker gets this long to stop by itself; what it was doing counts as done only if it says so.
PATIENCE_S = 15.0


def children(pid: int) -> list[int]:
    """All living descendants of ``pid``."""
    found: list[int] = []
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in place.read_text().split():
                found += [int(child), *children(int(child))]
    return found


def cpu_seconds(pid: int) -> float:
    """Seconds that ``pid``, its descendants, and those that have ended, have used."""
    return sum(_cpu(one) for one in [pid, *children(pid)])


def _cpu(pid: int) -> float:
    with suppress(OSError):
        # After the name in parentheses, which may hold anything: utime is the 14th field.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def peak_mib(pid: int) -> float:
    """The sum of the largest resident sizes of ``pid`` and its living descendants."""
    return sum(_status_mib(one, "VmHWM:") for one in [pid, *children(pid)])


def resident_mib(pid: int) -> float:
    """What they hold now."""
    return sum(_status_mib(one, "VmRSS:") for one in [pid, *children(pid)])


def _status_mib(pid: int, name: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0


@dataclass
class Process:
    """One that the bench started, with the file that has all it said."""

    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def said(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:].strip()


def start(
    command: Sequence[str | Path], environment: Mapping[str, str], *, cwd: Path, log: Path
) -> Process:
    """Start ``command``, everything it says going to ``log``.

    In a session of its own, so that Ctrl-C reaches the bench alone, which then stops it.
    """
    with log.open("wb") as output:
        popen = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(popen, log)


def stop(processes: Sequence[Process]) -> None:
    """Ask all to stop, then end those that do not, and what they leave behind."""
    descendants = [child for one in processes for child in children(one.pid)]
    for one in processes:
        if one.is_running():
            one.popen.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_S
    for one in processes:
        try:
            one.popen.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            descendants += children(one.pid)
            one.popen.kill()
            one.popen.wait()
    for child in descendants:
        _end_leftover(child, {one.pid for one in processes})


def _end_leftover(pid: int, sessions: set[int]) -> None:
    """Kill ``pid`` if it still is a process of ours: its number may be somebody else's by now."""
    with suppress(OSError):
        if os.getsid(pid) in sessions:
            os.kill(pid, signal.SIGKILL)
