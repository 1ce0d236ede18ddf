"""Everybody at once over the same rows: pumps, a keeper, sweepers, producers, people in bulk.

Some holders are frozen: they claim and say nothing until their leases are long gone. At the end no
statement has failed, and the ledger leads to every row.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest
import sqlalchemy as sa

from queueapp.connections import WORKER_SESSION
from queueapp.jobs import audit, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.transitions import Begun, Held, NewJob, Outcome, Progress
from tests.factories import outcome

JOBS = 300
LEASE_S = 0.5
VERBS = ("succeed", "succeed", "retry", "fail", "release", "defer", "cancel")
DONE = (
    "renewed", "expired", "release", "cancel", "requeue", "hold", "unhold", "reschedule", "enqueue",
)  # fmt: skip
Turn = Callable[[sa.Connection], None]
NO_WAIT = Backoff(base_s=0.01, cap_s=0.02, max_handbacks=10**6)


@dataclass
class Storm:
    """What the threads share, and what they have seen."""

    url: str
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[BaseException] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    ends: Counter[UUID] = field(default_factory=Counter)
    held: dict[UUID, Claim] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def engine(self) -> sa.Engine:
        # Deadlocks are to be noticed at once, not after the usual second.
        options = f"{WORKER_SESSION} -c deadlock_timeout=50ms -c lock_timeout=20s"
        return sa.create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            connect_args={"options": options, "prepare_threshold": 1},
        )

    def thread(self, turn: Turn) -> threading.Thread:
        def run() -> None:
            engine = self.engine()
            try:
                with engine.connect() as connection:
                    while not self.stop.is_set():
                        turn(connection)
            except BaseException as error:
                self.errors.append(error)
                self.stop.set()
            finally:
                engine.dispose()

        return threading.Thread(target=run)

    def count(self, **seen: int) -> None:
        with self.lock:
            self.seen.update(seen)


class Pump:
    """Claims and settles at random; one claim in ten is forgotten until long after its lease."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.storm = storm
        self.holder = Holder(f"worker:{name}", LEASE_S)
        self.dice = random.Random(name)
        self.unwritten: dict[UUID, Outcome] = {}
        self.frozen: list[tuple[float, Claim]] = []

    def __call__(self, connection: sa.Connection) -> None:
        self.thaw()
        sent = list(self.unwritten.values())
        room = self.dice.randint(1, 10), self.dice.randint(0, 5)
        exchange = transitions.exchange(
            connection, sent, self.holder, slots=room[0], prefetch=room[1]
        )
        with self.storm.lock:
            self.storm.ends.update(exchange.accepted.keys())
        for token in exchange.accepted:
            self.forget(token)
        self.ask(connection)
        for claim in exchange.claims:
            self.take(claim)
        waiting = [claim for claim in exchange.claims if not claim.started]
        transitions.begin(connection, [Begun(c.id, c.token, 0.0) for c in waiting[::2]])

    def thaw(self) -> None:
        while self.frozen and self.frozen[0][0] < time.monotonic():
            late = self.frozen.pop(0)[1]
            self.unwritten[late.token] = outcome(late, "succeed")

    def ask(self, connection: sa.Connection) -> None:
        left = list(self.unwritten.values())
        if not left:
            return
        answers = transitions.explain(connection, left, actor=self.holder.name)
        self.storm.count(**dict(Counter(answers.values())))
        for token in (token for token, answer in answers.items() if answer != "busy"):
            self.forget(token)

    def forget(self, token: UUID) -> None:
        self.unwritten.pop(token, None)
        with self.storm.lock:
            self.storm.held.pop(token, None)

    def take(self, claim: Claim) -> None:
        if self.dice.random() < 0.1:
            self.frozen.append((time.monotonic() + 3 * LEASE_S, claim))
            return
        with self.storm.lock:
            self.storm.held[claim.token] = claim
        verb = self.dice.choice(VERBS)
        if verb == "retry" and claim.attempt >= claim.max_attempts:
            verb = "fail"
        delay = 0.01 if verb == "retry" else None
        self.unwritten[claim.token] = outcome(claim, verb, delay_s=delay)


def keeper(storm: Storm) -> Turn:
    holder = Holder("worker:keeper", LEASE_S)

    def turn(connection: sa.Connection) -> None:
        with storm.lock:
            held = [Held(claim.id, token) for token, claim in storm.held.items()]
        random.shuffle(held)
        answers = transitions.renew(connection, held, holder)
        storm.count(renewed=sum(answer == "renewed" for answer in answers.values()))
        transitions.write_progress(connection, [Progress(h.id, h.token, 50, None) for h in held])

    return turn


def sweeper(storm: Storm, name: str) -> Turn:
    def turn(connection: sa.Connection) -> None:
        plain = connection.execution_options(isolation_level="READ COMMITTED")
        with plain.begin():
            expired = transitions.expire(plain, actor=f"sweeper:{name}", backoff=NO_WAIT, limit=20)
        storm.count(expired=len(expired))
        storm.stop.wait(0.02)

    return turn


def person(storm: Storm, *verbs: transitions.PersonVerb) -> Turn:
    """Does something to a fifth of the jobs, in no order."""
    dice = random.Random(len(verbs))

    def turn(connection: sa.Connection) -> None:
        verb = dice.choice(verbs)
        ids = dice.sample(range(1, JOBS + 1), JOBS // 5)
        moved = verb(connection, ids, actor="user:ana", reason="storm")
        storm.count(**{verb.__name__: len(moved)})
        storm.stop.wait(0.01)

    return turn


def spoiler(storm: Storm) -> Turn:
    """Takes running jobs from their holders, by the token that it has seen."""

    def turn(connection: sa.Connection) -> None:
        running = "SELECT id, lease_token FROM jobs WHERE status = 'running' ORDER BY random()"
        for job_id, token in connection.execute(sa.text(f"{running} LIMIT 1")).all():
            taken = transitions.release(connection, [job_id], actor="user:eve", token=token)
            storm.count(release=len(taken))
        storm.stop.wait(0.05)

    return turn


def producer(storm: Storm, name: str) -> Turn:
    """Enqueues under keys that its rival uses as well, in another order."""
    dice = random.Random(name)

    def turn(connection: sa.Connection) -> None:
        keys = dice.sample(range(10**4), 5)
        jobs = [NewJob(kind="demo.echo", payload={}, key=f"k{n}", request_hash="x") for n in keys]
        made = transitions.enqueue(connection, jobs, producer="app", actor=name, via="python")
        storm.count(enqueue=len(made))
        storm.stop.wait(0.05)

    return turn


def rage(url: str, seconds: float) -> Storm:
    """Let the storm rage for so long, then let every lease run out."""
    storm = Storm(url)
    turns: list[Turn] = [Pump(storm, name) for name in ("one", "two", "three")]
    turns += [keeper(storm), sweeper(storm, "one"), sweeper(storm, "two"), spoiler(storm)]
    turns += [person(storm, transitions.cancel), person(storm, transitions.requeue)]
    turns += [person(storm, transitions.hold, transitions.unhold, transitions.reschedule)]
    turns += [producer(storm, "app:one"), producer(storm, "app:two")]
    threads = [storm.thread(turn) for turn in turns]
    for thread in threads:
        thread.start()
    storm.stop.wait(seconds)
    storm.stop.set()
    for thread in threads:
        thread.join(60)
    return storm


def check(url: str, seconds: float) -> None:
    engine = sa.create_engine(url)
    jobs = [
        NewJob(kind="demo.echo", payload={}, priority=n % 3, max_attempts=8) for n in range(JOBS)
    ]
    with engine.begin() as connection:
        transitions.enqueue(connection, jobs, producer="app", actor="app", via="python")

    storm = rage(url, seconds)

    assert storm.errors == []
    assert all(count == 1 for count in storm.ends.values())
    assert storm.seen["lost"] > 0, storm.seen
    assert min(storm.seen[done] for done in DONE) > 0, storm.seen
    with engine.connect() as connection:
        rejected = connection.execute(
            sa.text("SELECT count(*) FROM job_events WHERE event = 'stale_write_rejected'")
        )
        assert rejected.scalar_one() == storm.seen["lost"]
        *_, (_, report) = audit.check(connection)
    assert report.offenders == []
    assert (report.jobs > JOBS, report.truncated) == (True, 0)
    engine.dispose()


def test_a_storm_ends_without_deadlock_or_error_and_the_ledger_leads_to_the_rows(
    database_url: str,
) -> None:
    check(database_url, 6)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_long_storm_ends_the_same(database_url: str) -> None:
    check(database_url, 45)
