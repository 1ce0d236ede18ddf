"""Undo: an operation's jobs are again what they were, but for those that went on since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp import handlers
from queueapp.errors import NotUndoable
from queueapp.jobs import audit, control, operations, queries, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import Operation, Undone, driver, planning, undone
from queueapp.jobs.operations import undo as way_back
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Event, Status
from tests.factories import claim_one, make_job
from tests.jobs.explain import Prepared

ANA: dict[str, Any] = {"actor": "user:ana"}
LATER = datetime(2030, 1, 1, tzinfo=UTC)
KIND = JobFilter(kind="demo.echo")
# What an undo has to bring back.
PLACE = (Job.status, Job.held_for, Job.priority, Job.available_at, Job.finished_at, Job.attempts)


class Undo:
    """Operations that are applied and undone, and where jobs stand."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def do(self, verb: str, **how: Any) -> Operation:
        found = operations.survey(self.session, verb, KIND)
        made = operations.plan(self.session, found, how=how, reason="a slip", **ANA)
        return self.apply(made)

    def plan(self, origin: Operation) -> Operation:
        found = operations.survey_undo(self.session, origin)
        made = operations.plan(self.session, found, how={}, reason="back", **ANA)
        self.session.commit()
        return made

    def apply(self, made: Operation) -> Operation:
        while not made.is_over:
            made = operations.step(self.session, made.id, **ANA, via="console")
            self.session.commit()
        return made

    def places(self, ids: list[int]) -> list[Any]:
        return [tuple(row) for row in self.rows(ids)]

    def rows(self, ids: list[int]) -> Any:
        places = sa.select(*PLACE).where(Job.id.in_(ids))
        return self.session.execute(places.order_by(Job.id)).all()


@pytest.fixture
def undo(session: Session) -> Iterator[Undo]:
    yield Undo(session)
    session.rollback()
    *_, (_, report) = audit.check(session)
    assert report.clean, report.offenders


def of_every_waiting_kind(session: Session) -> list[int]:
    """Due, later, held by itself, held for its kind; each at a place of its own."""
    ids = [
        make_job(session, priority=3).id,
        make_job(session, priority=-2, available_at=LATER).id,
        make_job(session, Status.HELD, priority=5).id,
        make_job(session, priority=7, available_at=LATER - timedelta(days=1)).id,
    ]
    control.hold_kind(session, "demo.echo", actor="user:ana", reason="provider down")
    transitions.hold(session, ids[3:], actor="housekeeping:1", held_for="kind")
    session.commit()
    return ids


@pytest.mark.parametrize(
    ("verb", "how", "moved"),
    [
        ("cancel", {}, 4),
        ("hold", {}, 2),
        ("unhold", {}, 1),
        ("reschedule", {"priority": 9, "delay_s": 3600.0}, 4),
        ("reschedule", {"delay_s": 60.0, "spread_s": 600.0}, 4),
        ("run-now", {}, 1),
    ],
)
def test_every_job_is_again_what_it_was(
    undo: Undo, session: Session, verb: str, how: dict[str, Any], moved: int
) -> None:
    ids = of_every_waiting_kind(session)
    before = undo.places(ids)
    origin = undo.do(verb, **how)
    assert (origin.moved, undo.places(ids) != before) == (moved, True)

    made = undo.plan(origin)
    done = undo.apply(made)

    assert (made.verb, made.undoes, made.state) == ("undo", origin.id, "planned")
    assert (made.counts.total, made.others.total) == (moved, 0)
    assert (done.state, done.moved, done.skipped) == ("done", moved, 0)
    assert undo.places(ids) == before
    lines = session.scalars(sa.select(JobEvent).where(JobEvent.job_id.is_not(None)))
    mine = [line for line in lines if line.data.get("operation") == made.id]
    assert {(line.reason, line.actor, line.data["via"]) for line in mine} == {
        ("back", "user:ana", "console")
    }


def test_what_was_held_with_its_kind_waits_again_where_that_hold_is_lifted(
    undo: Undo, session: Session
) -> None:
    _, _, by_itself, with_kind = of_every_waiting_kind(session)
    origin = undo.do("cancel")
    control.unhold_kind(session, "demo.echo", actor="user:ana")
    session.commit()

    undo.apply(undo.plan(origin))

    stand = [(place.status, place.held_for) for place in undo.rows([by_itself, with_kind])]
    assert stand == [("held", "job"), ("queued", None)]


def test_a_clone_has_changed_nothing_of_its_original(undo: Undo, session: Session) -> None:
    job = make_job(session)
    session.commit()
    made = undo.do("hold")
    handlers.clone(session, job.id, **ANA, via="console")
    session.commit()

    undo.apply(undo.plan(made))

    assert queries.get_job(session, job.id).status == "queued"


def test_what_anything_has_happened_to_since_stays(undo: Undo, session: Session) -> None:
    kept, retried, gone, stopping = (make_job(session).id for _ in range(4))
    claim_one(session, stopping)
    session.commit()
    origin = undo.do("cancel")
    assert origin.moved == 4
    transitions.requeue(session, [retried], actor="user:bob")
    transitions.cancel(session, [retried], actor="user:bob")
    transitions.purge(session, [gone], actor="user:bob", reason="old")
    session.commit()

    made = undo.plan(origin)
    done = undo.apply(made)

    assert made.counts.by_status == {"cancelled": 1}
    assert made.others.by_status == {"changed": 2, "asked_to_stop": 1}
    assert (done.moved, done.skipped) == (1, 0)
    assert [place[0] for place in undo.places([kept, retried, stopping])] == [
        "queued", "cancelled", "running",
    ]  # fmt: skip


def test_what_happens_between_the_plan_and_its_batch_is_skipped(
    undo: Undo, session: Session
) -> None:
    ids = [make_job(session).id for _ in range(3)]
    session.commit()
    made = undo.plan(undo.do("hold"))
    transitions.unhold(session, ids[:1], actor="user:bob")
    transitions.hold(session, ids[:1], actor="user:bob")
    session.commit()

    done = undo.apply(made)

    assert (done.moved, done.skipped) == (2, 1)
    assert [place[0] for place in undo.places(ids)] == ["held", "queued", "queued"]


@pytest.mark.postgresql("row locks")
def test_a_locked_job_is_skipped_and_comes_with_another_undo(
    undo: Undo, session: Session, engine: sa.Engine
) -> None:
    ids = [make_job(session).id for _ in range(3)]
    session.commit()
    origin = undo.do("cancel")
    first = undo.plan(origin)
    with engine.begin() as other:
        other.execute(sa.select(Job.id).where(Job.id == ids[1]).with_for_update())
        first = undo.apply(first)

    again = undo.apply(undo.plan(origin))

    assert (first.moved, first.skipped, again.moved) == (2, 1, 1)
    assert [place[0] for place in undo.places(ids)] == ["queued"] * 3


def test_it_goes_a_batch_at_a_time_and_counts_a_look_at_a_time(
    undo: Undo, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    ids = [make_job(session).id for _ in range(5)]
    session.commit()
    origin = undo.do("cancel")
    monkeypatch.setattr(planning, "COUNT_S", -1.0)

    made = undo.plan(origin)
    states, numbers = [made.state], [made.counts.total]
    while not made.is_over:
        made = operations.step(session, made.id, **ANA, via="console")
        session.commit()
        states.append(made.state)
        numbers.append(made.counts.total if made.state != "applying" else made.moved)

    assert states == ["counting", "counting", "planned", "applying", "applying", "done"]
    assert numbers == [2, 4, 5, 2, 4, 5]
    assert (made.moved, made.skipped) == (5, 0)
    assert [place[0] for place in undo.places(ids)] == ["queued"] * 5


def test_an_operation_knows_by_which_others_it_was_undone(undo: Undo, session: Session) -> None:
    ids = [make_job(session).id for _ in range(3)]
    session.commit()
    origin, other = undo.do("hold"), undo.do("unhold")
    undone = operations.undone_of(session, [origin, other])
    assert (undone[origin.id].by, undone[other.id].by) == ((), ())

    transitions.hold(session, ids[:1], actor="user:bob")
    session.commit()
    first = undo.apply(undo.plan(other))
    undo.plan(other)  # which nobody begins
    so_far = operations.undone_of(session, [other, origin])
    assert so_far == {origin.id: Undone(), other.id: Undone((first.id,), 2)}


def test_what_is_back_whole_is_not_undone_again(undo: Undo, session: Session) -> None:
    make_job(session)
    session.commit()
    origin = undo.do("cancel")
    done = undo.apply(undo.plan(origin))

    with pytest.raises(NotUndoable, match=f"it has been undone by {done.id}"):
        operations.survey_undo(session, origin)


def test_there_is_no_way_back_from_some(undo: Undo, session: Session) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    retried = undo.do("retry")
    open_ = operations.plan(
        session, operations.survey(session, "cancel", KIND), how={}, reason="r", **ANA
    )
    cancelled = undo.apply(open_)
    back = undo.apply(undo.plan(cancelled))
    empty = undo.do("unhold")

    for origin, why in (
        (retried, "a retry cannot be undone"),
        (open_, "it is not over"),
        (back, "an undo is not undone"),
        (empty, "it has moved no job"),
    ):
        with pytest.raises(NotUndoable, match=why):
            operations.survey_undo(session, origin)


def test_batches_that_do_not_name_their_jobs_are_refused(undo: Undo, session: Session) -> None:
    make_job(session)
    session.commit()
    origin = undo.do("cancel")
    own = sa.update(JobEvent).where(JobEvent.event == Event.OP_DONE)
    session.execute(own.values(data={"after": 1, "moved": 1}))
    session.commit()

    with pytest.raises(NotUndoable, match="does not say which jobs"):
        operations.survey_undo(session, origin)


@pytest.mark.postgresql("plans and what they read")
def test_what_it_reads_is_found_by_probes(worker: sa.Connection) -> None:
    """By plans that were made while the ledger was empty."""
    worker.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    since = datetime.now(UTC)
    own = {"operation": "0" * 16, "since": since, "ids": list(range(1, 501))}
    lines = {"scope": "op:" + "0" * 16, "since": since, "after": 0, "upto": 10**9}
    with (
        Prepared(worker, "own", way_back._OWN) as asked,
        Prepared(worker, "next", way_back._NEXT) as walked,
        Prepared(worker, "undos", undone._UNDOS) as named,
    ):
        worker.execute(sa.text(FILLED))

        plans = {"since": since, "ids": ["0" * 16]}
        found = [asked.run(**own), walked.run(**lines), named.run(**plans)]

    for plan, by in zip(found, ("job_id = ", "scope = ", "event = "), strict=True):
        assert plan.scans("Seq Scan") == []
        looks = [node for node in plan.nodes if "Index Name" in node]
        assert looks
        assert [node for node in looks if by not in node.get("Index Cond", "")] == []


FILLED = """
INSERT INTO job_events (job_id, kind, event, to_status, actor)
SELECT n, 'demo.echo', 'cancelled', 'cancelled', 'app' FROM generate_series(1, 30000) n
"""
