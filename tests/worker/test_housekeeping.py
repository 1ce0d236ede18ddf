"""What one tick sees and does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.jobs import control, draining, partitions
from queueapp.jobs.models import Job
from queueapp.jobs.queries import events_of, oldest
from queueapp.worker import Worker
from queueapp.worker.upkeep import Duty
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed

Read = Callable[[int], Job]


def events_named(session: Session, name: str) -> list[Any]:
    session.rollback()
    found = session.execute(
        text("SELECT scope, actor, reason, data FROM job_events WHERE event = :n ORDER BY id"),
        {"n": name},
    )
    return list(found)


def raising(error: Exception) -> Callable[..., float]:
    """A function that only raises."""

    def do(*_args: Any) -> float:
        raise error

    return do


def settled_in(worker: Worker) -> None:
    """The first tick does everything that is due at a start."""
    worker.housekeeping.tick()


@pytest.mark.postgresql("round trips")
def test_an_idle_tick_is_one_statement(bench: Bench, sent: list[str]) -> None:
    worker = bench.worker()
    settled_in(worker)
    worker.housekeeping.tick()
    sent.clear()

    worker.housekeeping.tick()

    assert len(sent) == 1


def test_an_overdue_lease_is_swept(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue()
    claimed(bench.worker())
    session.execute(text("UPDATE jobs SET lease_expires_at = clock_timestamp()"))
    session.commit()

    bench.worker().housekeeping.tick()

    assert (job(job_id).status, job(job_id).error_class) == ("queued", "LeaseLost")


def test_a_due_job_wakes_the_pump(bench: Bench, enqueue: Enqueue, job: Read) -> None:
    worker = bench.worker()
    enqueue()

    worker.housekeeping.tick()

    assert not worker.inbox._messages.empty()


def test_a_pause_stops_the_pump_and_a_resume_starts_it(bench: Bench, session: Session) -> None:
    worker = bench.worker()
    settled_in(worker)
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()

    worker.housekeeping.tick()
    assert worker.pump.paused
    control.resume(session, actor="user:ana")
    session.commit()
    worker.housekeeping.tick()

    assert not worker.pump.paused


def test_a_worker_that_is_asked_to_drain_claims_nothing_more_and_no_other_is(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    asked, other = bench.worker(), bench.worker()
    settled_in(asked)
    draining.ask(session, asked.terms.actor, actor="user:ana", reason="why")
    session.commit()
    enqueue()

    for worker in (asked, asked, other):
        worker.housekeeping.tick()

    assert claimed(asked) == []
    assert asked.pump.closed
    assert asked._finished()
    assert not other._finished()
    assert len(claimed(other)) == 1
    signs = [e for e in events_named(session, "worker_seen") if e.scope == asked.terms.actor]
    assert [(sign.data["slots"], "drains" in sign.data) for sign in signs] == [
        (4, False), (0, True),
    ]  # fmt: skip


def test_a_pause_ends_by_itself_when_its_time_is_over(bench: Bench, session: Session) -> None:
    worker = bench.worker()
    settled_in(worker)
    control.pause(session, actor="user:ana", reason="deploy", for_s=3600)
    session.commit()
    worker.housekeeping.tick()
    paused = [worker.pump.paused]

    control.pause(session, actor="user:ana", reason="deploy", for_s=0)
    session.commit()
    worker.housekeeping.tick()

    assert [*paused, worker.pump.paused] == [True, False]
    [lift] = events_named(session, "queue_resumed")
    assert (lift.actor, lift.reason) == (f"housekeeping:{worker.terms.name}", "expired")


def test_a_held_kind_is_moved_aside_and_brought_back(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    held = enqueue("test.stops")
    other = enqueue()
    worker = bench.worker()
    control.hold_kind(session, "test.stops", actor="user:ana", reason="provider down")
    session.commit()

    worker.housekeeping.tick()

    assert (job(held).status, job(held).held_for) == ("held", "kind")
    assert job(other).status == "queued"
    assert worker.pump.holder.skip == ("test.stops",)
    control.unhold_kind(session, "test.stops", actor="user:ana")
    session.commit()
    worker.housekeeping.tick()
    assert job(held).status == "queued"
    assert events_of(session, held)[-1].reason == "kind_unheld"


def test_a_job_held_by_hand_stays_when_its_kinds_hold_is_lifted(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    from queueapp.jobs import transitions

    by_hand = enqueue("test.stops")
    transitions.hold(session, [by_hand], actor="user:ana", reason="suspect")
    control.hold_kind(session, "test.stops", actor="user:ana", reason="x")
    session.commit()
    worker = bench.worker()
    worker.housekeeping.tick()
    control.unhold_kind(session, "test.stops", actor="user:ana")
    session.commit()

    worker.housekeeping.tick()

    assert (job(by_hand).status, job(by_hand).held_for) == ("held", "job")


def test_a_worker_says_that_it_is_there_once_a_minute(bench: Bench, session: Session) -> None:
    worker = bench.worker(release="v7")

    worker.housekeeping.tick()
    worker.housekeeping.tick()

    [seen] = events_named(session, "worker_seen")
    assert seen.scope == f"worker:{worker.terms.name}"
    assert seen.data["slots"] == 4
    assert seen.data["release"] == "v7"


def test_a_duty_that_is_refused_stops_no_other_and_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep = bench.worker().upkeep
    tried: list[str] = []

    def refused() -> float:
        tried.append("refused")
        with upkeep._line.use() as connection:
            connection.exec_driver_sql("SELECT nobody FROM nowhere")
        return 0.0

    def goes_on() -> float:
        tried.append("next")
        return 60.0

    duty = Duty("odd", refused)
    upkeep.duties = [duty, Duty("next", goes_on)]

    upkeep.tick()
    upkeep.tick()
    duty.at = 0.0
    upkeep.tick()

    assert tried == ["refused", "next", "refused"]
    assert caplog.text.count("odd was refused") == 1


def test_without_a_database_all_of_housekeeping_waits(bench: Bench) -> None:
    refusal = OperationalError(None, None, ConnectionRefusedError())
    cut = OperationalError("SELECT", {}, ConnectionResetError(), connection_invalidated=True)

    for error in (refusal, cut):
        with pytest.raises(OperationalError):
            Duty("odd", raising(error)).if_due()


@pytest.mark.postgresql("partitions")
def test_only_a_lock_is_waited_for_in_silence(
    bench: Bench, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(partitions.days(session))
    session.execute(text(f"DROP TABLE job_events_{last:%Y%m%d}"))
    session.commit()
    upkeep = bench.worker().upkeep
    full = OperationalError("CREATE", {}, psycopg.errors.DiskFull())
    locked = OperationalError("CREATE", {}, psycopg.errors.LockNotAvailable())

    monkeypatch.setattr(partitions, "make", raising(locked))
    assert upkeep.make_days() < 60
    monkeypatch.setattr(partitions, "make", raising(full))
    with pytest.raises(OperationalError):
        upkeep.make_days()
    monkeypatch.undo()
    upkeep.make_days()


@pytest.mark.postgresql("partitions")
def test_the_days_of_the_ledger_are_made_ahead(bench: Bench, session: Session) -> None:
    last = max(partitions.days(session))
    session.execute(text(f"DROP TABLE job_events_{last:%Y%m%d}"))
    session.commit()

    bench.worker().housekeeping.tick()

    assert last in partitions.days(session)
    assert partitions.days_ahead(session) == partitions.DAYS_AHEAD
    assert isinstance(last, date)


def test_what_ended_long_ago_is_purged_and_stays_in_the_ledger(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    old, young = enqueue(), enqueue()
    worker = bench.worker()
    bench.run_one(worker)
    session.execute(
        text("UPDATE jobs SET finished_at = finished_at - :age WHERE id = :id"),
        {"age": timedelta(days=8), "id": old},
    )
    session.commit()

    worker.upkeep.purge()

    session.rollback()
    assert session.scalars(text("SELECT id FROM jobs")).all() == [young]
    assert events_of(session, old)[-1].event == "purged"


def test_a_transaction_that_stays_open_is_warned_of(
    bench: Bench,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("about PostgreSQL itself: old snapshots")
    monkeypatch.setattr(oldest, "OLD_S", 0.001)
    upkeep = bench.worker().upkeep
    with engine.connect() as forgotten:
        forgotten.execute(text("SELECT pg_current_xact_id()"))
        upkeep.look_for_old_transactions()
        forgotten.rollback()

    assert "a transaction on this server has been open for 0 min" in caplog.text
