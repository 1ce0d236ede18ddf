"""The audit trail: every act of people, one line for what belongs together, no machine."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations, queries, transitions
from queueapp.jobs.queries import ActFilter, ActPage, Did, JobFilter, trail
from queueapp.jobs.queries.acts import TO_QUEUE
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import By
from tests.factories import claim_one, make_job, outcome, token_of


def told(page: ActPage) -> list[tuple[str, str, int]]:
    return [(act.did.value, act.actor, act.jobs) for act in page.acts]


def test_acts_of_people_are_told_with_verb_count_and_reason(session: Session) -> None:
    failed = [make_job(session, Status.FAILED).id for _ in range(3)]
    running = make_job(session, Status.RUNNING)
    waiting = make_job(session).id
    session.commit()
    by: By = {"actor": "user:ana", "reason": "they are back", "via": "console"}
    transitions.requeue(session, failed, **by)
    session.commit()
    transitions.cancel(session, [waiting], actor="token:shop", reason="not wanted", via="api")
    session.commit()
    transitions.release(
        session, [running.id], token=token_of(running), actor="cli:root", reason="it is dead"
    )
    session.commit()
    control.pause(session, actor="user:bo", reason="migration")
    control.hold_kind(session, "mail.send", actor="user:bo", reason="down")
    session.commit()

    page = queries.list_acts(session, ActFilter())

    assert told(page) == [
        ("hold-kind", "user:bo", 0),
        ("pause", "user:bo", 0),
        ("release", "cli:root", 1),
        ("cancel", "token:shop", 1),
        ("retry", "user:ana", 3),
    ]
    retried = page.acts[-1]
    assert (retried.reason, retried.via, retried.job_id) == ("they are back", "console", failed[0])
    assert (retried.kind, retried.kinds) == ("demo.echo", 1)
    assert page.acts[0].held_kind == "mail.send"
    assert (page.older, page.back_to) == (None, None)


def test_what_workers_and_their_tokens_end_is_no_act_of_people(session: Session) -> None:
    for verb in ("fail", "release", "cancel"):
        claim = claim_one(session, make_job(session).id)
        transitions.settle(session, [outcome(claim, verb)], actor="token:remote")
        session.commit()
    transitions.hold(session, [make_job(session).id], actor="housekeeping:a", held_for="kind")
    session.commit()

    assert told(queries.list_acts(session, ActFilter())) == []


def test_an_operation_is_told_by_its_own_lines(session: Session) -> None:
    for _ in range(3):
        make_job(session, Status.FAILED)
    session.commit()
    survey = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    planned = operations.plan(session, survey, how={}, actor="user:ana", reason="again")
    session.commit()
    operations.step(session, planned.id, actor="user:ana", via="console")
    session.commit()

    finish, begin, plan = queries.list_acts(session, ActFilter()).acts

    assert (begin.did, begin.planned) == (Did.BEGIN, 3)
    assert (finish.did, finish.moved, plan.did, plan.planned) == (Did.FINISH, 3, Did.PLAN, 3)
    assert {finish.operation, begin.operation, plan.operation} == {planned.id}
    assert plan.reason == "again"
    canary = operations.plan(
        session, survey, how={}, actor="user:ana", reason="5", canary=operations.Terms()
    )
    session.commit()
    for did, wanted in ((Did.CANARY, [canary.id]), (Did.UNDO, []), (Did.RUN_NOW, [])):
        alone = ActFilter(dids=(did,))
        assert [act.operation for act in queries.list_acts(session, alone).acts] == wanted
        beside = ActFilter(dids=(did, Did.HOLD))
        assert [act.operation for act in queries.list_acts(session, beside).acts] == wanted


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_hold_each_act_once(session: Session, limit: int) -> None:
    jobs = [make_job(session, kind=f"a.k{n}").id for n in range(6)]
    session.commit()
    for n in (0, 2, 4):
        # The lines of two acts, one among the other: cut between them, the second would be halved.
        for job in jobs[n : n + 2]:
            transitions.hold(session, [job], actor="user:ana", reason=f"hold {n}")
            transitions.cancel(session, [job], actor="user:ana", reason=f"cancel {n}")
        session.commit()
    control.pause(session, actor="user:ana", reason="c")
    session.commit()

    seen, before, pages = [], None, 0
    while True:
        page = queries.list_acts(session, ActFilter(), before=before, limit=limit)
        seen += [(act.id, act.did.value, act.jobs) for act in page.acts]
        before, pages = page.older, pages + 1
        if before is None or pages > 10:
            break

    assert [entry[0] for entry in seen] == sorted({entry[0] for entry in seen}, reverse=True)
    assert [entry[1:] for entry in seen] == [("pause", 0), *[("cancel", 2), ("hold", 2)] * 3]


def test_acts_are_narrowed_by_actor_verb_and_time(session: Session) -> None:
    jobs = [make_job(session).id for _ in range(2)]
    session.commit()
    transitions.hold(session, jobs[:1], actor="user:ana", reason="a")
    session.commit()
    between = queries.database_now(session)
    session.rollback()
    transitions.hold(session, jobs[1:], actor="user:bo", reason="b")
    control.pause(session, actor="user:ana", reason="c")
    session.commit()

    def found(**where: object) -> list[str]:
        page = queries.list_acts(session, ActFilter(**where))  # type: ignore[arg-type]
        return sorted(act.reason or "" for act in page.acts)

    assert found(actor="user:ana") == ["a", "c"]
    assert found(dids=(Did.HOLD,)) == ["a", "b"]
    assert found(dids=TO_QUEUE) == ["c"]
    assert found(dids=TO_QUEUE, actor="user:bo") == []
    assert found(since=between) == ["b", "c"]
    assert found(until=between) == ["a"]
    assert found(dids=(Did.PAUSE,), until=between) == []


@pytest.mark.postgresql("generate_series")
def test_a_look_that_ends_early_says_how_far_it_came_and_switches_are_found_all_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()
    noise = sa.text(
        "INSERT INTO job_events (job_id, kind, event, actor)"
        " SELECT n, 'demo.echo', 'enqueued', 'app' FROM generate_series(1, 50) n"
    )
    session.execute(noise)
    session.commit()
    monkeypatch.setattr(trail, "SCAN_LIMIT", 10)

    page = queries.list_acts(session, ActFilter(), seconds=-1)
    assert (told(page), page.older is None, page.back_to is None) == ([], False, False)
    pages = 1
    while page.older:
        page = queries.list_acts(session, ActFilter(), before=page.older, seconds=-1)
        pages += 1
    assert (told(page), pages) == ([("pause", "user:ana", 0)], 6)

    assert told(queries.list_acts(session, ActFilter(), seconds=60)) == told(page)
    # Nothing below the first window can be that young.
    soon = queries.database_now(session) + timedelta(hours=1)
    assert queries.list_acts(session, ActFilter(since=soon), seconds=-1).older is None
    assert told(queries.list_acts(session, ActFilter(dids=TO_QUEUE), seconds=-1)) == told(page)


def test_lines_too_many_to_be_put_in_order_are_told_of(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        control.pause(session, actor="user:ana", reason=str(n))
    session.commit()
    monkeypatch.setattr(trail, "SCAN_LIMIT", 2)

    assert queries.list_acts(session, ActFilter(dids=TO_QUEUE)).crowded
    monkeypatch.setattr(trail, "SCAN_LIMIT", 4)
    assert not queries.list_acts(session, ActFilter(dids=TO_QUEUE)).crowded
