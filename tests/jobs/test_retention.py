"""Purging: final jobs past their age, and nothing else, ever."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import audit, transitions
from queueapp.jobs.status import FINAL, Status
from queueapp.jobs.transitions import Age, retention
from tests.factories import make_job
from tests.jobs.explain import Prepared

WEEK = timedelta(days=7)


def age(session: Session, by: timedelta) -> None:
    session.execute(
        text("UPDATE jobs SET created_at = created_at - :by, finished_at = finished_at - :by"),
        {"by": by},
    )


def purge_old(
    session: Session, status: Status, *, age: timedelta = WEEK, keyed_age: timedelta = WEEK
) -> list[int]:
    return transitions.purge_old(session, status, Age(age, keyed_age), actor="housekeeping:one")


@pytest.mark.parametrize("status", Status)
def test_only_final_jobs_are_ever_purged(session: Session, status: Status) -> None:
    make_job(session, status)
    age(session, timedelta(days=60))

    gone = [job_id for final in FINAL for job_id in purge_old(session, final)]

    assert bool(gone) == (status in FINAL)
    *_, (_, report) = audit.check(session)
    assert report.clean


def test_a_job_is_kept_for_its_age_since_its_end(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    age(session, WEEK - timedelta(minutes=1))
    assert purge_old(session, Status.SUCCEEDED) == []

    age(session, timedelta(minutes=2))

    assert purge_old(session, Status.SUCCEEDED) == [1]


def test_a_keyed_job_is_kept_as_long_as_its_key_is_promised(session: Session) -> None:
    make_job(session, Status.SUCCEEDED, key="k", request_hash="h")
    age(session, timedelta(days=3))
    day = timedelta(days=1)

    assert purge_old(session, Status.SUCCEEDED, age=day) == []
    assert purge_old(session, Status.SUCCEEDED, age=day, keyed_age=day) == [1]


def test_the_key_and_the_last_status_stay_in_the_ledger(session: Session) -> None:
    make_job(session, Status.FAILED, key="k", request_hash="h")
    age(session, timedelta(days=60))

    purge_old(session, Status.FAILED)

    event = session.execute(
        text("SELECT from_status, to_status, reason, data FROM job_events WHERE event = 'purged'")
    ).one()
    assert (event.from_status, event.to_status, event.reason) == ("failed", None, "retention")
    assert event.data == {"producer": "app", "idempotency_key": "k"}


@pytest.mark.postgresql("row locks")
def test_a_locked_job_is_left_for_the_next_time(engine: sa.Engine, session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    make_job(session, Status.SUCCEEDED)
    age(session, timedelta(days=60))
    session.commit()
    with engine.connect() as psql:
        psql.execute(text("SELECT FROM jobs WHERE id = 1 FOR UPDATE"))

        assert purge_old(session, Status.SUCCEEDED) == [2]
        session.commit()


def test_a_batch_is_bounded(session: Session) -> None:
    for _ in range(5):
        make_job(session, Status.CANCELLED)
    age(session, timedelta(days=60))

    old = Age(WEEK, WEEK)

    assert transitions.count_old(session, Status.CANCELLED, old, limit=9) == 5
    assert transitions.count_old(session, Status.CANCELLED, old, limit=2) == 2
    gone = transitions.purge_old(session, Status.CANCELLED, old, actor="cli:root", limit=3)

    assert gone == [1, 2, 3]


def test_a_window_leaves_those_that_came_to_their_age_before_it(session: Session) -> None:
    for days in (3, 7):
        make_job(session, Status.SUCCEEDED)
        age(session, timedelta(days=days, minutes=1))
    day = timedelta(days=1)

    lately = transitions.purge_old(
        session, Status.SUCCEEDED, Age(WEEK, WEEK, window=day), actor="housekeeping:one"
    )

    assert lately == [2]
    assert purge_old(session, Status.SUCCEEDED) == [1]


@pytest.mark.postgresql("buffers")
def test_a_purge_that_finds_nothing_reads_nothing(worker: sa.Connection) -> None:
    young = """
        INSERT INTO jobs (kind, payload, status, producer, finished_at)
        SELECT 'demo.echo', '{}', 'succeeded', 'app', now() FROM generate_series(1, 20000)"""
    worker.execute(text(young))
    worker.execute(text("ANALYZE jobs"))
    statement = retention._PURGE_OLD.format(status="succeeded", gone=retention._GONE)

    with Prepared(worker, "purge", statement) as purge:
        plan = purge.run(
            **Age(WEEK, WEEK).values, actor="housekeeping:one", reason="retention", limit=500
        )

    assert plan.reading <= 10
