"""The demo's processes: started as in production, from the Procfile, and stopped for certain.

Each runs in a session of its own: Ctrl-C in the terminal reaches the demo alone, which then gives
every child exactly one signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from queueapp.errors import QueueError

_PATIENCE_S = 8.0
_TICK_S = 0.05
_LAST_LINES = 15


class ChildDied(QueueError):
    """A process of the demo has ended by itself."""

    code = "demo_child_died"
    title = "A process of the demo has ended"


class Child:
    """One process, its output in a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, stop: int) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._stop = stop

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def must_run(self) -> None:
        """Raise ChildDied with the end of its output if it has ended."""
        if not self.is_running:
            said = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            message = (
                f"{self.name} has ended with status {self._process.returncode}; its last words:"
            )
            raise ChildDied("\n  ".join([message, *said]))

    def ask_to_stop(self) -> None:
        """Send the one signal that means: hand back and leave."""
        if self.is_running:
            self._process.send_signal(self._stop)

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
    with log.open("wb") as output:
        return Child(name, _run(command, home, output, environment), log, stop)


def _run(
    command: str, home: Path, output: IO[bytes], environment: Mapping[str, str]
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
