"""Whatever people do is in the audit trail: no act of theirs is in the log alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations, queries, transitions
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries import ActFilter, Did, JobFilter
from queueapp.jobs.queries.acts import DIDS
from queueapp.jobs.status import Event, Status
from tests.factories import make_job, token_of

# Who makes jobs is a producer; counting moves nothing; what an operation does to its jobs is told
# by the lines of who planned, began, stopped and finished it.
IN_THE_LOG_ALONE = {Event.ENQUEUED, Event.OP_COUNTED, Event.OP_CANARY, Event.OP_BATCH}
OF_MACHINES = {
    Event.CLAIMED, Event.SUCCEEDED, Event.RETRY_SCHEDULED, Event.DEFERRED, Event.LEASE_EXPIRED,
    Event.STALE_WRITE_REJECTED, Event.CONTROL_CARRIED, Event.WORKER_SEEN, Event.WORKER_STOPPED,
    Event.MINUTE_STATS,
}  # fmt: skip
# The undo of a cancel is an operation.
OF_OPERATIONS = {Event.RESTORED}


def test_every_event_is_an_act_or_no_deed_of_people() -> None:
    acts = {Event(event) for event in DIDS}

    assert set(Event) - acts == IN_THE_LOG_ALONE | OF_MACHINES | OF_OPERATIONS


def test_whatever_people_have_done_is_in_the_trail(session: Session) -> None:
    ana: dict[str, Any] = {"actor": "user:ana", "reason": "because"}
    failed = [make_job(session, Status.FAILED).id for _ in range(2)]
    waiting = [make_job(session).id for _ in range(4)]
    running = [make_job(session, Status.RUNNING) for _ in range(2)]
    over = make_job(session, Status.SUCCEEDED).id
    session.commit()
    transitions.requeue(session, failed[:1], **ana)
    transitions.purge(session, [over], **ana)
    transitions.cancel(session, [waiting[0], running[0].id], **ana)
    transitions.hold(session, waiting[1:3], **ana)
    transitions.unhold(session, waiting[1:2], **ana)
    later = datetime.now(UTC) + timedelta(hours=1)
    transitions.reschedule(session, waiting[3:], available_at=later, **ana)
    transitions.release(session, [running[1].id], token=token_of(running[1]), **ana)
    control.pause(session, **ana)
    control.resume(session, **ana)
    control.hold_kind(session, "mail.send", **ana)
    control.unhold_kind(session, "mail.send", **ana)
    session.commit()
    retry = planned(session, "retry", JobFilter(status=(Status.FAILED,)))
    operations.step(session, retry, actor="user:ana", via="api")
    stopped = planned(session, "cancel", JobFilter(status=(Status.HELD,)))
    operations.stop(session, stopped, actor="user:ana", reason="enough")
    session.commit()

    page = queries.list_acts(session, ActFilter(), limit=100)

    of_people = sa.select(JobEvent.event, JobEvent.data["operation"].as_string()).where(
        JobEvent.actor == "user:ana"
    )
    done = {Event(event) for event, operation in session.execute(of_people) if operation is None}
    assert len(done) >= 15
    assert {act.event for act in page.acts} == done - IN_THE_LOG_ALONE


def planned(session: Session, verb: str, where: JobFilter, *, canary: bool = False) -> str:
    """An operation that ana has planned."""
    found = operations.survey(session, verb, where)
    terms = operations.Terms() if canary else None
    made = operations.plan(session, found, how={}, actor="user:ana", reason="because", canary=terms)
    session.commit()
    return made.id


@pytest.mark.parametrize("canary", [False, True], ids=["at once", "a few first"])
def test_who_confirms_the_plan_of_another_is_told(session: Session, canary: bool) -> None:
    for _ in range(7):
        make_job(session, Status.FAILED)
    session.commit()
    made = planned(session, "retry", JobFilter(status=(Status.FAILED,)), canary=canary)

    operations.step(session, made, actor="user:ben", via="console")
    session.commit()

    acts = queries.list_acts(session, ActFilter(dids=(Did.PLAN, Did.BEGIN))).acts
    assert [(act.did, act.actor, act.via) for act in acts] == [
        (Did.BEGIN, "user:ben", "console"), (Did.PLAN, "user:ana", None),
    ]  # fmt: skip
    assert (acts[0].operation, acts[0].planned) == (made, 7)
    found = operations.find(session, made)
    assert (found.planned_by, found.begun_by, found.stopped_by) == ("user:ana", "user:ben", None)


def test_who_goes_on_with_it_is_told_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations.driver, "BATCH", 1)
    for _ in range(5):
        make_job(session, Status.FAILED)
    session.commit()
    made = planned(session, "retry", JobFilter(status=(Status.FAILED,)))

    for who in ("ben", "ben", "cy", "cy"):
        operations.step(session, made, actor=f"user:{who}", via="console")
        session.commit()
    operations.stop(session, made, actor="user:dan", reason=None)
    session.commit()

    acts = queries.list_acts(session, ActFilter(dids=(Did.BEGIN, Did.STOP))).acts
    assert [(act.did, act.actor) for act in acts] == [
        (Did.STOP, "user:dan"), (Did.BEGIN, "user:cy"), (Did.BEGIN, "user:ben"),
    ]  # fmt: skip
    found = operations.find(session, made)
    assert (found.begun_by, found.driven_by, found.stopped_by) == (
        "user:ben", "user:cy", "user:dan",
    )  # fmt: skip
    [listed], _ = operations.list_operations(session, queries.database_now(session), limit=1)
    assert (listed.begun_by, listed.begun_at) == (found.begun_by, found.begun_at)
