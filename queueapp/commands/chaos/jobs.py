"""The jobs of a run: which they are, drawn from the seed, and who creates them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import urllib3
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from queueapp.handlers import EnqueueRequest, enqueue_many

# The last fifth of the time is for what is under way.
BUSY = 0.8
# Nobody's attempts may run out by the faults alone.
MAX_ATTEMPTS = 50
_TICK_S = 0.1
_AGAIN_S = 0.2
_MOST_AT_ONCE = 500
_EVERY_API = 10  # one job in so many goes through the web


def jobs(seed: int, count: int, lease: float) -> Iterator[EnqueueRequest]:
    """The jobs of a run, each with a key: asking again after a lost answer doubles nothing."""
    dice = random.Random(f"jobs/{seed}")  # noqa: S311
    for number in range(count):
        kind, payload = _one(dice, lease)
        yield EnqueueRequest(
            kind=kind,
            payload=payload,
            priority=dice.choice((0, 0, 0, 5, -5)),
            max_attempts=MAX_ATTEMPTS,
            key=f"chaos/{number}",
        )


def _one(dice: random.Random, lease: float) -> tuple[str, dict[str, Any]]:
    chance = dice.random()
    if chance < 0.60:
        return "chaos.tick", {}
    if chance < 0.85:
        return "chaos.work", {"ms": round(dice.uniform(5, 100), 1)}
    if chance < 0.97:
        return "chaos.flaky", {"fail_first": dice.randint(1, 2)}
    if chance < 0.99:
        return "chaos.slow", {"seconds": round(dice.uniform(0.5, 2.5), 2)}
    # Longer than a lease: it lives by being renewed.
    return "chaos.slow", {"seconds": round(lease * dice.uniform(1.2, 2.0), 2)}


@dataclass
class Promises:
    """What producers were promised, each in a list of its own, and what they met."""

    python: list[int] = field(default_factory=list)
    api: list[int] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        """Every id that was acknowledged."""
        return self.python + self.api


class Producers:
    """Two threads that create the jobs at an even pace, whatever happens to the database."""

    def __init__(
        self, engine: Engine, url: str, requests: list[EnqueueRequest], seconds: float
    ) -> None:
        self.promises = Promises()
        self._engine = engine
        self._url = f"{url}/api/jobs"
        self._http = urllib3.PoolManager(timeout=10, retries=False)
        self._by_api = requests[::_EVERY_API]
        self._by_python = [job for n, job in enumerate(requests) if n % _EVERY_API]
        self._seconds = seconds
        self._stopping = False
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._python, self._api)
        ]

    def start(self) -> None:
        """Begin to create."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether every job has been acknowledged, or the producers have given up."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Ask for no more, and wait for the answers under way."""
        self._stopping = True
        for thread in self._threads:
            thread.join(30)
        self._http.clear()

    def _due(self, total: int) -> int:
        """How many of ``total`` are to exist by now."""
        spent = (time.monotonic() - self._began) / (BUSY * self._seconds)
        return min(int(spent * total) + 1, total)

    def _python(self) -> None:
        while len(self.promises.python) < len(self._by_python) and not self._stopping:
            made = len(self.promises.python)
            due = min(self._due(len(self._by_python)), made + _MOST_AT_ONCE)
            if due > made:
                self._commit(self._by_python[made:due])
            else:
                time.sleep(_TICK_S)

    def _commit(self, requests: list[EnqueueRequest]) -> None:
        """Create in one transaction. The ids count once the commit has been answered."""
        try:
            with Session(self._engine) as session:
                made = enqueue_many(session, requests, producer="chaos", actor="chaos")
                session.commit()
        except DBAPIError as error:
            self.promises.repeated[type(error.orig).__name__] += 1
            time.sleep(_AGAIN_S)
            return
        self.promises.refused += [f"conflict: job {one.id}" for one in made if one.fields]
        self.promises.python += [one.id for one in made]

    def _api(self) -> None:
        while len(self.promises.api) < len(self._by_api) and not self._stopping:
            made = len(self.promises.api)
            if self._due(len(self._by_api)) > made:
                self._post(self._by_api[made])
            else:
                time.sleep(_TICK_S / 5)

    def _post(self, request: EnqueueRequest) -> None:
        sent = request.sent()
        key = sent.pop("key")
        body = {"kind": request.kind, **sent, "idempotency_key": key}
        try:
            answer = self._http.request("POST", self._url, json=body)
        except urllib3.exceptions.HTTPError as error:
            self._again(type(error).__name__)
            return
        if answer.status < 300:
            self.promises.api.append(int(answer.json()["id"]))
            return
        # 503 is an honest answer of a web process without its database; nothing else is.
        if answer.status != 503:
            self.promises.refused.append(f"{answer.status}: {answer.data[:200]!r}")
        self._again(str(answer.status))

    def _again(self, why: str) -> None:
        self.promises.repeated[why] += 1
        time.sleep(_AGAIN_S)
