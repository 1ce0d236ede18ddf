"""The settler: what it takes from the pump, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.queries import events_of
from queueapp.worker import Worker
from queueapp.worker.settler import LEAST, Settler
from tests.live.processes import until
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed, finish

pytestmark = pytest.mark.postgresql("a second connection that writes")

Read = Callable[[int], Job]


@pytest.fixture
def worker(bench: Bench) -> Iterator[Worker]:
    """Of so many threads that a turn may have enough for the settler, which is at work."""
    worker = bench.worker(concurrency=LEAST, prefetch=1)
    settler_of(worker).start()
    yield worker
    settler_of(worker).stop()
    settler_of(worker).join()


def settler_of(worker: Worker) -> Settler:
    assert worker.pump.settler
    return worker.pump.settler


def all_done(worker: Worker, enqueue: Enqueue) -> list[int]:
    """As many jobs as the settler takes, their handlers at the end, nothing settled."""
    ids = [enqueue() for _ in range(LEAST)]
    for attempt in claimed(worker):
        finish(worker, attempt)
    return ids


def statuses(session: Session, ids: list[int]) -> set[str]:
    session.rollback()
    return set(session.scalars(text("SELECT status FROM jobs WHERE id = ANY(:ids)"), {"ids": ids}))


def hear_of_it(worker: Worker) -> None:
    """Let the pump take what the settler says, as soon as that has said it."""
    until(lambda: settler_of(worker).is_free, "the settler is done")
    worker.inbox.wake()
    worker.pump.turn()


def test_a_large_batch_is_settled_beside_the_pump(
    worker: Worker, enqueue: Enqueue, session: Session, sent: list[str]
) -> None:
    ids = all_done(worker, enqueue)
    sent.clear()

    worker.pump.turn()
    hear_of_it(worker)

    assert worker.pump.settled
    assert statuses(session, ids) == {"succeeded"}
    assert [e.event for e in events_of(session, ids[0])] == ["enqueued", "claimed", "succeeded"]


def test_a_small_batch_is_settled_by_the_statement_that_claims(
    worker: Worker, enqueue: Enqueue, job: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(Settler, "settle", lambda _settler, some: given.append(some))
    only = enqueue()
    [attempt] = claimed(worker)
    finish(worker, attempt)

    worker.pump.turn()

    assert job(only).status == "succeeded"
    assert given == []


def test_what_the_settler_cannot_write_the_pump_does(
    worker: Worker, enqueue: Enqueue, session: Session, engine: Engine
) -> None:
    """A row that somebody has locked, and one whose lease is lost."""
    ids = all_done(worker, enqueue)
    session.execute(
        text("UPDATE jobs SET lease_token = gen_random_uuid() WHERE id = :id"), {"id": ids[0]}
    )
    session.commit()
    with engine.connect() as psql:
        psql.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": ids[1]})
        worker.pump.turn()
        hear_of_it(worker)
        assert statuses(session, ids[2:]) == {"succeeded"}
        assert statuses(session, ids[:2]) == {"running"}

    until(lambda: bool(worker.pump.turn() == 0 and worker.pump.settled), "the pump is through")

    assert statuses(session, [ids[1]]) == {"succeeded"}
    assert [e.event for e in events_of(session, ids[0])][-1] == "stale_write_rejected"


@pytest.mark.parametrize("answer", ["none was written", "all was written"])
def test_after_a_failure_the_pump_settles_all_and_the_settler_rests(
    worker: Worker,
    enqueue: Enqueue,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    ids = all_done(worker, enqueue)
    settle, failed = transitions.settle, threading.Event()

    def fail(connection: Any, outcomes: Any, *, actor: str) -> None:
        if answer == "all was written":
            settle(connection, outcomes, actor=actor)
        failed.set()
        raise OperationalError("SELECT", {}, ConnectionResetError("cut"))

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "settle", fail)
        worker.pump.turn()
        assert failed.wait(20)
        until(lambda: not settler_of(worker)._given, "it has given all back")

    assert not settler_of(worker).is_free
    worker.pump.turn()

    assert worker.pump.settled
    assert statuses(session, ids) == {"succeeded"}
    events = [event.event for one in ids for event in events_of(session, one)]
    assert events.count("succeeded") == len(ids)


def test_what_a_settler_has_not_begun_when_it_ends_goes_back(
    worker: Worker, enqueue: Enqueue, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = all_done(worker, enqueue)
    settler = settler_of(worker)
    began, go_on = threading.Event(), threading.Event()

    def tick() -> float:
        began.set()
        go_on.wait(20)
        return 0.0

    monkeypatch.setattr(settler, "_tick", tick)
    settler.wake()
    assert began.wait(20)
    worker.pump.turn()
    assert len(settler._given) == LEAST

    settler.stop()
    go_on.set()
    settler.join()
    worker.pump.turn()

    assert worker.pump.settled
    assert statuses(session, ids) == {"succeeded"}


def test_an_ended_settler_takes_nothing(worker: Worker, enqueue: Enqueue, session: Session) -> None:
    """Also what was on its way to it."""
    settler = settler_of(worker)
    settler.stop()
    settler.join()
    assert not settler.is_free
    ids = all_done(worker, enqueue)

    worker.pump._take(worker.inbox.get(0))
    settler.settle(worker.pump._unwritten.take_successes(LEAST))
    worker.pump.turn()

    assert statuses(session, ids) == {"succeeded"}


def test_it_lets_go_of_its_connection_when_others_need_one(
    worker: Worker, enqueue: Enqueue, session: Session
) -> None:
    ids = all_done(worker, enqueue)
    worker.pump.turn()
    hear_of_it(worker)
    assert statuses(session, ids) == {"succeeded"}
    assert settler_of(worker).line.is_open

    worker._give_way()

    until(lambda: not settler_of(worker).line.is_open, "it is closed")
    assert not settler_of(worker).is_free
