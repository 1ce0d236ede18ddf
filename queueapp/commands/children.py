"""Processes of the product that a command starts: from the Procfile, as in production, and stopped
for certain.

Each runs in a session of its own: Ctrl-C in the terminal reaches the command alone, which then
gives every child exactly one signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from queueapp.errors import QueueError

_PATIENCE_S = 8.0
_TICK_S = 0.05
_LAST_LINES = 15
_LOOK_EVERY_S = 1.0
# Whoever tries what a kill does is slower than a process that cannot start.
_MOST_ENDS = 5
_ENDS_WITHIN_S = 30.0


class ChildDied(QueueError):
    """A process that the command needs has ended by itself."""

    code = "child_died"
    title = "A process has ended by itself"


class Child:
    """One process, its output in a file. ``run``: starts it, and what it says goes there."""

    def __init__(
        self, name: str, run: Callable[[IO[bytes]], subprocess.Popen[bytes]], log: Path, stop: int
    ) -> None:
        self.name = name
        self.log = log
        self._run = run
        self._stop = stop
        self._ends: list[float] = []
        with log.open("wb") as output:
            self._process = run(output)

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status; below zero the signal that ended it; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """All of its output."""
        return self.log.read_text(errors="replace")

    def must_run(self) -> None:
        """Raise ChildDied with the end of its output if it has ended."""
        if not self.is_running:
            said = self.said().splitlines()[-_LAST_LINES:]
            message = (
                f"{self.name} has ended with status {self._process.returncode}; its last words:"
            )
            raise ChildDied("\n  ".join([message, *said]))

    def start_again(self) -> None:
        """Start it anew, with what is left of its group ended first.

        Raises as ``must_run`` if it has ended again and again: it cannot run here.
        """
        self._ends = [*self._ends, time.monotonic()][-_MOST_ENDS:]
        if len(self._ends) == _MOST_ENDS and self._ends[-1] - self._ends[0] < _ENDS_WITHIN_S:
            self.must_run()
        self.kill()
        with self.log.open("ab") as output:
            self._process = self._run(output)

    def send(self, number: int) -> None:
        """Send a signal to the process alone, if it has not ended."""
        if self.is_running:
            self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Send the one signal that means: hand back and leave."""
        self.send(self._stop)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; whether it came in time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.is_running

    def kill(self) -> None:
        """End the whole group, whatever it is doing."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()


def start(
    name: str, command: str, *, home: Path, log: Path, environment: Mapping[str, str]
) -> Child:
    """Run a command line of the Procfile in ``home``, its output into ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # gunicorn drains its connections on SIGTERM; a person at Ctrl-C does not wait for open tabs.
    stop = signal.SIGINT if name == "web" else signal.SIGTERM
    return Child(name, partial(_run, command, home, environment), log, stop)


def _run(
    command: str, home: Path, environment: Mapping[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    scripts = str(Path(sys.executable).parent)
    path = f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=home,
        env={**os.environ, **environment, "PATH": path, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop_all(children: list[Child], hurry: Callable[[], bool]) -> None:
    """Ask all to stop at once, wait some seconds, end what is left. ``hurry``: wait no longer."""
    for child in children:
        child.ask_to_stop()
    deadline = time.monotonic() + _PATIENCE_S
    while any(child.is_running for child in children):
        if hurry() or time.monotonic() > deadline:
            break
        time.sleep(_TICK_S)
    for child in children:
        child.kill()


def procfile(home: Path) -> dict[str, str]:
    """The command lines of the Procfile by process name."""
    lines = (home / "Procfile").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
    return {name.strip(): command.strip() for name, command in pairs}


def end_with(parent: int) -> None:
    """In a child: end this process and its group once ``parent`` is gone, however it went."""
    threading.Thread(target=_look_for, args=(parent,), name="parent", daemon=True).start()


def _look_for(parent: int) -> None:
    while True:
        time.sleep(_LOOK_EVERY_S)
        try:
            os.kill(parent, 0)
        except (ProcessLookupError, PermissionError):  # gone, or its number is somebody else's now
            os.killpg(0, signal.SIGKILL)
