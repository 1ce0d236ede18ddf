"""One statement for one job or five thousand: new, replay, conflict, and rivals for one key."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import autocommit, transitions
from queueapp.jobs.database import run
from queueapp.jobs.transitions import Enqueued, Json, NewJob, producer
from tests.locks import until_a_lock_is_awaited


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


@pytest.mark.parametrize("limit", ["MOST_JOBS", "MOST_TEXT"])
@pytest.mark.parametrize("outcome", ["new", "replay"])
def test_what_is_too_much_for_one_statement_takes_several(
    session: Session, monkeypatch: pytest.MonkeyPatch, limit: str, outcome: str
) -> None:
    monkeypatch.setattr(producer, limit, {"MOST_JOBS": 3, "MOST_TEXT": 300}[limit])
    keys = ["z", None, "b", "a", "z", "y", None, "b", "c", "a"]
    if outcome == "replay":
        put(session, keyed("b"))

    answers = put(session, *(keyed(key) for key in keys), keyed("c", "different"))

    new = [answer.id for answer in answers if answer.outcome == "new"]
    assert [answer.outcome for answer in answers] == [
        "new", "new", outcome, "new", "replay", "new", "new", "replay", "new", "replay", "conflict",
    ]  # fmt: skip
    assert new == sorted(new)
    for again, first in ((4, 0), (7, 2), (9, 3), (10, 8)):
        assert answers[again].id == answers[first].id
    assert put(session, *[keyed(None)] * 10)[-1].outcome == "new"
    assert session.scalar(text("SELECT count(*) FROM jobs")) == 17


@pytest.mark.postgresql("several statements")
@pytest.mark.parametrize("key", [None, "k"])
def test_all_or_none_also_in_autocommit_mode(
    worker: sa.Connection, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setattr(producer, "MOST_JOBS", 2)
    bad = NewJob(kind="No Kind", payload={})

    with pytest.raises(sa.exc.IntegrityError):
        put(worker, keyed(key), *[keyed(None)] * 4, bad)

    assert worker.scalar(text("SELECT count(*) FROM jobs")) == 0
    put(worker, keyed(key), *[keyed(None)] * 4)
    assert worker.scalar(text("SELECT count(*) FROM jobs")) == 5


@pytest.mark.postgresql("locks and their time-out")
def test_a_failure_in_autocommit_mode_drops_the_connection_unless_it_is_the_datas(
    worker: sa.Connection, engine: sa.Engine
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        put(worker, NewJob(kind="No Kind", payload={}))
    assert not worker.invalidated
    worker.execute(text("SET lock_timeout = '50ms'"))

    with engine.begin() as other:
        other.execute(text("LOCK TABLE jobs"))
        with pytest.raises(sa.exc.OperationalError) as failure:
            put(worker, keyed(None))

    assert failure.value.connection_invalidated
    assert worker.invalidated


@pytest.mark.postgresql("connections")
@pytest.mark.parametrize("statements", [0, 1, 3], ids=["BEGIN", "between", "COMMIT"])
def test_a_connection_that_is_lost_amid_several_statements_is_dropped(
    worker: sa.Connection, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    """Whichever finds it lost: the error is SQLAlchemy's, and nothing is written."""
    monkeypatch.setattr(producer, "MOST_JOBS", 2)
    pid = worker.scalar(text("SELECT pg_backend_pid()"))
    left = iter([False] * (statements - 1) + [statements > 0])

    def cut() -> None:
        with engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})

    def run_and_cut(*given: Any, **parameters: Any) -> Any:
        rows = run(*given, **parameters)
        if next(left, False):
            cut()
        return rows

    monkeypatch.setattr(producer, "run", run_and_cut)
    if not statements:
        cut()
    with pytest.raises(sa.exc.DBAPIError) as failure:
        put(worker, *[keyed(None)] * 6)

    assert failure.value.connection_invalidated
    assert worker.invalidated
    worker.rollback()
    assert worker.scalar(text("SELECT count(*) FROM jobs")) == 0
    # Often enough for BEGIN and COMMIT to be prepared.
    assert [len(put(worker, *[keyed(None)] * 6)) for _ in range(4)] == [6] * 4


@pytest.mark.postgresql("NOTIFY")
def test_workers_are_told_once_the_job_is_there(
    worker: sa.Connection, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def announce(_engine: sa.Engine) -> None:
        with engine.connect() as other:
            found.append(other.scalar(text("SELECT count(*) FROM jobs")))

    monkeypatch.setattr(autocommit, "_announce", announce)
    put(worker, keyed("k"))
    put(worker, keyed("k"))
    put(worker, keyed(None), keyed(None))

    assert found == [1, 3]


def test_one_job_can_be_answered_whole(session: Session) -> None:
    job = NewJob(kind="demo.echo", payload=Json('{"message": [1, null]}'), delay_s=60, key="k",
                 request_hash="same")  # fmt: skip
    for outcome in ("new", "replay"):
        made = transitions.enqueue_one(
            session, job, producer="app", actor="app", via="python", whole=True
        )
        assert made.row is not None
        assert (made.outcome, made.row.id, made.row.status) == (outcome, made.id, "queued")
        assert made.row.payload == {"message": [1, None]}
        assert (made.row.available_at - made.row.created_at).total_seconds() == 60


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
    until_a_lock_is_awaited(engine)
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


@pytest.mark.parametrize("most", [5000, 60])
def test_bulks_with_the_same_keys_in_opposite_order_do_not_deadlock(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(producer, "MOST_JOBS", most)
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
