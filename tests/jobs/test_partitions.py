"""The days of the ledger: made ahead, their rows fetched from the net, never in anybody's way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

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
