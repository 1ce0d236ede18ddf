"""Jobs created inside the caller's transaction, with what handlers and settings add to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from queueapp.errors import IdempotencyConflict, InvalidJob
from queueapp.handlers import (
    Enqueued,
    EnqueueRequest,
    Policy,
    configure,
    enqueue,
    enqueue_many,
    handler,
)
from queueapp.jobs.models import Job, JobEvent


@pytest.fixture(autouse=True)
def mail_send() -> None:
    @handler("mail.send", max_attempts=8, timeout=30)
    def send(to: str) -> None: ...


def job(session: Session, made: Enqueued) -> Job:
    session.expire_all()
    return session.get_one(Job, made.id)


def test_a_job_is_there_when_the_caller_commits(session: Session, engine: sa.Engine) -> None:
    made = enqueue(session, "mail.send", {"to": "ana"})
    assert made.outcome == "new"
    with Session(engine) as other:
        assert other.get(Job, made.id) is None
        session.commit()
        assert other.get_one(Job, made.id).payload == {"to": "ana"}


def test_a_job_is_gone_with_the_callers_rollback(session: Session) -> None:
    made = enqueue(session, "mail.send", {"to": "ana"})
    session.rollback()
    assert session.get(Job, made.id) is None


def test_a_connection_and_a_scoped_session_do_as_well(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        first = enqueue(connection, "mail.send", {"to": "ana"})
    scoped = scoped_session(sessionmaker(engine))
    second = enqueue(scoped, "mail.send", {"to": "ben"})
    scoped.commit()
    scoped.remove()
    assert second.id > first.id


def test_the_handlers_defaults_are_written_into_the_row(session: Session) -> None:
    row = job(session, enqueue(session, "mail.send", {"to": "ana"}))
    assert (row.max_attempts, row.timeout_s, row.priority) == (8, 30, 0)


def test_the_request_wins_over_the_handler(session: Session) -> None:
    made = enqueue(session, "mail.send", {"to": "ana"}, max_attempts=1, timeout=0, priority=-5)
    row = job(session, made)
    assert (row.max_attempts, row.timeout_s, row.priority) == (1, 0, -5)


def test_the_setting_decides_where_nobody_else_does(session: Session) -> None:
    configure(Policy(max_attempts=9))
    row = job(session, enqueue(session, "demo.echo"))
    assert (row.max_attempts, row.timeout_s, row.payload) == (9, None, {})


def test_a_delay_counts_from_now_by_the_databases_clock(session: Session) -> None:
    row = job(session, enqueue(session, "demo.echo", delay=timedelta(minutes=5)))
    assert row.available_at - row.created_at == timedelta(minutes=5)


def test_available_at_is_taken_as_the_instant_it_is(session: Session) -> None:
    due = datetime(2027, 1, 31, 8, tzinfo=UTC)
    row = job(session, enqueue(session, "demo.echo", available_at=due))
    assert row.available_at == due


def test_the_ledger_names_producer_actor_and_surface(session: Session) -> None:
    made = enqueue(session, "demo.echo", producer="shop", actor="token:shop", via="api")
    event = session.scalars(sa.select(JobEvent).where(JobEvent.job_id == made.id)).one()
    assert (event.event, event.actor, event.data["via"]) == ("enqueued", "token:shop", "api")
    assert job(session, made).producer == "shop"


def test_the_same_request_with_the_same_key_is_a_replay(session: Session) -> None:
    first = enqueue(session, "demo.echo", {"message": 1}, key="k")
    again = enqueue(session, "demo.echo", {"message": 1.0}, key="k")
    assert (first.outcome, again.outcome, again.id) == ("new", "replay", first.id)


def test_a_different_request_with_the_same_key_names_what_differs(session: Session) -> None:
    first = enqueue(session, "demo.echo", {"message": 1}, key="k")
    with pytest.raises(IdempotencyConflict) as conflict:
        enqueue(session, "demo.echo", {"message": 2}, key="k", priority=1)
    assert conflict.value.context == {"job_id": first.id, "fields": ["payload", "priority"]}


def test_a_key_belongs_to_its_producer(session: Session) -> None:
    first = enqueue(session, "demo.echo", key="k", producer="shop")
    other = enqueue(session, "demo.echo", key="k", producer="billing")
    assert other.outcome == "new"
    assert other.id != first.id


def test_a_relative_delay_does_not_spoil_a_replay(session: Session) -> None:
    first = enqueue(session, "demo.echo", delay=60, key="k")
    assert enqueue(session, "demo.echo", delay=60.0, key="k").id == first.id


def test_many_are_answered_in_order_with_their_outcomes(session: Session) -> None:
    enqueue(session, "demo.echo", {"message": "old"}, key="b")
    answers = enqueue_many(
        session,
        [
            EnqueueRequest(kind="demo.echo", payload={"message": "a"}, key="a"),
            EnqueueRequest(kind="demo.echo", payload={"message": "new"}, key="b"),
            EnqueueRequest(kind="demo.echo", payload={"message": "old"}, key="b"),
            EnqueueRequest(kind="mail.send", payload={"to": "ana"}),
        ],
    )
    assert [one.outcome for one in answers] == ["new", "conflict", "replay", "new"]
    assert [one.fields for one in answers] == [(), ("payload",), (), ()]
    assert job(session, answers[3]).max_attempts == 8


def test_no_jobs_are_no_statement() -> None:
    assert enqueue_many(None, []) == []  # type: ignore[arg-type]


def test_one_bad_job_keeps_all_from_being_written(session: Session) -> None:
    with pytest.raises(InvalidJob):
        enqueue_many(session, [EnqueueRequest(kind="demo.echo"), EnqueueRequest(kind="mail.send")])
    assert session.scalar(sa.select(sa.func.count()).select_from(Job)) == 0


def test_a_refused_request_does_not_use_up_its_key(session: Session) -> None:
    with pytest.raises(InvalidJob):
        enqueue(session, "mail.send", {"to": 5}, key="k")
    assert enqueue(session, "mail.send", {"to": "ana"}, key="k").outcome == "new"


def test_text_that_looks_dangerous_comes_back_unchanged(session: Session) -> None:
    payload = {"message": {"\\u0000": "😀 <script> %(x)s :y {z}", "n": [1e22, -0.5, 2**60, None]}}
    made = enqueue(session, "demo.echo", payload, key="ü'\"; --")
    assert job(session, made).payload == payload
    assert job(session, made).idempotency_key == "ü'\"; --"
