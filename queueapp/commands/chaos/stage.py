"""Where it all happens: a throw-away PostgreSQL, a web process, workers, and the harm done to them.

Everything lies in one temporary folder and belongs to nobody else: no setting of the environment,
least of all DATABASE_URL, reaches these processes. Used from one thread.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import psycopg
import urllib3

from queueapp import local_postgres
from queueapp.commands import children
from queueapp.commands.chaos.faults import Fault, Kind
from queueapp.commands.children import Child, ChildDied
from queueapp.config import Settings

# Named, not imported: they are kinds of these processes alone.
KINDS = "queueapp.commands.chaos.kinds"
# The variables by which a process learns where to note, and without whom it has no business.
LEDGER = "CHAOS_LEDGER"
PARENT = "CHAOS_PARENT"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - looked for in the Procfile, to be replaced
_READY_S = 120.0
_TICK_S = 0.05
_AGAIN_S = 1.0
_READY = "threads, lease"

_CUT = """
SELECT pg_terminate_backend(pid) FROM (
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND application_name LIKE 'queueapp-%%'
  ORDER BY md5(pid::text || %s) LIMIT %s
) victims
"""


class Stage:
    """The processes of one run. ``deaths``: when workers were killed, by pid; ``fell``: those that
    ended by themselves; ``away``: for how many seconds each restart took PostgreSQL away.
    """

    def __init__(self, home: Path, root: Path, workers: int, lease: float) -> None:
        self.ledger = home / "ledger.jsonl"
        self.ledger.touch()
        self.done: Counter[Kind] = Counter()
        self.deaths: dict[int, float] = {}
        self.fell: list[str] = []
        self.away: list[float] = []
        self._home, self._root = home, root
        self._commands = children.procfile(root)
        self._server = local_postgres.start(home / "postgres", durable=True)
        self._port = local_postgres.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.database_url = self._server.url
        self.version = self._server.version
        self._settings = _settings(self.database_url, self._port, lease, self.ledger)
        self._started = 0
        self._web: Child | None = None
        self._slots: list[Child] = []
        self._again_at = [0.0] * workers
        self._all: list[Child] = []
        self._leaving: list[Child] = []
        self._ready: set[int] = set()
        self._frozen: list[tuple[float, Child]] = []

    # Beginning and end

    def open(self, interrupted: Callable[[], bool]) -> None:
        """Migrate, start everything and wait until the workers work; at once back by a signal."""
        release = self._start("release", self._commands["release"])
        while release.is_running and not interrupted():
            time.sleep(_TICK_S)
        if release.status not in (0, None):
            release.must_run()
        self._web = self._start("web", self._commands["web"].replace(_EVERYWHERE, "127.0.0.1"))
        self._slots = [self._work(slot) for slot in range(len(self._again_at))]
        deadline = time.monotonic() + _READY_S
        while not interrupted() and not self._all_ready():
            for child in (self._web, *self._slots):
                child.must_run()
            if time.monotonic() > deadline:
                raise ChildDied(f"no worker is ready after {_READY_S:g} s")
            time.sleep(_TICK_S)

    def _all_ready(self) -> bool:
        return all(map(_is_ready, self._slots)) and self._answers()

    def _answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/readyz", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def retire(self, patience: float) -> list[str]:
        """Stop the workers as a deploy does; what those say that do not leave well."""
        self.thaw(time.monotonic() + 1e6)
        for child in self._slots:
            child.ask_to_stop()
        left = [*self._slots, *self._leaving]
        deadline = time.monotonic() + patience
        for child in left:
            child.wait(max(deadline - time.monotonic(), 0.01))
        return [_named(child) for child in left if child.status != 0 and _is_ready(child)]

    def tracebacks(self) -> list[str]:
        """Faults of the product's own that its processes have logged."""
        return [
            f"{child.log.stem}, line {number}"
            for child in self._all
            for number, line in enumerate(child.said().splitlines(), 1)
            if line.startswith("Traceback ")
        ]

    def close(self, *, keep: bool) -> None:
        """Kill every process that is left, stop the server, remove its data unless ``keep``."""
        for child in (*self._all, self._web):
            if child is not None:
                child.kill()
        if keep:
            self._server.close()
        else:
            self._server.remove()

    # Harm

    def stands(self) -> bool:
        """Whether half of the workers work: on a busy machine faults wait for that, or all of them
        would hit workers that have not begun."""
        return 2 * sum(map(self._works, self._slots)) >= len(self._slots)

    def _works(self, child: Child) -> bool:
        if child.pid not in self._ready and child.is_running and _is_ready(child):
            self._ready.add(child.pid)
        frozen = any(child is other for _, other in self._frozen)
        return child.is_running and child.pid in self._ready and not frozen

    def _victim(self, fault: Fault) -> int:
        """The worker that is meant, or the next one that works."""
        count = len(self._slots)
        from_there = [(fault.worker + step) % count for step in range(count)]
        return next((slot for slot in from_there if self._works(self._slots[slot])), fault.worker)

    def strike(self, fault: Fault) -> None:
        """Do harm."""
        harm: dict[Kind, Callable[[Fault], None]] = {
            Kind.KILL: self._kill,
            Kind.DEPLOY: self._deploy,
            Kind.FREEZE: self._freeze,
            Kind.CUT: self._cut,
            Kind.IMMEDIATE: lambda _: self._server.restart(signal.SIGQUIT),
            Kind.CRASH: lambda _: self._server.restart(signal.SIGKILL),
        }
        began = time.monotonic()
        harm[fault.kind](fault)
        self.done[fault.kind] += 1
        if fault.kind in (Kind.IMMEDIATE, Kind.CRASH):
            self.away.append(time.monotonic() - began)

    def _kill(self, fault: Fault) -> None:
        slot = self._victim(fault)
        child = self._slots[slot]
        child.kill()
        self.deaths[child.pid] = time.monotonic()
        self._slots[slot] = self._work(slot)

    def _deploy(self, fault: Fault) -> None:
        """The new release starts at once, beside the old one that hands back."""
        slot = self._victim(fault)
        self._slots[slot].ask_to_stop()
        self._leaving.append(self._slots[slot])
        self._slots[slot] = self._work(slot)

    def _freeze(self, fault: Fault) -> None:
        child = self._slots[self._victim(fault)]
        child.send(signal.SIGSTOP)
        self._frozen.append((time.monotonic() + fault.lasts, child))

    def _cut(self, fault: Fault) -> None:
        with psycopg.connect(self.plain_url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(_CUT, (f"{fault.at}", 3 + 2 * fault.worker))

    # Care

    def thaw(self, now: float) -> None:
        """Let those go on that have been frozen for long enough."""
        for until, child in self._frozen:
            if until <= now:
                child.send(signal.SIGCONT)
        self._frozen = [(until, child) for until, child in self._frozen if until > now]

    def look_after(self) -> None:
        """Start workers anew that have ended by themselves, and remember those that had worked."""
        now = time.monotonic()
        for slot, child in enumerate(self._slots):
            if child.is_running or now < self._again_at[slot]:
                continue
            if _is_ready(child):
                self.fell.append(_named(child))
            self._again_at[slot] = now + _AGAIN_S
            self._slots[slot] = self._work(slot)

    @property
    def plain_url(self) -> str:
        """The address as psycopg takes it."""
        return self.database_url.replace("+psycopg", "")

    def _work(self, slot: int) -> Child:
        # Every second worker prefetches: what is claimed and not begun is lost as well.
        prefetch = {"QUEUE_PREFETCH": str(10 * (slot % 2))}
        return self._start(f"worker-{slot + 1}", self._commands["worker"], **prefetch)

    def _start(self, name: str, command: str, **settings: str) -> Child:
        self._started += 1
        log = self._home / "logs" / f"{self._started:04d}-{name}.log"
        environment = self._settings | settings
        child = children.start(name, command, home=self._root, log=log, environment=environment)
        self._all.append(child)
        return child


def _named(child: Child) -> str:
    return f"{child.log.stem}: status {child.status}"


def _is_ready(child: Child) -> bool:
    return _READY in child.said()


def _settings(database_url: str, port: int, lease: float, ledger: Path) -> dict[str, str]:
    """Every setting has its default, whatever the environment says, but for these."""
    defaults = {field.metadata["env"]: field.metadata["default"] for field in fields(Settings)}
    return defaults | {
        "DATABASE_URL": database_url,
        "PORT": str(port),
        "WEB_CONCURRENCY": "1",
        "QUEUE_HANDLERS": KINDS,
        "QUEUE_LEASE": f"{lease:g}s",
        "QUEUE_GRACE": "2s",
        "QUEUE_POLL": "0.5s",
        "QUEUE_BACKOFF_BASE": "0.2s",
        "QUEUE_BACKOFF_CAP": "2s",
        "QUEUE_RELEASE": "chaos",
        # The level at which a worker says that it is ready, and tells each job: for the hunt.
        "JOB_WORKER_LOG_LEVEL": "INFO",
        LEDGER: str(ledger),
        PARENT: str(os.getpid()),
    }
