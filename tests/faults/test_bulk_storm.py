"""People in bulk, retention, sweepers and producers at once over the same rows: no deadlock.

One web and one worker process; sixteen clients, most of them over HTTP. Deadlocks are looked for
after 10 ms, so that none passes unnoticed in a short time.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
import urllib3
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Holder
from queueapp.jobs.status import FINAL
from queueapp.jobs.transitions import Age, NewJob
from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until

Turn = Callable[[random.Random], None]

KEYS = 30
# What has a key stays: no key may come to mean a second job.
OLD = Age(timedelta(seconds=0.3), keyed=timedelta(days=1))
MOST_IDS = 150
LIVE = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running', 'held')"
# Tests before this one may have left connections of theirs in a pool.
OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND backend_start > %(began)s
"""
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
def impatient(journey: Journey) -> Iterator[None]:
    """Have the server look for deadlocks at once, where we may say so."""
    with contextlib.suppress(ProgrammingError), journey.engine.begin() as connection:
        name = connection.engine.url.database
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET deadlock_timeout = 10')
    journey.engine.dispose()
    yield
    with contextlib.suppress(ProgrammingError), journey.engine.begin() as connection:
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET deadlock_timeout')


@dataclass
class Storm:
    """What the clients share, and what they have seen."""

    journey: Journey
    web: Web
    stop: threading.Event = field(default_factory=threading.Event)
    seen: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    by_key: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    unkeyed: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rage(self, turns: list[tuple[str, Turn]], seconds: float) -> None:
        threads = [
            threading.Thread(target=self._run, args=(place, name, turn))
            for place, (name, turn) in enumerate(turns)
        ]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        self.stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)

    def _run(self, place: int, name: str, turn: Turn) -> None:
        dice = random.Random(f"{place}/{name}")
        while not self.stop.is_set():
            try:
                turn(dice)
            except Exception as error:
                self.errors.append(f"{name}: {type(error).__name__}: {error}")
                self.stop.set()

    def count(self, what: str, by: int = 1) -> None:
        with self.lock:
            self.seen[what] += by

    def ids(self, dice: random.Random) -> list[int]:
        """Some of the jobs there are; always the same ones stand in many people's way."""
        rows = self.journey.rows("SELECT id FROM jobs ORDER BY id DESC LIMIT 400")
        return dice.sample([row.id for row in rows], min(len(rows), MOST_IDS))

    # Over HTTP

    def ask(self, path: str, **how: Any) -> Any:
        url = f"http://127.0.0.1:{self.web.port}{path}"
        answer = http.request("POST", url, redirect=False, **how)
        if answer.status >= 500:
            raise AssertionError(f"{answer.status} from {path}: {answer.data[:300]!r}")
        self.count(f"{path.rpartition('/')[2]} {answer.status}")
        return answer

    def create(self, dice: random.Random) -> None:
        key = f"k{dice.randrange(KEYS)}"
        body = {"kind": "journey.tick", "payload": {}, "idempotency_key": key}
        answer = self.ask("/api/jobs", json=body)
        self.note(key, answer.json()["id"])

    def bulk(self, verb: str, *, ascending: bool) -> Turn:
        def turn(dice: random.Random) -> None:
            ids = sorted(self.ids(dice), reverse=not ascending)
            form = urlencode([("verb", verb), *(("id", job) for job in ids)])
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            self.ask("/jobs/bulk", body=form, headers=kind)

        return turn

    def single(self, dice: random.Random) -> None:
        for job in self.ids(dice)[:3]:
            self.ask(f"/api/jobs/{job}/{dice.choice(('cancel', 'retry'))}", json={})

    # In Python, as producers and workers do it

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.journey.engine.begin() as connection:
            yield connection

    def produce(self, dice: random.Random) -> None:
        """Many under shared keys, in no order, and as many without."""
        keys = [f"k{number}" for number in dice.sample(range(KEYS), 10)]
        keyed = [new(key=key, request_hash="kind=00000000") for key in keys]
        plain = [new(max_attempts=2, delay_s=dice.choice((0, 0, 5))) for _ in range(20)]
        with self.transaction() as connection:
            made = transitions.enqueue(
                connection, keyed + plain, producer="app", actor="app", via="python"
            )
        for key, one in zip(keys, made, strict=False):
            self.note(f"app/{key}", one.id)
        with self.lock:
            self.unkeyed.update(one.id for one in made[len(keys) :])
        self.stop.wait(0.05)

    def note(self, key: str, job: int) -> None:
        with self.lock:
            self.by_key[key].add(job)

    def move(self, *verbs: transitions.PersonVerb, ascending: bool) -> Turn:
        """Two verbs in one transaction, their rows locked until its end."""

        def turn(dice: random.Random) -> None:
            with self.transaction() as connection:
                for verb in verbs:
                    ids = sorted(self.ids(dice), reverse=not ascending)
                    moved = verb(connection, ids, actor="user:ana", reason="storm")
                    self.count(verb.__name__, len(moved))

        return turn

    def retain(self, dice: random.Random) -> None:
        for status in dice.sample(FINAL, len(FINAL)):
            with self.transaction() as connection:
                gone = transitions.purge_old(connection, status, OLD, actor="housekeeping:storm")
            self.count("purged", len(gone))
        self.stop.wait(0.02)

    def die(self, dice: random.Random) -> None:
        """Claim and never be heard of again."""
        holder = Holder("worker:dead", 0.2)
        with self.journey.engine.connect() as connection:
            plain = connection.execution_options(isolation_level="AUTOCOMMIT")
            found = transitions.exchange(plain, [], holder, slots=dice.randint(1, 5))
        self.count("lost", len(found.claims))
        self.stop.wait(0.1)

    def sweep(self, dice: random.Random) -> None:
        with self.transaction() as connection:
            found = transitions.expire(
                connection, actor="sweeper:storm", backoff=Backoff(base_s=0.01), limit=20
            )
        self.count("expired", len(found))
        self.stop.wait(dice.uniform(0, 0.05))


def new(**fields: Any) -> NewJob:
    return NewJob(kind="journey.tick", payload={}, **fields)


http = urllib3.PoolManager(timeout=30, retries=False, maxsize=16)


def check(journey: Journey, seconds: float) -> None:
    storm = Storm(journey, journey.web(threads=8))
    journey.work("--concurrency", "8", "--lease", "5")
    before, began = journey.one(DEADLOCKS), journey.one("SELECT clock_timestamp()")
    storm.produce(random.Random(0))

    storm.rage(
        [
            ("create", storm.create),
            ("create", storm.create),
            ("create", storm.create),
            ("bulk cancel", storm.bulk("cancel", ascending=True)),
            ("bulk cancel", storm.bulk("cancel", ascending=False)),
            ("bulk retry", storm.bulk("retry", ascending=False)),
            ("bulk retry", storm.bulk("retry", ascending=True)),
            ("single", storm.single),
            ("produce", storm.produce),
            ("produce", storm.produce),
            ("move", storm.move(transitions.cancel, transitions.requeue, ascending=False)),
            ("move", storm.move(transitions.requeue, transitions.cancel, ascending=True)),
            ("retain", storm.retain),
            ("retain", storm.retain),
            ("die", storm.die),
            ("sweep", storm.sweep),
        ],
        seconds,
    )

    assert storm.errors == []
    for done in ("jobs 200", "jobs 201", "bulk 303", "cancel", "requeue", "purged", "lost"):
        assert storm.seen[done], storm.seen
    until(lambda: not journey.one(LIVE), "what is left is run", within=60)
    assert {key: ids for key, ids in storm.by_key.items() if len(ids) > 1} == {}
    keyed = {job for ids in storm.by_key.values() for job in ids}
    purged = {row.job_id for row in journey.rows(
        "SELECT job_id FROM job_events WHERE event = 'purged'"
    )}  # fmt: skip
    assert keyed & purged == set()
    stand(journey, accepted=(keyed | storm.unkeyed) - purged, every_claim_started=False)
    assert_no_deadlock(journey, before, began)


def assert_no_deadlock(journey: Journey, before: int, began: datetime) -> None:
    """A process counts its deadlocks for all when it leaves, so everybody leaves first."""
    http.clear()
    journey.processes.close()
    journey.engine.dispose()
    plain = journey.url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:

        def one(statement: str) -> int:
            row = connection.execute(statement.encode(), {"began": began}).fetchone()
            assert row
            return int(row[0])

        until(lambda: one(OTHERS) == 0, "everybody else has left")
        assert one(DEADLOCKS) == before


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_everybody_in_bulk_at_once_meets_no_deadlock_and_loses_nothing(journey: Journey) -> None:
    check(journey, 6)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("impatient")
def test_a_long_storm_in_bulk_ends_the_same(journey: Journey) -> None:
    check(journey, 120)
