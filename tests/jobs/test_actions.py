"""What people did last: every surface, one line for what belongs together, no machine."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations, queries, transitions
from queueapp.jobs.operations import driver
from queueapp.jobs.queries import JobFilter, actions
from queueapp.jobs.status import Event, Status
from tests.factories import HOLDER, claim_one, make_job, outcome


def told(session: Session) -> list[tuple[str, str, int]]:
    return [(act.event, act.actor, act.jobs) for act in queries.last_actions(session)]


def test_acts_of_people_come_newest_first_and_machines_are_left_out(session: Session) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(3)]
    claim = claim_one(session, make_job(session).id)
    transitions.settle(session, [outcome(claim, "release")], actor=HOLDER.name)
    session.commit()
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()
    transitions.requeue(session, ids, actor="user:bo", reason="try again")
    session.commit()
    control.hold_kind(session, "demo.echo", actor="cli:root", reason="down")
    session.commit()

    found = queries.last_actions(session)

    assert [(act.event, act.actor, act.jobs) for act in found] == [
        ("kind_held", "cli:root", 0),
        ("requeued", "user:bo", 3),
        ("queue_paused", "user:ana", 0),
    ]
    assert [act.reason for act in found] == ["down", "try again", "migration"]
    assert [act.scope for act in found] == ["kind:demo.echo", None, "queue"]
    assert found[1].job_id == ids[0]


def test_moves_of_jobs_crowd_no_mark_of_the_hour_out(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()
    for n in range(12):
        transitions.cancel(session, [make_job(session).id], actor=f"user:bo-{n}")
        session.commit()

    assert "queue_paused" not in {event for event, *_ in told(session)}
    assert [mark.event for mark in queries.marks_of_hour(session)] == ["queue_paused"]


def test_an_operation_is_a_mark_once_it_is_begun_and_its_plan_is_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 1)
    for _ in range(2):
        make_job(session, Status.FAILED)
    survey = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    made, _ = (
        operations.plan(session, survey, how={}, actor="user:ana", reason="again") for _ in range(2)
    )
    session.commit()
    assert queries.marks_of_hour(session) == []

    for actor in ("user:bo", "user:cy"):
        operations.step(session, made.id, actor=actor, via="console")
        session.commit()

    marks = [(mark.event, mark.actor) for mark in queries.marks_of_hour(session)]
    assert marks == [("op_begun", "user:bo")]


def test_all_batches_of_an_operation_are_one_line_beside_its_plan(session: Session) -> None:
    for _ in range(3):
        make_job(session, Status.FAILED)
    session.commit()
    survey = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    planned = operations.plan(session, survey, how={}, actor="user:ana", reason="again")
    session.commit()
    operations.step(session, planned.id, actor="user:ana", via="console")
    session.commit()

    found = queries.last_actions(session)

    assert {(act.event, act.jobs) for act in found} >= {("op_planned", 0), ("requeued", 3)}
    assert {act.operation for act in found} == {planned.id}


@pytest.mark.postgresql("generate_series")
def test_switches_are_found_behind_however_many_lines(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    session.execute(
        sa.text(
            "INSERT INTO job_events (job_id, kind, event, actor)"
            " SELECT n, 'demo.echo', 'enqueued', 'app' FROM generate_series(1, 50) n"
        )
    )
    session.commit()
    monkeypatch.setattr(actions, "LOOKED_AT", 10)

    assert told(session) == [("queue_paused", "user:ana", 0)]


def test_of_many_operations_the_newest_are_told(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "LOOKED_AT", 3)
    for number in range(4):
        scope = f"op:{number}"
        control.record(session, Event.OP_DONE, scope=scope, actor="token:cron", data={})
    session.commit()
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()

    assert told(session)[0] == ("queue_paused", "user:ana", 0)
