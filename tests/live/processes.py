"""Real processes of the product: started, listened to, signalled, and killed for certain.

Each has a process group of its own and writes into a file. Nothing here sleeps for a fixed time:
tests wait for what a process says or does, with a deadline that only a failure reaches.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
# A start takes a second of CPU, and a test machine may be busy with something else.
PATIENCE_S = 40.0
_TICK_S = 0.02

Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str, within: float = PATIENCE_S) -> Found:
    """Look again and again until the answer is true; return it, or fail saying ``what``."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(_TICK_S)
    return found


class Process:
    """One process and everything it has said."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._popen = popen
        self._log = log

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def is_frozen(self) -> bool:
        """Whether SIGSTOP has stopped it."""
        return "\nState:\tT" in Path(f"/proc/{self.pid}/status").read_text()

    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def wait_until_it_says(self, pattern: str, within: float = PATIENCE_S) -> re.Match[str]:
        """Wait for a line; a process that ends without it fails the test at once."""

        def look() -> re.Match[str] | None:
            running = self.is_running
            found = re.search(pattern, self.said())
            assert found or running, f"{self.name} ended without {pattern!r}:\n{self.said()}"
            return found

        return until(look, f"{self.name} says {pattern!r}", within)

    def send(self, number: int) -> None:
        """Send a signal to this process alone, as a platform does."""
        self._popen.send_signal(number)

    def send_to_all(self, number: int) -> None:
        """Send a signal to everything that this process has started as well."""
        os.killpg(self._popen.pid, number)

    def wait(self, within: float = PATIENCE_S) -> int:
        """Wait for the end; its exit status."""
        try:
            return self._popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {within:g} s") from None

    def stop(self, number: int = signal.SIGTERM, within: float = PATIENCE_S) -> int:
        """Send a signal and wait for the end; its exit status."""
        self.send(number)
        return self.wait(within)

    def kill(self) -> None:
        """End the whole group as a machine that dies does: also one that is stopped."""
        if self.is_running:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


class Processes:
    """The processes of one test."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self.all: list[Process] = []

    def start(self, name: str, *words: str, **settings: str) -> Process:
        """Run ``python -m words`` with ``settings`` in its environment."""
        return self._start(name, [sys.executable, "-m", *words], settings)

    def start_line(self, name: str, line: str, **settings: str) -> Process:
        """Run a command line as platforms do with one of the Procfile: by a shell."""
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return self._start(name, ["/bin/sh", "-c", line], {"PATH": scripts, **settings})

    def _start(self, name: str, command: list[str], settings: Mapping[str, str]) -> Process:
        numbered = f"{name}-{len(self.all) + 1}"
        log = self._folder / f"{numbered}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **self._environment, **settings, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(numbered, popen, log)
        self.all.append(process)
        return process

    def running(self, name: str) -> list[Process]:
        """Those of a name that have not ended."""
        return [each for each in self.all if each.name.startswith(name) and each.is_running]

    def close(self) -> None:
        """Kill what is left; what each said goes to the report of a failed test."""
        closed, self.all = self.all, []
        for process in closed:
            process.kill()
            lines = process.said().splitlines()
            shown = "\n".join([f"--- {process.name} ({len(lines)} lines)", *lines[-15:], ""])
            sys.stdout.write(shown)
