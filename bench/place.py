"""Where one queue's jobs lie during a workload: a database made for it, or Redis emptied."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from bench import processes, stores
from bench.errors import Failed
from bench.installation import ROOT, Installation
from bench.peer import Kind, Peer
from bench.services import Postgres, Redis

# A producer that takes longer than this hangs.
_PATIENCE_S = 600


class Place(Protocol):
    """What the workloads ask of it."""

    server: int

    def fresh(self, filled: str = "") -> None: ...
    def finished(self) -> int: ...
    def unsettled(self) -> int: ...
    def settle_down(self) -> None: ...
    def address(self) -> dict[str, str]: ...


class Database:
    """A database on PostgreSQL, a copy of a migrated or a filled one that is made only once."""

    def __init__(self, bench: Caller, postgres: Postgres, sizes: dict[str, int]) -> None:
        self._bench, self._postgres, self._sizes = bench, postgres, sizes
        self._store = bench.peer.store
        self._name = "bench_" + bench.peer.name.replace("-", "_")
        self.server = postgres.pid
        self.url = postgres.url(self._name)

    def address(self) -> dict[str, str]:
        return {"BENCH_DSN": self.url}

    def fresh(self, filled: str = "") -> None:
        """A new database; ``filled``: the name of what lies in it already."""
        template = f"{self._name}_{filled or 'empty'}"
        if not self._postgres.exists(template):
            self._make_template(template, filled)
        self._postgres.make(self._name, template)

    def drop(self, *, templates: bool = False) -> None:
        self._postgres.drop(self._name)
        if templates:
            for filled in ("empty", *self._sizes):
                self._postgres.drop(f"{self._name}_{filled}")

    def finished(self) -> int:
        return int(self._postgres.ask(self._store.finished, self._name))

    def unsettled(self) -> int:
        return int(self._postgres.ask(self._store.unsettled, self._name))

    def settle_down(self) -> None:
        """Leave nothing of the filling to be done while the clock runs."""
        self._postgres.say("ANALYZE", self._name)
        self._postgres.say("CHECKPOINT")

    def say(self, statement: str) -> None:
        self._postgres.say(statement, self._name)

    def _make_template(self, template: str, filled: str) -> None:
        self._postgres.make(self._name)
        self._bench.call("setup")
        if filled:
            self._fill(filled)
            self._postgres.say("VACUUM ANALYZE", self._name)
        # A database that somebody uses cannot be copied; a peer's pool may be slow to leave.
        self._postgres.say(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"
        )
        time.sleep(0.2)
        self._postgres.make(template, self._name)

    def _fill(self, filled: str) -> None:
        statement = getattr(self._store, filled, None)
        if filled == "scheduled":
            statement = stores.SCHEDULED_AHEAD
        if statement is None:
            self._bench.call("bulk", self._sizes[filled])
            return
        if self._store.seed:
            self._bench.call("bulk", 1)
        with self._postgres.connect(self._name) as connection:
            for part in stores.fill(statement, self._sizes[filled]).split(";"):
                connection.execute(part.encode())


class Memory:
    """Redis, emptied."""

    def __init__(self, bench: Caller, redis: Redis, sizes: dict[str, int]) -> None:
        self._bench, self._redis, self._sizes = bench, redis, sizes
        self._store = bench.peer.store
        self.server = redis.pid

    def address(self) -> dict[str, str]:
        return {"BENCH_REDIS_PORT": str(self._redis.port)}

    def fresh(self, filled: str = "") -> None:
        self._redis.ask("FLUSHALL")
        if filled:
            self._bench.call("bulk", self._sizes[filled])

    def drop(self, *, templates: bool = False) -> None:
        self._redis.ask("FLUSHALL")

    def finished(self) -> int:
        return int(self._redis.ask(*self._store.finished.split()))

    def unsettled(self) -> int:
        return int(self._redis.ask(*self._store.unsettled.split()))

    def settle_down(self) -> None:
        """Nothing is left to be done there."""


class Caller:
    """Runs a peer's adaptor: its producer until it has answered, its workers until stopped."""

    def __init__(self, peer: Peer, installation: Installation, scratch: Path) -> None:
        self.peer = peer
        self._installation = installation
        self._scratch = scratch
        self.address: dict[str, str] = {}

    def call(self, *words: object) -> dict[str, Any]:
        """Run the adaptor with ``words``; return its answer. Raises Failed with what it said."""
        command = [*self._adaptor(), *map(str, words)]
        try:
            ran = subprocess.run(
                command, env=self._environment(), cwd=ROOT, check=False, text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"{words[0]} took longer than {_PATIENCE_S} s") from None
        if ran.returncode:
            raise Failed(f"{words[0]}: {_last_words(ran.stderr or ran.stdout)}")
        answers = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        answer: dict[str, Any] = json.loads(answers[-1]) if answers else {}
        return answer

    def start_worker(self, number: int = 0) -> processes.Process:
        log = self._scratch / f"worker-{number}.log"
        command = self._worker()
        return processes.start(command, self._environment(), cwd=ROOT, log=log)

    def _adaptor(self) -> Sequence[str]:
        module = f"bench.adaptors.{self.peer.program.removesuffix('.py')}"
        if self.peer.kind is Kind.OURS:
            return [self._installation.our_python, "-m", module]
        if self.peer.kind is Kind.PYTHON:
            return [self._installation.python, "-m", module]
        return [self._installation.node, self._installation.node_program(self.peer.program)]

    def _worker(self) -> Sequence[str]:
        if self.peer.kind is Kind.OURS:
            flask = [self._installation.our_python, "-m", "flask", "--app", "wsgi"]
            return [*flask, "work", *self.peer.options]
        return [*self._adaptor(), "worker"]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        settings = {
            "BENCH_VARIANT": self.peer.variant,
            "BENCH_RECORDS": str(self._scratch / "records"),
            "PYTHONUNBUFFERED": "1",
            "NODE_ENV": "production",
        }
        if self.peer.kind is Kind.OURS:
            settings["DATABASE_URL"] = self.address.get("BENCH_DSN", "")
            settings["QUEUE_HANDLERS"] = "bench.adaptors.ours_handlers"
        return kept | settings | self.address | dict(self.peer.environment)


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:]
