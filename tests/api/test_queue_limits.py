"""The soft and the hard limit of what may wait: who is refused, how it is said, what it costs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp import create_app, notifier
from queueapp.api.intake import Intake
from queueapp.errors import SettingError
from queueapp.extensions import db
from queueapp.jobs import control, room, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import NewJob
from tests.api.conftest import body, pointers, problem
from tests.applications import application
from tests.factories import make_job
from tests.live.proxy import Proxy
from tests.locks import until_a_lock_is_awaited

ECHO = {"kind": "demo.echo"}
FULL = (429, "queue_full")
WHO: Any = {"actor": "user:ana", "reason": None, "via": "cli"}


class Clock:
    """The clock by which a process decides whether to look again."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Process:
    """One web process: what it knows of the queue is its own."""

    def __init__(self, url: str, *, soft: int = 0, hard: int = 0, pooler: bool = False) -> None:
        self.clock = Clock()
        settings = {"DATABASE_URL": url, "TESTING": True, "QUEUE_POOLER": str(int(pooler))}
        self.app = create_app(settings)
        self.app.extensions["queue_intake"] = Intake(soft, hard, clock=self.clock)
        self.client: FlaskClient = self.app.test_client()

    def post(self, **fields: Any) -> Any:
        return self.client.post("/api/jobs", json={**ECHO, **fields})

    def bulk(self, *jobs: dict[str, Any], query: str = "") -> Any:
        return self.client.post(f"/api/jobs/bulk{query}", json=[{**ECHO, **job} for job in jobs])

    def later(self) -> None:
        """Let so much time pass that it looks again."""
        self.clock.now += 60

    def close(self) -> None:
        with self.app.app_context():
            db.engine.dispose()


@pytest.fixture
def process(database_url: str) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(**settings: int) -> Process:
        made.append(Process(database_url, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def waiting(session: Session) -> int:
    session.rollback()
    found = session.scalar(sa.select(sa.func.count()).where(Job.status == Status.QUEUED))
    return int(found or 0)


def end_one(session: Session) -> None:
    """Cancel the oldest that waits."""
    first = session.scalar(sa.select(sa.func.min(Job.id)).where(Job.status == Status.QUEUED))
    transitions.cancel(session, [first or 0], **WHO)
    session.commit()


# The hard limit


@pytest.mark.parametrize("pooler", [False, True])
def test_a_full_queue_refuses_and_says_when_to_come_back(
    process: Callable[..., Process], session: Session, pooler: bool
) -> None:
    web = process(hard=3, pooler=pooler)
    made = [web.post().status_code for _ in range(3)]

    refused = web.post()

    assert made == [201, 201, 201]
    assert problem(refused) == FULL
    # Nothing says how fast it is drained.
    assert refused.headers["Retry-After"] == "60"
    assert body(refused)["retry_after"] == 60
    assert waiting(session) == 3

    end_one(session)
    web.later()
    assert [web.post().status_code for _ in range(2)] == [201, 429]
    assert waiting(session) == 3


def test_what_waits_for_its_time_counts_and_what_runs_or_is_held_does_not(
    process: Callable[..., Process], session: Session
) -> None:
    for status in (Status.RUNNING, Status.HELD, Status.SUCCEEDED, Status.FAILED):
        make_job(session, status)
    session.commit()
    web = process(hard=2)

    answers = [web.post(delay=3600).status_code for _ in range(3)]

    assert answers == [201, 201, 429]


@pytest.mark.parametrize("pooler", [False, True])
def test_a_request_that_was_here_before_is_answered_however_full_it_is(
    process: Callable[..., Process], session: Session, pooler: bool
) -> None:
    web, other = process(hard=1, pooler=pooler), process(hard=1, pooler=pooler)
    first = web.post(idempotency_key="a")

    for one in (web, other, web):
        again, differs = one.post(idempotency_key="a"), one.post(idempotency_key="a", priority=1)
        assert (again.status_code, body(again)["id"]) == (200, body(first)["id"])
        assert problem(differs) == (409, "idempotency_conflict")
        assert problem(one.post(idempotency_key="b")) == FULL

    end_one(session)
    web.later()
    assert web.post(idempotency_key="b").status_code == 201


def test_a_process_that_saw_much_room_is_not_wrong_about_it_later(
    process: Callable[..., Process], session: Session
) -> None:
    """No look, no time passes: the others' jobs are in its way all the same."""
    early, late = process(hard=10), process(hard=10)
    assert (early.post().status_code, late.post().status_code) == (201, 201)
    late.bulk(*[{}] * 5)

    answers = [one.post().status_code for _ in range(4) for one in (early, late)]

    assert sorted(answers) == [201, 201, 201, 429, 429, 429, 429, 429]
    assert waiting(session) == 10


def test_what_comes_back_is_let_in_and_counts(
    process: Callable[..., Process], session: Session
) -> None:
    web = process(hard=3)
    web.post()
    for _ in range(3):
        failed = make_job(session, Status.FAILED)
        transitions.requeue(session, [failed.id], **WHO)
    session.commit()

    web.later()

    assert problem(web.post()) == FULL
    assert waiting(session) == 4


@pytest.mark.parametrize("pooler", [False, True])
def test_many_producers_at_once_fill_it_to_the_limit_and_no_further(
    process: Callable[..., Process], session: Session, pooler: bool
) -> None:
    webs = [process(hard=40, pooler=pooler) for _ in range(2)]
    answers: list[int] = []

    def produce(web: Process, number: int) -> None:
        client = web.app.test_client()
        for turn in range(12):
            key = {"idempotency_key": f"{number}-{turn}"} if number % 2 else {}
            answers.append(client.post("/api/jobs", json={**ECHO, **key}).status_code)

    threads = [
        threading.Thread(target=produce, args=(webs[number % 2], number)) for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (answers.count(201), answers.count(429)) == (40, 32)
    assert waiting(session) == 40


@pytest.mark.postgresql("two who write at once")
def test_a_count_waits_for_whoever_is_creating(
    process: Callable[..., Process], engine: sa.Engine
) -> None:
    """Else a job that is written but not committed would not be counted, nor stopped by its id."""
    web, job = process(hard=1), NewJob(kind="demo.echo", payload={})
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(web.post()))
    with engine.connect() as rival:
        transitions.enqueue_one(rival, job, producer="app", actor="app", via="api", ceiling=2**62)
        thread.start()
        until_a_lock_is_awaited(engine, "advisory")
        assert answers == []
        rival.commit()
    thread.join()

    assert problem(answers[0]) == FULL


# Bulk


def test_a_bulk_that_does_not_fit_is_refused_whole(
    process: Callable[..., Process], session: Session
) -> None:
    web = process(hard=5)

    assert web.post().status_code == 201
    over = web.bulk(*[{}] * 5)
    end_one(session)
    fits = web.bulk(*[{}] * 5)

    assert problem(over) == FULL
    assert body(fits)["counts"]["new"] == 5
    assert problem(web.bulk({})) == FULL
    assert waiting(session) == 5
    assert session.scalar(sa.select(sa.func.count()).select_from(JobEvent)) == 7


def test_a_bulk_that_would_never_fit_is_told_so(
    process: Callable[..., Process], session: Session
) -> None:
    web = process(hard=3)
    keyed = [{"idempotency_key": key} for key in "abc"]
    assert body(web.bulk(*keyed))["counts"]["new"] == 3
    end_one(session)
    web.later()

    refused = web.bulk(*keyed, *[{}] * 4)

    assert problem(refused) == (422, "invalid_request")
    assert pointers(refused) == ["/6"]
    # As many as may wait are only told to wait: what was here before counts for nothing.
    assert problem(web.bulk(*keyed, *[{}] * 3)) == FULL


def test_a_count_that_takes_long_is_not_made_for_each_request(
    process: Callable[..., Process], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, measure, counts = process(hard=5), room.measure, []

    def measure_slowly(*args: Any, **how: Any) -> room.Reading:
        counts.append(how["alone"])
        return replace(measure(*args, **how), took_s=1.0)

    monkeypatch.setattr(room, "measure", measure_slowly)
    web.bulk({}, {})
    bulks = [web.bulk(*[{}] * 4).status_code for _ in range(9)]
    each = web.bulk(*[{}] * 2, query="?atomic=false")
    singles = [web.post().status_code for _ in range(3)]

    assert bulks == [429] * 9
    assert body(each)["counts"]["new"] == 2
    # The room that is known of is used for all that.
    assert singles == [201, 429, 429]
    assert counts == [True]
    end_one(session)
    web.later()
    assert web.post().status_code == 201
    assert counts.count(True) == 2


def test_each_by_itself_those_first_in_line_get_what_room_there_is(
    process: Callable[..., Process], session: Session
) -> None:
    web = process(hard=4)
    old = body(web.post(idempotency_key="old"))["id"]
    jobs: list[dict[str, Any]] = [
        {}, {"idempotency_key": "old"}, {"idempotency_key": "x"}, {"kind": "no.such"}, {},
        {"idempotency_key": "y"}, {"idempotency_key": "old", "priority": 2}, {},
    ]  # fmt: skip

    answer = web.bulk(*jobs, query="?atomic=false")

    assert [one["outcome"] for one in body(answer)["items"]] == [
        "new", "replay", "new", "invalid", "new", "full", "conflict", "full",
    ]  # fmt: skip
    assert body(answer)["counts"] == {
        "new": 3, "replay": 1, "conflict": 1, "invalid": 1, "full": 2,
    }  # fmt: skip
    assert body(answer)["items"][5]["problem"]["code"] == "queue_full"
    assert body(answer)["items"][1]["id"] == old
    assert answer.headers["Retry-After"] == "60"
    assert waiting(session) == 4


def test_a_bulk_of_what_was_here_before_is_answered_by_a_full_queue(
    process: Callable[..., Process], session: Session
) -> None:
    web = process(hard=3)
    jobs = [{"idempotency_key": key} for key in "abc"]
    first = body(web.bulk(*jobs))
    web.post()  # refused: from now on it is known to be full

    again = web.bulk(*jobs)
    more = web.bulk(*jobs, {"idempotency_key": "d"})

    assert [one["id"] for one in body(again)["items"]] == [one["id"] for one in first["items"]]
    assert body(again)["counts"]["replay"] == 3
    assert problem(more) == FULL
    assert waiting(session) == 3


@pytest.mark.postgresql("two who write at once")
def test_a_bulk_that_others_overtake_is_undone_and_tried_alone(
    process: Callable[..., Process], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the last number and its own there may be anybody's."""
    web, other = process(hard=5), process(hard=5)
    assert (web.post().status_code, other.post().status_code) == (201, 201)
    enter = room.enter
    overtaken: list[int] = []

    def be_overtaken(database: Any) -> int:
        last = enter(database)
        if not overtaken:
            overtaken.append(other.post().status_code)
        return last

    monkeypatch.setattr(room, "enter", be_overtaken)

    assert problem(web.bulk({}, {}, {})) == FULL
    assert overtaken == [201]
    assert waiting(session) == 3
    assert body(web.bulk({}, {}))["counts"]["new"] == 2


# The soft limit


def write_statistics(session: Session, claims: int) -> None:
    """Say that so many claims were made in the minute before; in a little less."""
    kinds = {"demo.echo": {"events": {"claimed": claims}, "wait": {}, "run": {}}}
    for kinds_of_line in ({}, kinds):
        control.record(
            session, Event.MINUTE_STATS, scope=control.QUEUE, actor="housekeeping:test",
            data={"xid": "0", "id": 0, "since": None, "full": False, "kinds": kinds_of_line},
        )  # fmt: skip
    first = sa.select(sa.func.min(JobEvent.id)).where(JobEvent.event == Event.MINUTE_STATS)
    minute_ago = sa.text("now() - interval '59 s'")
    session.execute(
        sa.update(JobEvent)
        .where(JobEvent.id == first.scalar_subquery())
        .values(created_at=minute_ago)
    )
    session.commit()


def test_above_the_soft_limit_answers_say_that_the_wait_is_unknown(
    process: Callable[..., Process],
) -> None:
    web = process(soft=2)

    said = [web.post().headers.get("Queue-Estimated-Wait") for _ in range(2)]
    web.later()
    said += [web.post(idempotency_key="k").headers.get("Queue-Estimated-Wait") for _ in range(2)]
    bulk = web.bulk({}, {})

    assert said == [None, None, "unknown", "unknown"]
    assert bulk.headers["Queue-Estimated-Wait"] == "unknown"


def test_the_wait_is_told_by_the_rate_of_the_last_minutes(
    process: Callable[..., Process], session: Session
) -> None:
    write_statistics(session, claims=120)  # two a second
    web = process(soft=2)
    web.bulk(*[{}] * 7, {"delay": 3600})
    web.later()

    # With itself eight are due; what waits for its time is in nobody's way.
    assert web.post().headers["Queue-Estimated-Wait"] == "4"


def test_a_full_queue_says_when_there_will_be_room(
    process: Callable[..., Process], session: Session
) -> None:
    write_statistics(session, claims=6)  # one in ten seconds
    web = process(hard=5)
    web.bulk(*[{}] * 4)

    assert web.bulk(*[{}] * 4).headers["Retry-After"] == "30"
    assert web.post().status_code == 201
    assert web.post().headers["Retry-After"] == "10"


@pytest.mark.parametrize(
    ("claims", "jobs", "seconds"), [(60_000, 3, "1"), (1, 100, "3600"), (0, 3, "60")]
)
def test_it_says_neither_at_once_nor_tomorrow(
    process: Callable[..., Process], session: Session, claims: int, jobs: int, seconds: str
) -> None:
    write_statistics(session, claims=claims)
    web = process(hard=100)
    web.bulk(*[{}] * 100)

    assert web.bulk(*[{}] * jobs).headers["Retry-After"] == seconds


# Settings


def test_limits_that_contradict_each_other_stop_the_start(database_url: str) -> None:
    settings = {"QUEUE_SOFT_LIMIT": "11", "QUEUE_HARD_LIMIT": "10"}

    with pytest.raises(SettingError, match="QUEUE_SOFT_LIMIT: expected 10"):
        create_app({"DATABASE_URL": database_url, **settings})


def test_the_settings_are_in_force(database_url: str) -> None:
    with application(database_url, QUEUE_HARD_LIMIT="2", QUEUE_SOFT_LIMIT="1") as app:
        client = app.test_client()

        answers = [client.post("/api/jobs", json=ECHO) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [201, 201, 429]


# What it costs


@pytest.fixture
def proxy(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    # It has a connection of its own, whose messages are not the request's.
    monkeypatch.setattr(notifier.Notifier, "notify", lambda _self: None)
    proxy = Proxy(database_url)
    yield proxy
    proxy.close()


@pytest.mark.postgresql("round trips")
def test_far_below_the_limit_a_job_is_one_round_trip(proxy: Proxy) -> None:
    web = Process(proxy.url, soft=500_000, hard=1_000_000)
    for number in range(8):  # connected, measured, and past what comes before preparing
        web.post(idempotency_key=str(number))
        web.post()

    trips = []
    for job in ({}, {"idempotency_key": "k"}, {"idempotency_key": "k"}):
        before = len(proxy.asked)
        trips.append((web.post(**job).status_code, len(proxy.asked) - before))

    assert trips == [(201, 1), (201, 1), (200, 1)]

    # Once a second somebody looks how deep it is: BEGIN, how to plan, the count, COMMIT.
    web.later()
    for cost in (5, 1):
        before = len(proxy.asked)
        web.post()
        assert len(proxy.asked) - before == cost
    web.close()


@pytest.mark.postgresql("round trips")
def test_a_queue_that_is_full_costs_nothing_to_hammer(proxy: Proxy) -> None:
    web = Process(proxy.url, hard=2)
    for _ in range(3):
        web.post()

    before = len(proxy.asked)
    answers = [web.post().status_code for _ in range(20)]

    assert answers == [429] * 20
    assert len(proxy.asked) == before
    web.close()


def test_the_document_names_the_refusals_and_the_headers(client: FlaskClient) -> None:
    paths = body(client.get("/api/openapi.json"))["paths"]

    for path, made in (("/api/jobs", "201"), ("/api/jobs", "200"), ("/api/jobs/bulk", "200")):
        told = paths[path]["post"]["responses"]
        assert "Queue-Estimated-Wait" in told[made]["headers"]
        assert "Retry-After" in told["429"]["headers"]
        examples = told["429"]["content"]["application/problem+json"]["examples"]
        assert set(examples) == {"queue_full", "rate_limited"}
    assert "Retry-After" in paths["/api/jobs/bulk"]["post"]["responses"]["200"]["headers"]


def test_the_app_has_no_limits_unless_asked(app: Flask) -> None:
    intake = app.extensions["queue_intake"]

    assert (intake._soft, intake._hard) == (0, 0)
