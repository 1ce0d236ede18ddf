"""One statement for one job or five thousand: new, replay, conflict, and rivals for one key."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.transitions import Enqueued, NewJob


def keyed(key: str | None, request_hash: str = "same") -> NewJob:
    stored = request_hash if key else None
    return NewJob(kind="demo.echo", payload={}, key=key, request_hash=stored)


def put(database: Session | sa.Connection, *jobs: NewJob, producer: str = "app") -> list[Enqueued]:
    return transitions.enqueue(database, jobs, producer=producer, actor="app", via="python")


def test_a_key_makes_one_job_and_then_replays_or_conflicts(session: Session) -> None:
    [first] = put(session, keyed("k"))
    [again] = put(session, keyed("k"))
    [other] = put(session, keyed("k", "different"))

    assert [first.outcome, again.outcome, other.outcome] == ["new", "replay", "conflict"]
    assert first.id == again.id == other.id
    assert other.request_hash == "same"


def test_keys_belong_to_their_producer(session: Session) -> None:
    [mine] = put(session, keyed("k"), producer="mine")
    [theirs] = put(session, keyed("k", "different"), producer="theirs")

    assert theirs.outcome == "new"
    assert mine.id != theirs.id


def test_duplicates_within_one_request_are_one_job(session: Session) -> None:
    answers = put(session, keyed("k"), keyed(None), keyed("k"), keyed("k", "different"))

    assert [answer.outcome for answer in answers] == ["new", "new", "replay", "conflict"]
    assert answers[0].id == answers[2].id == answers[3].id


def test_ids_follow_the_order_of_the_request_whatever_the_keys(session: Session) -> None:
    answers = put(session, *(keyed(key) for key in ("z", None, "a", "m", None)))

    assert [answer.id for answer in answers] == sorted(answer.id for answer in answers)


@pytest.mark.postgresql("round trips")
def test_five_thousand_are_one_statement(session: Session) -> None:
    sent: list[str] = []
    engine = session.get_bind()
    sa.event.listen(engine, "before_cursor_execute", lambda *args: sent.append(args[2]))

    answers = put(session, *(keyed(f"k{n % 4000}") for n in range(5000)))

    assert len(sent) == 1
    assert sum(answer.outcome == "new" for answer in answers) == 4000
    assert sum(answer.outcome == "replay" for answer in answers) == 1000


@pytest.mark.postgresql("the clock of a transaction")
def test_a_delay_counts_from_the_call_not_from_the_start_of_the_transaction(
    session: Session,
) -> None:
    session.execute(text("SELECT pg_sleep(0.3)"))

    put(session, NewJob(kind="demo.echo", payload={}, delay_s=60))

    wait = session.scalar(
        text("SELECT extract(epoch FROM available_at - transaction_timestamp()) FROM jobs")
    )
    assert float(wait or 0) >= 60.3


def test_nothing_is_written_for_no_jobs(session: Session) -> None:
    assert put(session) == []


@pytest.mark.postgresql("two writers at once")
@pytest.mark.parametrize("rival_commits", [True, False])
def test_a_rival_with_the_same_key_is_waited_for(
    engine: sa.Engine, session: Session, rival_commits: bool
) -> None:
    [theirs] = put(session, keyed("k"))
    answers: list[Enqueued] = []

    def rival() -> None:
        with engine.begin() as connection:
            answers.extend(put(connection, keyed("k")))

    thread = threading.Thread(target=rival)
    thread.start()
    _await_a_waiting_session(engine)
    if rival_commits:
        session.commit()
    else:
        session.rollback()
    thread.join(20)

    [mine] = answers
    assert mine.outcome == ("replay" if rival_commits else "new")
    assert (mine.id == theirs.id) == rival_commits
    assert session.scalar(text("SELECT count(*) FROM jobs")) == 1
    assert session.scalar(text("SELECT count(*) FROM job_events WHERE event = 'enqueued'")) == 1


def _await_a_waiting_session(engine: sa.Engine) -> None:
    """Until somebody waits for another transaction's end; the test's time limit bounds it."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
    with engine.connect() as connection:
        while not connection.scalar(waiting):
            connection.rollback()


def test_bulks_with_the_same_keys_in_opposite_order_do_not_deadlock(engine: sa.Engine) -> None:
    keys = [f"k{n}" for n in range(200)]
    start = threading.Barrier(6)
    errors: list[BaseException] = []

    def bulk(order: int) -> None:
        start.wait()
        try:
            for _ in range(5):
                with engine.begin() as connection:
                    put(connection, *(keyed(key) for key in keys[::order]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=bulk, args=(1 - 2 * (n % 2),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs")) == 200
        assert connection.scalar(text("SELECT count(*) FROM job_events")) == 200
