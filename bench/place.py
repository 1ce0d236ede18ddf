"""Where one queue's jobs lie during a workload: a database made for it, or Redis emptied."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from bench import stores
from bench.caller import Caller
from bench.services import Postgres, Redis


class Place(ABC):
    """What the workloads ask of it. ``sizes``: how many jobs each kind of filling has."""

    def __init__(self, caller: Caller, server: int, sizes: dict[str, int]) -> None:
        self.server = server
        self._caller, self._sizes = caller, sizes
        self._store = caller.peer.store
        self._ended_before = 0

    def fresh(self, filled: str = "") -> None:
        """Begin anew. ``filled`` names what lies there already: a key of the sizes."""
        self._renew(filled)
        self._ended_before = self.count(self._store.finished) if self._store.finished else 0

    def done(self, jobs: int) -> int:
        """How many of ``jobs`` that were enqueued since are done."""
        if self._store.finished:
            return self.count(self._store.finished) - self._ended_before
        assert self._store.left
        return jobs - self.count(self._store.left)

    def unsettled(self) -> int:
        """How many jobs are in the hands of a worker."""
        return self.count(self._store.unsettled)

    @abstractmethod
    def settle_down(self) -> None:
        """Leave nothing of the filling to be done while the clock runs."""

    @abstractmethod
    def drop(self, *, templates: bool = False) -> None:
        """Leave nothing behind that would burden the next queue."""

    @abstractmethod
    def count(self, query: str) -> int:
        """The number that ``query`` asks the store for."""

    @abstractmethod
    def _renew(self, filled: str) -> None: ...


class Database(Place):
    """A database on PostgreSQL, a copy of an empty or a filled one that is made only once."""

    def __init__(self, caller: Caller, postgres: Postgres, sizes: dict[str, int]) -> None:
        super().__init__(caller, postgres.pid, sizes)
        self._postgres = postgres
        self._name = "bench_" + caller.peer.name.replace("-", "_")
        self.url = postgres.url(self._name)
        self.binaries = postgres.binaries
        caller.address = {"BENCH_DSN": self.url}

    def settle_down(self) -> None:
        self._postgres.say("ANALYZE", self._name)
        self._postgres.say("CHECKPOINT")

    def drop(self, *, templates: bool = False) -> None:
        self._postgres.drop(self._name)
        if templates:
            for filled in ("empty", *self._sizes):
                self._postgres.drop(f"{self._name}_{filled}")

    def _renew(self, filled: str) -> None:
        template = f"{self._name}_{filled or 'empty'}"
        if not self._postgres.exists(template):
            self._make_template(template, filled)
        self._postgres.make(self._name, template)

    def count(self, query: str) -> int:
        return int(self._postgres.ask(query, self._name))

    def _make_template(self, template: str, filled: str) -> None:
        self._postgres.make(self._name)
        self._caller.call("setup")
        if filled:
            self._fill(filled)
            self._postgres.say("VACUUM ANALYZE", self._name)
        # A database that somebody uses cannot be copied; a peer's pool may be slow to leave.
        users = f"SELECT pid FROM pg_stat_activity WHERE datname = '{self._name}'"
        self._postgres.say(f"SELECT pg_terminate_backend(pid) FROM ({users}) AS them")
        time.sleep(0.2)
        self._postgres.make(template, self._name)

    def _fill(self, filled: str) -> None:
        statement = {
            "waiting": self._store.waiting,
            "history": self._store.history,
            # Only this product is asked for these.
            "pinned": self._store.waiting,
            "ladder": self._store.waiting,
            "scheduled": stores.SCHEDULED_AHEAD,
        }[filled]
        if statement is None:
            self._caller.call("bulk", self._sizes[filled])
            return
        if self._store.seed:
            self._caller.call("bulk", 1)
        with self._postgres.connect(self._name) as connection:
            for part in stores.fill(statement, self._sizes[filled]).split(";"):
                connection.execute(part.encode())


class Memory(Place):
    """Redis, emptied."""

    def __init__(self, caller: Caller, redis: Redis, sizes: dict[str, int]) -> None:
        super().__init__(caller, redis.pid, sizes)
        self._redis = redis
        caller.address = {"BENCH_REDIS_PORT": str(redis.port)}

    def settle_down(self) -> None:
        """Nothing is left to be done there."""

    def drop(self, *, templates: bool = False) -> None:
        self._redis.ask("FLUSHALL")

    def _renew(self, filled: str) -> None:
        self._redis.ask("FLUSHALL")
        if filled:
            self._caller.call("bulk", self._sizes[filled])

    def count(self, query: str) -> int:
        return int(self._redis.ask(*query.split()))
