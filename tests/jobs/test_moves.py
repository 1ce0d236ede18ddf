"""Every verb from every status, walked from the table of moves itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff, after_handback
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import MOVES, ROW_ONLY, WAITING, Event, Reason, Status, Verb, sources
from queueapp.jobs.transitions import By, Held, NewJob, Outcome, Progress
from tests.factories import HOLDER, make_job

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PERSON: By = {"actor": "user:ana", "reason": "because", "via": "test"}
WORKER = HOLDER.name

# What a way does is told the job and the token of its latest attempt (any, if it had none).
Do = Callable[[Session, int, UUID], object]


@dataclass(frozen=True)
class Way:
    """One way to do a verb, and who must stand in the ledger for it."""

    verb: Verb
    name: str
    actor: str
    do: Do
    asked: bool = False
    last: bool = False
    reason: str | None = "because"

    @property
    def sources(self) -> tuple[Status, ...]:
        """Where this way leads anywhere: a worker cancels only what it runs."""
        by_worker = self.verb is Verb.CANCEL and self.actor == WORKER
        return (Status.RUNNING,) if by_worker else sources(self.verb)

    def __str__(self) -> str:
        return f"{self.verb}-{self.name}" + "-asked" * self.asked + "-last" * self.last


def settled(verb: Verb, name: str, how: Any, **more: Any) -> Way:
    def do(session: Session, job_id: int, token: UUID) -> object:
        end = Outcome(
            id=job_id, token=token, verb=how, claimed_at=LONG_AGO, delay_s=5, reason="because"
        )
        return transitions.settle(session, [end], actor=WORKER)

    return Way(verb, name, WORKER, do, **more)


def handed_back_too_often(verb: Any) -> Way:
    decision = after_handback(verb, 1000, Backoff())
    return settled(Verb(verb), "too-often", decision.verb)


def by_person(function: Any, **how: Any) -> Way:
    def do(session: Session, job_id: int, _token: UUID) -> object:
        return function(session, [job_id], **PERSON, **how)

    return Way(Verb(function.__name__), "person", PERSON["actor"], do)


def released(*, asked: bool = False, last: bool = False) -> Way:
    def do(session: Session, job_id: int, token: UUID) -> object:
        return transitions.release(session, [job_id], **PERSON, token=token)

    return Way(Verb.RELEASE, "person", PERSON["actor"], do, asked=asked, last=last)


def enqueue_again(session: Session, _job_id: int, _token: UUID) -> object:
    again = NewJob(kind="demo.echo", payload={}, key="the key", request_hash="x")
    return transitions.enqueue(session, [again], producer="app", actor="app", via="python")


def claim(session: Session, _job_id: int, _token: UUID) -> object:
    return transitions.exchange(session, [], HOLDER, slots=1)


def renew(session: Session, job_id: int, token: UUID) -> object:
    return transitions.renew(session, [Held(job_id, token)], HOLDER)


def progress(session: Session, job_id: int, token: UUID) -> object:
    transitions.write_progress(session, [Progress(job_id, token, 50, "half")])
    return None


def expire(session: Session, job_id: int, _token: UUID) -> object:
    overdue = sa.update(Job).where(Job.id == job_id, Job.status == Status.RUNNING)
    session.execute(overdue.values(lease_expires_at=LONG_AGO))
    return transitions.expire(session, actor="sweeper:1", backoff=Backoff())


WAYS = (
    Way(Verb.ENQUEUE, "again", "app", enqueue_again),
    Way(Verb.CLAIM, "worker", WORKER, claim, reason=None),
    Way(Verb.RENEW, "worker", WORKER, renew),
    Way(Verb.PROGRESS, "worker", WORKER, progress),
    settled(Verb.SUCCEED, "worker", "succeed"),
    settled(Verb.SUCCEED, "worker", "succeed", asked=True, reason=Reason.FINISHED_BEFORE_CANCEL),
    settled(Verb.FAIL, "retry", "retry"),
    settled(Verb.FAIL, "retry", "retry", asked=True),
    settled(Verb.FAIL, "for-good", "fail"),
    settled(Verb.FAIL, "for-good", "fail", asked=True),
    settled(Verb.RELEASE, "worker", "release"),
    settled(Verb.RELEASE, "worker", "release", asked=True),
    settled(Verb.DEFER, "worker", "defer"),
    settled(Verb.DEFER, "worker", "defer", asked=True),
    settled(Verb.CANCEL, "worker", "cancel"),
    handed_back_too_often("release"),
    handed_back_too_often("defer"),
    released(),
    released(asked=True),
    released(last=True),
    released(asked=True, last=True),
    Way(Verb.EXPIRE, "sweeper", "sweeper:1", expire, reason=Reason.LEASE_LOST),
    Way(Verb.EXPIRE, "sweeper", "sweeper:1", expire, reason=Reason.LEASE_LOST, asked=True),
    Way(Verb.EXPIRE, "sweeper", "sweeper:1", expire, reason=Reason.ATTEMPTS_USED_UP, last=True),
    by_person(transitions.cancel),
    by_person(transitions.requeue),
    by_person(transitions.hold),
    by_person(transitions.unhold),
    by_person(transitions.reschedule, priority=7, available_at=LONG_AGO),
    by_person(transitions.restore, statuses=["queued"], held_for=[None]),
    by_person(transitions.restore, statuses=["held"], held_for=["kind"]),
    by_person(transitions.purge),
)
# What the end of a lost lease may come to: the sweeper decides like a worker.
WITHIN = {Verb.EXPIRE: (Verb.EXPIRE, Verb.FAIL)}


@dataclass(frozen=True)
class Before:
    """A job that stands in one status, and all there is to see of it."""

    id: int
    token: UUID
    row: str
    last_event: int


def stand(session: Session, status: Status, way: Way) -> Before:
    job = make_job(
        session,
        status,
        available_at=LONG_AGO,
        key="the key",
        request_hash="x",
        max_attempts=1 if way.last else 5,
    )
    if way.asked and status is Status.RUNNING:
        transitions.cancel(session, [job.id], actor="user:eve")
    tokens = sa.select(JobEvent.lease_token).where(JobEvent.lease_token.is_not(None))
    token = session.scalars(tokens.order_by(JobEvent.id.desc())).first() or uuid4()
    last = session.scalar(sa.select(sa.func.max(JobEvent.id)))
    return Before(job.id, token, row_of(session, job.id) or "", last or 0)


def row_of(session: Session, job_id: int) -> str | None:
    """The whole row as text, with its place in the file: even a vain rewrite shows.

    SQLite tells no place.
    """
    place = "'', " if session.get_bind().dialect.name == "sqlite" else "ctid::text, "
    whole = session.execute(
        sa.text(f"SELECT {place}j.* FROM jobs j WHERE id = :id"), {"id": job_id}
    )
    row = whole.one_or_none()
    return None if row is None else repr(row)


def events_after(session: Session, event_id: int) -> Sequence[JobEvent]:
    newer = sa.select(JobEvent).where(JobEvent.id > event_id)
    return session.scalars(newer.order_by(JobEvent.id)).all()


LEGAL = [(way, source) for way in WAYS for source in way.sources]
MOVING = [(way, source) for way, source in LEGAL if way.verb not in ROW_ONLY]
ILLEGAL = [(way, status) for way in WAYS for status in Status if status not in way.sources]


@pytest.mark.parametrize(("way", "status"), MOVING, ids=str)
def test_a_legal_verb_moves_the_job_and_says_so(session: Session, way: Way, status: Status) -> None:
    before = stand(session, status, way)

    way.do(session, before.id, before.token)

    assert_moved(session, way, status, before)


@pytest.mark.parametrize(("way", "status"), ILLEGAL, ids=str)
def test_an_illegal_verb_changes_nothing(session: Session, way: Way, status: Status) -> None:
    before = stand(session, status, way)

    way.do(session, before.id, before.token)

    assert row_of(session, before.id) == before.row
    assert events_after(session, before.last_event) == []


@pytest.mark.parametrize(("way", "status"), [p for p in LEGAL if p not in MOVING], ids=str)
def test_renewals_and_progress_write_the_row_and_no_event(
    session: Session, way: Way, status: Status
) -> None:
    before = stand(session, status, way)

    way.do(session, before.id, before.token)

    assert row_of(session, before.id) != before.row
    assert session.get_one(Job, before.id, populate_existing=True).status == status
    assert events_after(session, before.last_event) == []


def test_every_move_of_the_table_is_walked_here(session: Session) -> None:
    walked = set()
    for way, status in MOVING:
        before = stand(session, status, way)
        way.do(session, before.id, before.token)
        events = events_after(session, before.last_event)
        walked |= {(way.verb, *step_of(event)) for event in events}
        session.rollback()

    table = {(m.verb, m.event, m.source, m.target) for m in MOVES if m.source is not None}
    assert table <= walked


def assert_moved(session: Session, way: Way, status: Status, before: Before) -> None:
    events = events_after(session, before.last_event)
    allowed = {
        (move.event, move.source, move.target)
        for move in MOVES
        if move.verb in WITHIN.get(way.verb, (way.verb,))
    }
    steps = [step_of(event) for event in events]
    assert steps
    assert set(steps) <= allowed
    assert steps[0][1] is status
    assert len(steps) == (2 if way.verb is Verb.EXPIRE else 1)
    assert {event.actor for event in events} == {way.actor}
    assert {event.kind for event in events} == {"demo.echo"}
    assert {event.attempt for event in events} == {attempt_of(way, status)}
    assert events[-1].reason == way.reason
    job = session.get(Job, before.id, populate_existing=True)
    assert (job.status if job else None) == steps[-1][2]


def attempt_of(way: Way, status: Status) -> int:
    """The attempt that an event belongs to: the claimed one, the latest one, or none yet."""
    return int(way.verb is Verb.CLAIM or status not in (*WAITING, Status.CANCELLED))


def step_of(event: JobEvent) -> tuple[Event, Status | None, Status | None]:
    source = Status(event.from_status) if event.from_status else None
    return Event(event.event), source, Status(event.to_status) if event.to_status else None
