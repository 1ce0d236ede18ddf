"""The processes that run the jobs: the Procfile's ``flask work``, as in production."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psycopg

from queueapp.commands import children
from queueapp.commands.bench import notes
from queueapp.commands.bench.clock import Clock
from queueapp.commands.bench.notes import Noted
from queueapp.commands.children import Child, ChildDied

# Named, not imported: it is a kind of these processes alone.
KINDS = "queueapp.commands.bench.kinds"
KIND = "bench.nothing"
# The variables by which a process learns where to note, and without whom it has no business.
FOLDER = "BENCH_FOLDER"
PARENT = "BENCH_PARENT"
_TICK_S = 0.05
_STOP_S = 30.0

_SEEN = """
SELECT count(DISTINCT scope) FROM job_events
WHERE job_id IS NULL AND event = 'worker_seen' AND id > %s
"""
_LAST_EVENT = "SELECT coalesce(max(id), 0) FROM job_events"


class Workers:
    """Starts and stops them. ``question`` is a connection for looking on."""

    def __init__(
        self, *, home: Path, folder: Path, url: str, question: psycopg.Connection, clock: Clock
    ) -> None:
        self._home, self._folder = home, folder
        self._question, self._clock = question, clock
        self._commands = children.procfile(home)
        self._settings = {
            "DATABASE_URL": url,
            "QUEUE_HANDLERS": KINDS,
            "QUEUE_ACCEPT_UNKNOWN_KINDS": "0",
            "QUEUE_EXTERNAL_KINDS": "",
            # What is to be counted must not be purged before.
            "QUEUE_KEEP_SUCCEEDED": "7d",
            PARENT: str(os.getpid()),
        }
        self._all: list[Child] = []

    def migrate(self) -> None:
        """Make the tables, with the migrations of every release."""
        release = self._start("release", self._commands["release"], self._folder)
        while release.is_running:
            self._clock.wait(_TICK_S)
        if release.status:
            release.must_run()

    def start(self, name: str, processes: int, concurrency: int) -> Crew:
        """Start ``flask work``; it is ready when each of its processes has been seen."""
        [before] = self._question.execute(_LAST_EVENT).fetchone() or (0,)
        folder = self._folder / name
        folder.mkdir()
        command = f"{self._commands['worker']} --processes {processes} --concurrency {concurrency}"
        child = self._start(name, command, folder)
        return Crew(child, folder, processes, before, self._question, self._clock)

    def _start(self, name: str, command: str, folder: Path) -> Child:
        log = self._folder / "logs" / f"{name}.log"
        environment = self._settings | {FOLDER: str(folder)}
        child = children.start(name, command, home=self._home, log=log, environment=environment)
        self._all.append(child)
        return child

    def close(self) -> None:
        """Stop what still runs, for certain."""
        children.stop_all(self._all, self._clock.in_a_hurry)


class Crew:
    """One ``flask work`` with its processes."""

    def __init__(
        self, child: Child, folder: Path, processes: int, before: int,
        question: psycopg.Connection, clock: Clock,
    ) -> None:  # fmt: skip
        self._child, self._folder = child, folder
        self._processes, self._before = processes, before
        self._question, self._clock = question, clock

    def wait_until_ready(self) -> None:
        """Wait until each process has been seen; raise ChildDied when they are not in time."""
        while not self._all_seen():
            self.must_run()
            if self._clock.left < 0:
                raise ChildDied("the workers were not ready within the time: give --for more")
            self._clock.wait(_TICK_S)

    def _all_seen(self) -> bool:
        row = self._question.execute(_SEEN, (self._before,)).fetchone()
        return row is not None and row[0] >= self._processes

    def must_run(self) -> None:
        """Raise ChildDied with its last words if it has ended."""
        self._child.must_run()

    def stop(self) -> Noted:
        """Stop them as a deploy does, and read what they have noted."""
        self._child.ask_to_stop()
        deadline = time.monotonic() + _STOP_S
        while self._child.is_running:
            if time.monotonic() > deadline:
                raise ChildDied(f"flask work did not stop within {_STOP_S:g} s")
            self._clock.wait(_TICK_S)
        if self._child.status == -signal.SIGTERM:
            raise ChildDied("the time was over before a worker was up: give --for more")
        if self._child.status:
            self._child.must_run()
        return notes.read(self._folder)
