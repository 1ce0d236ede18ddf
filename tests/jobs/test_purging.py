"""Purge, the verb of admins: what is over goes for good, all else stays, and the ledger tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import IllegalMove, JobNotFound
from queueapp.jobs import audit, on_behalf, queries, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.seen import parameters_of
from queueapp.jobs.status import FINAL, Event, Status
from queueapp.jobs.transitions import Age, NewJob, people_statements, single
from tests.factories import make_job
from tests.jobs.explain import Prepared
from tests.jobs.filling import FINISHED, fill
from tests.jobs.people import PERSON, latest
from tests.locks import until_a_lock_is_awaited


def rows(session: Session) -> list[int]:
    return list(session.scalars(sa.select(Job.id).order_by(Job.id)))


def lines_of_purge(session: Session) -> list[int | None]:
    purged = sa.select(JobEvent.job_id).where(JobEvent.event == Event.PURGED)
    return list(session.scalars(purged.order_by(JobEvent.job_id)))


def test_what_is_over_is_purged_and_what_is_not_stays(session: Session) -> None:
    ids = {status: make_job(session, status).id for status in Status}

    moved = transitions.purge(session, list(ids.values()), **PERSON)

    assert [(one.id, one.event, one.from_status, one.to_status) for one in moved] == [
        (ids[status], Event.PURGED, status, None) for status in sorted(FINAL, key=ids.__getitem__)
    ]
    assert rows(session) == sorted(ids[status] for status in Status if status not in FINAL)
    *_, (_, report) = audit.check(session)
    assert report.clean


def test_the_ledger_tells_by_whom_and_why_and_keeps_the_history(session: Session) -> None:
    job = make_job(session, Status.FAILED, key="k", request_hash="h")
    before = [event.event for event in queries.events_of(session, job.id)]

    asked = on_behalf.REQUEST.set("from-the-browser")
    transitions.purge(session, [job.id], **PERSON)
    on_behalf.REQUEST.reset(asked)

    line = latest(session, job.id)
    assert (line.event, line.from_status, line.to_status, line.attempt) == (
        "purged", "failed", None, 1,
    )  # fmt: skip
    assert (line.actor, line.reason, line.kind) == ("user:ana", "because", "demo.echo")
    assert line.data == {
        "via": "console",
        "request_id": "from-the-browser",
        "producer": "app",
        "idempotency_key": "k",
    }
    assert [event.event for event in queries.events_of(session, job.id)] == [*before, "purged"]


def test_one_that_is_not_over_is_refused_and_one_that_is_gone_not_found(session: Session) -> None:
    waits, over = make_job(session), make_job(session, Status.SUCCEEDED)

    moved = transitions.one(transitions.purge, session, over.id, **PERSON)

    assert (moved.id, moved.to_status) == (over.id, None)
    with pytest.raises(IllegalMove, match="purge needs one that is succeeded or failed or cancel"):
        transitions.one(transitions.purge, session, waits.id, **PERSON)
    with pytest.raises(JobNotFound):
        transitions.one(transitions.purge, session, over.id, **PERSON)


def test_two_who_purge_the_same_jobs_remove_each_once(session: Session, engine: sa.Engine) -> None:
    ids = [make_job(session, Status.SUCCEEDED).id for _ in range(40)]
    session.commit()
    together = Barrier(2, timeout=30)

    def purge(who: str) -> list[int]:
        with Session(engine) as own:
            together.wait()
            moved = transitions.purge(own, ids, actor=f"user:{who}", reason="old")
            own.commit()
            return [one.id for one in moved]

    with ThreadPoolExecutor(2) as both:
        first, second = both.map(purge, ("ana", "ben"))

    # What one of them had locked the other has left out; nothing is left by both.
    assert sorted([*first, *second]) == ids == lines_of_purge(session)
    assert rows(session) == []


def test_a_job_that_was_retried_since_it_was_looked_at_stays(session: Session) -> None:
    seen = [make_job(session, Status.FAILED).id for _ in range(2)]
    transitions.requeue(session, seen[:1], **PERSON)

    moved = transitions.purge(session, seen, **PERSON)

    assert [one.id for one in moved] == seen[1:]
    assert rows(session) == seen[:1]


@pytest.mark.postgresql("row locks")
def test_a_job_that_is_being_retried_is_left_out_and_nobody_waits(
    session: Session, engine: sa.Engine
) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(2)]
    session.commit()
    with Session(engine) as other:
        transitions.requeue(other, ids[:1], **PERSON)

        moved = transitions.purge(session, ids, **PERSON)

        session.commit()
        other.commit()
    assert [one.id for one in moved] == ids[1:]
    assert rows(session) == ids[:1]


@pytest.mark.postgresql("row locks")
def test_whoever_waits_for_the_row_keeps_nobody_from_purging_it(
    session: Session, engine: sa.Engine
) -> None:
    """The lock with which one person waits for the row is weaker than that of its removal."""
    job = make_job(session, Status.FAILED).id
    session.commit()
    single.lock(session, job)

    def retry() -> str:
        with Session(engine) as own, pytest.raises(JobNotFound) as refusal:
            transitions.one(transitions.requeue, own, job, **PERSON)
        return refusal.value.code

    with ThreadPoolExecutor(1) as other:
        waits = other.submit(retry)
        until_a_lock_is_awaited(engine)
        moved = transitions.one(transitions.purge, session, job, **PERSON)
        session.commit()
        assert waits.result(timeout=30) == "job_not_found"
    assert moved.id == job
    assert rows(session) == []


@pytest.mark.postgresql("plans and what they read")
def test_a_batch_looks_at_its_own_rows_alone(worker: sa.Connection) -> None:
    fill(worker, 20_000, **FINISHED)
    worker.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    told = {"actor": "user:ana", "reason": "old", "via": "api", "operation": None, "request": "{}"}
    told |= parameters_of(None, [])

    with Prepared(worker, "purge", people_statements.PURGE) as purge:
        plan = purge.run(ids=list(range(1, 501)), **told)

    assert plan.scans("Seq Scan") == []
    assert worker.scalar(sa.text("SELECT count(*) FROM jobs")) == 19_500


@pytest.mark.parametrize("by", ["person", "retention"])
def test_the_key_of_a_purged_job_makes_a_new_one_whoever_removed_it(
    session: Session, by: str
) -> None:
    again = NewJob(kind="demo.echo", payload={"message": "hello"}, key="k", request_hash="h")
    old = make_job(session, Status.SUCCEEDED, key="k", request_hash="h").id

    def sent() -> tuple[int, str]:
        [made] = transitions.enqueue(session, [again], producer="app", actor="app", via="http")
        return made.id, made.outcome

    assert sent() == (old, "replay")
    if by == "person":
        transitions.purge(session, [old], **PERSON)
    else:
        at_once = Age(timedelta(0), timedelta(0))
        transitions.purge_old(session, Status.SUCCEEDED, at_once, actor="housekeeping:one")
    new, outcome = sent()
    assert (new != old, outcome) == (True, "new")
    kept = latest(session, old).data
    assert (kept["producer"], kept["idempotency_key"]) == ("app", "k")
