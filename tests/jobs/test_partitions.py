"""The days of the ledger: made ahead, their rows fetched from the net, never in anybody's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.jobs import control, partitions
from queueapp.jobs.status import Event


@pytest.fixture
def without_last_day(engine: sa.Engine, session: Session) -> Iterator[str]:
    """The name of the last day's partition, which is gone; made again at the end."""
    with engine.begin() as connection:
        day = max(partitions.days(connection))
        connection.execute(text(f"DROP TABLE job_events_{day:%Y%m%d}"))
    yield f"job_events_{day:%Y%m%d}"
    session.rollback()
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM job_events_default"))
        for missing in partitions.missing(connection):
            partitions.make(connection, missing)


def test_a_new_database_has_today_and_two_weeks(session: Session) -> None:
    assert partitions.missing(session) == []
    assert partitions.days_ahead(session) == partitions.DAYS_AHEAD


def test_a_missing_day_is_made_with_bounds_in_utc(session: Session, without_last_day: str) -> None:
    session.execute(text("SET LOCAL timezone = 'Asia/Tokyo'"))
    [day] = partitions.missing(session)

    partitions.make(session, day)

    bounds = session.scalar(
        text("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = :name"),
        {"name": without_last_day},
    )
    assert f"{day} 09:00:00+09" in str(bounds)
    assert f"{day + timedelta(days=1)} 09:00:00+09" in str(bounds)


def test_rows_of_the_day_leave_the_net_with_the_attach(
    session: Session, without_last_day: str
) -> None:
    [day] = partitions.missing(session)
    event_id = control.record(session, Event.QUEUE_PAUSED, actor="user:ana", reason="x")
    move = text("UPDATE job_events SET created_at = :at WHERE id = :id")
    session.execute(move, {"at": f"{day} 12:00+00", "id": event_id})
    assert session.scalar(text("SELECT count(*) FROM job_events_default")) == 1

    partitions.make(session, day)

    assert session.scalar(text("SELECT count(*) FROM job_events_default")) == 0
    assert session.scalar(text(f"SELECT id FROM {without_last_day}")) == event_id


def test_a_reader_in_the_way_makes_it_give_up_at_once(
    engine: sa.Engine, session: Session, without_last_day: str
) -> None:
    [day] = partitions.missing(session)
    session.rollback()
    with engine.connect() as reader:
        reader.execute(text("LOCK TABLE job_events_default IN ROW EXCLUSIVE MODE"))

        with pytest.raises(OperationalError) as refused, engine.begin() as connection:
            partitions.make(connection, day)

    assert getattr(refused.value.orig, "sqlstate", None) == "55P03"
    assert without_last_day == f"job_events_{partitions.missing(session)[0]:%Y%m%d}"


QUARTER = timedelta(days=90)
OLD = 92
Fill = Callable[..., date]
_AGE_TODAYS = """
UPDATE job_events SET created_at = :noon
WHERE created_at BETWEEN now() - interval '1 h' AND now() + interval '1 h'
"""


@pytest.fixture
def old_day(engine: sa.Engine, session: Session) -> Iterator[Fill]:
    """Make the partition of so many days ago and move every event so far into it."""

    def make(ago: int = OLD) -> date:
        session.commit()
        with engine.begin() as connection:
            day = partitions.today_utc(connection) - timedelta(days=ago)
            partitions.make(connection, day)
            connection.execute(text(_AGE_TODAYS), {"noon": f"{day} 12:00+00"})
        return day

    yield make
    session.rollback()
    with engine.begin() as connection:
        for day in partitions.expired(connection, timedelta(days=5)):
            connection.execute(text(f"DROP TABLE job_events_{day:%Y%m%d}"))


def drop(session: Session) -> partitions.Dropped | None:
    return partitions.drop_oldest(session, QUARTER, actor="housekeeping:one")


def test_days_are_dropped_by_age_the_oldest_first(session: Session, old_day: Fill) -> None:
    younger, oldest, kept = old_day(), old_day(200), old_day(90)

    dropped = [drop(session), drop(session), drop(session)]

    assert [one.day for one in dropped if one] == [oldest, younger]
    assert dropped[2] is None
    assert kept in partitions.days(session)


def test_what_is_in_force_is_carried_over(session: Session, old_day: Fill) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    control.hold_kind(session, "mail.send", actor="user:bob", reason="spam")
    control.hold_kind(session, "report.build", actor="user:bob", reason="x")
    control.unhold_kind(session, "report.build", actor="user:bob")
    day = old_day()
    before = control.in_force(session)

    dropped = drop(session)

    assert dropped == partitions.Dropped(day, ["kind:mail.send", "queue"])
    after = control.in_force(session)
    assert (after.held_kinds, after.pause is not None) == (("mail.send",), True)
    for scope in ("queue", "kind:mail.send"):
        old, new = before.latest[scope], after.latest[scope]
        assert (new.event, new.actor, new.reason, new.at) == (
            old.event, old.actor, old.reason, old.at
        )  # fmt: skip
    assert "kind:report.build" not in after.latest


def test_what_was_carried_once_is_carried_again(session: Session, old_day: Fill) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    since = old_day(95)
    drop(session)
    old_day()

    drop(session)

    pause = control.in_force(session).pause
    assert pause is not None
    assert (pause.actor, pause.reason, pause.at.date()) == ("user:ana", "migration", since)


def test_a_lift_is_carried_while_an_older_pause_stands_elsewhere(
    session: Session, old_day: Fill
) -> None:
    control.pause(session, actor="user:ana", reason="x")
    session.execute(text("UPDATE job_events SET created_at = created_at + interval '30 days'"))
    control.resume(session, actor="user:ana")
    old_day()

    drop(session)

    assert control.in_force(session).pause is None


def test_a_newer_switch_is_not_carried_over_by_an_older_one(
    session: Session, old_day: Fill
) -> None:
    control.pause(session, actor="user:ana", reason="x")
    old_day()
    control.resume(session, actor="user:ana")

    dropped = drop(session)

    assert dropped is not None
    assert dropped.carried == []
    assert control.in_force(session).pause is None


def test_a_reader_keeps_a_day_from_being_dropped_and_nobody_waits_long(
    engine: sa.Engine, session: Session, old_day: Fill
) -> None:
    day = old_day()
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM job_events"))

        with pytest.raises(OperationalError) as refused:
            drop(session)

    assert partitions.is_locked(refused.value)
    session.rollback()
    assert partitions.expired(session, QUARTER) == [day]


def test_old_events_without_a_day_are_removed_but_no_switch(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="x")
    for _ in range(3):
        control.record(session, Event.WORKER_SEEN, scope="worker:one", actor="worker:one")
    session.execute(text("UPDATE job_events SET created_at = now() - interval '92 days'"))
    control.record(session, Event.WORKER_SEEN, scope="worker:two", actor="worker:two")

    gone = [partitions.clear_default(session, QUARTER, limit=2) for _ in range(3)]

    assert gone == [2, 1, 0]
    left = session.scalars(text("SELECT event FROM job_events ORDER BY id")).all()
    assert left == ["queue_paused", "worker_seen"]
