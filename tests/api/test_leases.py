"""Workers in any language: leases over HTTP, through the same transitions as `flask work`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from queueapp.api import remote_workers, waiting
from queueapp.jobs import audit, control, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Holder
from queueapp.jobs.models import Job, JobEvent
from tests.api.conftest import Api, body, pointers, problem

KIND = "demo.echo"
ACTOR = "user:local"


class Worker:
    """A worker somewhere else."""

    def __init__(self, client: FlaskClient, session: Session) -> None:
        self.client = client
        self.session = session

    def post(self, path: str = "", **fields: Any) -> TestResponse:
        return self.client.post(f"/api/leases{path}", json=fields)

    def lease(self, **fields: Any) -> list[dict[str, Any]]:
        answer = self.post(**{"kinds": [KIND], **fields})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = body(answer)["items"]
        return items

    def settle(self, *ends: dict[str, Any]) -> TestResponse:
        return self.post("/settle", items=list(ends))

    def settled(self, *ends: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self.settle(*ends)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = body(answer)["items"]
        return items

    def job(self, lease: dict[str, Any]) -> Job:
        self.session.expire_all()
        return self.session.get_one(Job, lease["id"])

    def last(self, lease: dict[str, Any]) -> JobEvent:
        self.session.expire_all()
        found = sa.select(JobEvent).where(JobEvent.job_id == lease["id"])
        return self.session.scalars(found.order_by(JobEvent.id.desc()).limit(1)).one()


def own(lease: dict[str, Any]) -> dict[str, Any]:
    return {"id": lease["id"], "token": lease["token"]}


@pytest.fixture
def worker(client: FlaskClient, session: Session) -> Worker:
    """With nothing remembered of other tests."""
    client.application.extensions["queue_switches"] = remote_workers.Switches()
    client.application.extensions["queue_presence"] = remote_workers.Presence()
    return Worker(client, session)


@pytest.fixture
def expire(session: Session) -> Callable[[dict[str, Any]], None]:
    """Have a lease run out and be swept."""

    def sweep(lease: dict[str, Any]) -> None:
        session.rollback()
        session.execute(
            sa.update(Job).where(Job.id == lease["id"]).values(lease_expires_at=Job.created_at)
        )
        session.commit()
        transitions.expire(session, actor="sweeper:test", backoff=Backoff())
        session.commit()

    return sweep


# Leasing


def test_leases_come_in_the_order_of_the_queue_and_carry_what_a_worker_needs(
    api: Api, worker: Worker
) -> None:
    low = api.make(payload={"message": "ü"}, max_attempts=3, timeout=9)
    high = api.make(priority=5)
    api.make(delay=3600)
    api.make(kind="demo.sleep", payload={"seconds": 0})

    first, second = worker.lease(max=10, lease=30)

    assert [first["id"], second["id"]] == [high["id"], low["id"]]
    token = second.pop("token")
    assert second == {
        "id": low["id"], "kind": KIND, "payload": {"message": "ü"}, "priority": 0, "attempt": 1,
        "max_attempts": 3, "timeout": 9, "lease": 9,
    }  # fmt: skip
    job, event = worker.job(low), worker.last(low)
    assert (job.status, job.locked_by, str(job.lease_token)) == ("running", ACTOR, token)
    assert (event.event, event.actor, event.attempt) == ("claimed", ACTOR, 1)
    assert job.lease_expires_at is not None
    assert job.claimed_at is not None
    assert 8 < (job.lease_expires_at - job.claimed_at).total_seconds() < 10
    assert worker.lease() == []


@pytest.mark.postgresql("numbers of any length")
def test_a_payload_that_python_does_not_read_is_leased_all_the_same(
    api: Api, worker: Worker, session: Session
) -> None:
    digits = "1" + "0" * 5000
    jobs = [api.make()["id"] for _ in range(2)]
    written = sa.text("UPDATE jobs SET payload = CAST(:text AS jsonb) WHERE id = :id")
    session.execute(written, {"text": f'{{"message": {digits}}}', "id": jobs[0]})
    session.commit()

    leased = worker.lease(max=2)

    assert [one["id"] for one in leased] == jobs
    assert leased[0]["payload"] == {"message": digits}


def test_no_more_are_leased_than_asked_for(api: Api, worker: Worker) -> None:
    for _ in range(3):
        api.make()

    assert [len(worker.lease(max=2)), len(worker.lease())] == [2, 1]


def test_nothing_of_a_held_kind_or_a_paused_queue_is_leased(
    api: Api, worker: Worker, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_workers, "LOOK_EVERY_S", 0.0)
    api.make()
    sleep = api.make(kind="demo.sleep", payload={"seconds": 0})
    control.hold_kind(session, KIND, actor="user:ana", reason="provider down")
    session.commit()

    assert worker.lease() == []
    assert [one["id"] for one in worker.lease(kinds=[KIND, "demo.sleep"], max=9)] == [sleep["id"]]

    control.unhold_kind(session, KIND, actor="user:ana")
    control.pause(session, actor="user:ana", reason="deploy")
    session.commit()
    assert worker.lease() == []

    control.pause(session, actor="user:ana", reason="deploy", for_s=0)
    session.commit()
    # Its time is over, and there is no flask work that would say so.
    assert len(worker.lease()) == 1


def test_whoever_asks_shows_up_as_a_worker_once_a_minute(worker: Worker, session: Session) -> None:
    for _ in range(2):
        worker.lease(kinds=["thumbs.make", "a.b"], max=3, lease=20)
    worker.lease(kinds=["a.b"])

    seen = session.scalars(sa.select(JobEvent).where(JobEvent.event == "worker_seen")).all()

    assert [one.actor for one in seen] == [ACTOR] * 2
    assert len({one.scope for one in seen}) == 2
    assert seen[0].scope is not None
    assert seen[0].scope.startswith(f"worker:{ACTOR}:")
    assert seen[0].data == {
        "kinds": ["a.b", "thumbs.make"], "slots": 3, "lease_s": 20, "via": "api",
    }  # fmt: skip


def test_whoever_renews_is_still_there(
    api: Api, worker: Worker, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.make()
    [lease] = worker.lease()
    monkeypatch.setattr(remote_workers, "SEEN_EVERY_S", 0.0)
    # However long its job takes.
    monkeypatch.setattr(remote_workers, "STAYS_S", 0.0)

    worker.post("/renew", items=[own(lease)])

    found = sa.select(sa.func.count()).where(JobEvent.event == "worker_seen")
    assert session.scalar(found) == 2


# Waiting


def test_a_wait_ends_when_a_job_is_due(
    api: Api, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    nap, here = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        # Threads of other tests may sleep as well.
        if threading.current_thread() is here and api.count() == 0:
            api.make()
        nap(min(seconds, 0.01))

    monkeypatch.setattr(time, "sleep", sleep)

    assert len(worker.lease(wait=20)) == 1


def test_a_wait_without_a_job_ends_in_time(worker: Worker) -> None:
    assert worker.lease(wait=0.05) == []


def test_no_more_wait_than_there_are_places(api: Api, worker: Worker) -> None:
    worker.client.application.extensions["queue_waiters"] = threading.Semaphore(0)
    try:
        refused = worker.post(kinds=[KIND], wait=20)
        assert problem(refused) == (503, "too_many_waiters")
        assert int(refused.headers["Retry-After"]) > 0
        # Who finds something at once, or does not wait, needs none.
        assert worker.lease() == []
        api.make()
        assert len(worker.lease(wait=20)) == 1
    finally:
        waiting.init_app(worker.client.application)


def test_a_place_to_wait_is_given_back(worker: Worker) -> None:
    for _ in range(3):
        assert worker.lease(wait=0.01) == []


@pytest.mark.parametrize(
    ("environment", "places"), [({}, 1), ({"WEB_THREADS": "16"}, 4), ({"WEB_THREADS": "x"}, 1)]
)
def test_a_quarter_of_the_threads_may_wait(environment: dict[str, str], places: int) -> None:
    assert waiting.most_waiters(environment) == places


def test_nothing_is_leased_to_whoever_has_hung_up(
    api: Api, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    nap, here = time.sleep, threading.current_thread()

    def hang_up(seconds: float) -> None:
        if threading.current_thread() is not here:
            return nap(seconds)
        api.make()
        theirs.close()
        return None

    monkeypatch.setattr(time, "sleep", hang_up)
    with ours:
        answer = worker.client.post(
            "/api/leases",
            json={"kinds": [KIND], "wait": 20},
            environ_overrides={"gunicorn.socket": ours},
        )

    assert body(answer)["items"] == []
    assert len(worker.lease()) == 1


# Keeping


def test_renewals_say_what_has_become_of_each_lease(
    api: Api, worker: Worker, expire: Callable[[dict[str, Any]], None]
) -> None:
    for _ in range(3):
        api.make()
    kept, stopped, lost = worker.lease(max=3, lease=5)
    api.post(f"/{stopped['id']}/cancel")
    expire(lost)

    answer = worker.post("/renew", items=[own(lost), own(kept), own(stopped)], lease=600)

    assert body(answer)["items"] == [
        {"id": lost["id"], "outcome": "lost"},
        {"id": kept["id"], "outcome": "renewed"},
        {"id": stopped["id"], "outcome": "cancel"},
    ]
    job = worker.job(kept)
    assert job.lease_expires_at is not None
    assert job.claimed_at is not None
    assert (job.lease_expires_at - job.claimed_at).total_seconds() > 500


def test_a_lease_is_not_renewed_beyond_the_time_out(
    api: Api, worker: Worker, session: Session
) -> None:
    api.make(timeout=100)
    [lease] = worker.lease()
    session.execute(
        sa.update(Job).values(started_at=Job.started_at - sa.text("interval '101 seconds'"))
    )
    session.commit()

    answer = worker.post("/renew", items=[own(lease)])

    assert body(answer)["items"] == [{"id": lease["id"], "outcome": "timeout"}]


def test_progress_is_on_the_job(api: Api, worker: Worker) -> None:
    api.make()
    [lease] = worker.lease()

    answer = worker.post(
        "/progress",
        items=[
            {**own(lease), "percent": 50.0, "note": "half"},
            {"id": 999, "token": str(uuid4()), "percent": 1},
        ],
    )

    assert [one["outcome"] for one in body(answer)["items"]] == ["accepted", "lost"]
    job = worker.job(lease)
    assert (job.progress, job.progress_note) == (50, "half")


# Settling


def test_each_verb_leads_where_it_leads_a_worker_of_ours(
    api: Api, worker: Worker, session: Session
) -> None:
    for _ in range(6):
        api.make(max_attempts=2)
    done, failed, hopeless, asked, deferred, released = worker.lease(max=6)

    answers = worker.settled(
        {**own(done), "verb": "succeed", "result": {"pages": 3}},
        {
            **own(failed), "verb": "fail", "error_class": "Timeout", "error_message": "no answer",
            "traceback": "at main.js:3",
        },
        {**own(hopeless), "verb": "fail", "error_message": "no such file", "permanent": True},
        {**own(asked), "verb": "fail", "retry_after": 600},
        {**own(deferred), "verb": "defer", "delay": 60},
        {**own(released), "verb": "release"},
    )  # fmt: skip

    told = ("succeeded", "queued", "failed", "queued", "queued", "queued")
    assert [(one["outcome"], one["status"]) for one in answers] == [
        ("accepted", status) for status in told
    ]
    names = ("event", "reason", "actor", "attempt")
    ends = [[getattr(worker.last(one), name) for name in names] for one in
            (done, failed, hopeless, asked, deferred, released)]  # fmt: skip
    assert ends == [
        ["succeeded", None, ACTOR, 1],
        ["retry_scheduled", None, ACTOR, 1],
        ["failed", "permanent", ACTOR, 1],
        ["retry_scheduled", "asked_to_retry", ACTOR, 1],
        ["deferred", None, ACTOR, 1],
        ["released", None, ACTOR, 1],
    ]
    assert worker.job(done).result == {"pages": 3}
    job, data = worker.job(failed), worker.last(failed).data
    assert (job.error_class, job.error_message, job.attempts) == ("Timeout", "no answer", 1)
    assert data is not None
    assert (data["traceback"], data["via"]) == ("at main.js:3", "api")
    assert data["run_ms"] >= 0
    wait = worker.job(asked).available_at - worker.last(asked).created_at
    assert 590 < wait.total_seconds() < 610
    assert (worker.job(deferred).attempts, worker.job(deferred).handbacks) == (0, 1)
    assert worker.job(released).attempts == 0
    assert [one["id"] for one in worker.lease(max=9)] == [released["id"]]
    session.rollback()
    assert [report.found for _, report in audit.check(session)][-1] == 0


def test_the_last_attempt_ends_the_job(api: Api, worker: Worker) -> None:
    api.make(max_attempts=1)
    [lease] = worker.lease()

    [answer] = worker.settled({**own(lease), "verb": "fail", "retry_after": 5})

    assert (answer["status"], worker.last(lease).reason) == ("failed", "attempts_used_up")


def test_a_cancel_request_wins_over_every_end_but_success(api: Api, worker: Worker) -> None:
    for _ in range(2):
        api.make()
    first, second = worker.lease(max=2)
    for one in (first, second):
        api.post(f"/{one['id']}/cancel")

    answers = worker.settled({**own(first), "verb": "release"}, {**own(second), "verb": "succeed"})

    assert [one["status"] for one in answers] == ["cancelled", "succeeded"]


def test_what_was_said_before_is_a_repeat(api: Api, worker: Worker, session: Session) -> None:
    api.make()
    [lease] = worker.lease()
    end = {**own(lease), "verb": "succeed", "result": 1}
    worker.settled(end)

    again = worker.settled({**end, "result": 2})

    assert again == [{"id": lease["id"], "outcome": "repeat", "status": "succeeded"}]
    assert worker.job(lease).result == 1


def test_a_late_result_is_lost_and_recorded(
    api: Api, worker: Worker, expire: Callable[[dict[str, Any]], None]
) -> None:
    for _ in range(2):
        api.make()
    late, good = worker.lease(max=2)
    expire(late)

    answers = worker.settled(
        {**own(late), "verb": "succeed", "result": "late"}, {**own(good), "verb": "succeed"}
    )

    assert [one["outcome"] for one in answers] == ["lost", "accepted"]
    assert worker.job(late).result is None
    rejected = worker.last(late)
    assert (rejected.event, rejected.actor) == ("stale_write_rejected", ACTOR)


def test_the_history_of_a_job_does_not_begin_before_the_job(
    api: Api, worker: Worker, session: Session
) -> None:
    ahead = api.make()["id"] + 1
    token = str(uuid4())

    answer = worker.settle({"id": ahead, "token": token, "verb": "succeed"})

    assert problem(answer) == (409, "lease_lost")
    assert session.scalars(sa.select(JobEvent).where(JobEvent.job_id == ahead)).all() == []
    worker.settle({"id": ahead - 1, "token": token, "verb": "succeed"})
    assert [one.event for one in session.scalars(sa.select(JobEvent).order_by(JobEvent.id))] == [
        "enqueued", "stale_write_rejected",
    ]  # fmt: skip


def test_the_answer_is_409_only_when_every_lease_is_lost(
    api: Api, worker: Worker, expire: Callable[[dict[str, Any]], None]
) -> None:
    api.make()
    [lease] = worker.lease()
    expire(lease)

    for path, fields in (
        ("/settle", {"verb": "succeed"}), ("/renew", {}), ("/progress", {"percent": 3}),
    ):  # fmt: skip
        answer = worker.post(path, items=[{**own(lease), **fields}])
        assert problem(answer) == (409, "lease_lost")
        assert body(answer)["items"] == [{"id": lease["id"], "outcome": "lost"}]


@pytest.mark.postgresql("row locks")
def test_a_row_that_somebody_has_locked_is_busy_and_stops_no_other(
    api: Api, worker: Worker, session: Session
) -> None:
    for _ in range(2):
        api.make()
    locked, free = worker.lease(max=2)
    session.scalars(sa.select(Job).where(Job.id == locked["id"]).with_for_update()).one()

    paths: dict[str, dict[str, Any]] = {
        "/renew": {}, "/progress": {"percent": 1}, "/settle": {"verb": "succeed"},
    }  # fmt: skip
    said = {
        path: [one["outcome"] for one in body(worker.post(path, items=[
            {**own(lease), **fields} for lease in (locked, free)]))["items"]]
        for path, fields in paths.items()
    }  # fmt: skip
    session.rollback()

    assert said == {
        "/renew": ["busy", "renewed"],
        "/progress": ["busy", "accepted"],
        "/settle": ["busy", "accepted"],
    }
    assert worker.settled({**own(locked), "verb": "succeed"})[0]["outcome"] == "accepted"


def test_a_lease_of_another_worker_cannot_be_settled_without_its_token(
    api: Api, worker: Worker, engine: sa.Engine
) -> None:
    made = api.make()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        transitions.exchange(connection, [], Holder("worker:w1", 60), slots=1)

    answer = worker.settle({"id": made["id"], "token": str(uuid4()), "verb": "succeed"})

    assert problem(answer) == (409, "lease_lost")
    assert worker.job(made).status == "running"


def test_a_result_that_is_too_large_is_left_out_and_the_job_succeeds(
    api: Api, worker: Worker
) -> None:
    api.make()
    [lease] = worker.lease()

    worker.settled({**own(lease), "verb": "succeed", "result": "x" * 300_000})

    job = worker.job(lease)
    assert job.status == "succeeded"
    assert "the limit is 262144" in job.result["$omitted"]


# What is refused

LEASE = {"id": 1, "token": "0b2d0ac6-0a5c-4c4e-9c2f-3a4d5e6f7a8b"}


@pytest.mark.parametrize(
    ("path", "sent", "where"),
    [
        ("", {}, "/kinds"),
        ("", {"kinds": []}, "/kinds"),
        ("", {"kinds": ["No"]}, "/kinds/0"),
        ("", {"kinds": ["a", "a"]}, "/kinds"),
        ("", {"kinds": ["a"], "max": 101}, "/max"),
        ("", {"kinds": ["a"], "max": "1"}, "/max"),
        ("", {"kinds": ["a"], "lease": 0.5}, "/lease"),
        ("", {"kinds": ["a"], "wait": 21}, "/wait"),
        ("", {"kinds": ["a"], "bogus": 1}, "/bogus"),
        ("", [], ""),
        ("", {str(number): number for number in range(30)}, ""),
        ("/renew", {"items": []}, "/items"),
        ("/renew", {"items": [{**LEASE, "id": 0}]}, "/items/0/id"),
        ("/renew", {"items": [{**LEASE, "token": "x"}]}, "/items/0/token"),
        ("/renew", {"items": [LEASE, LEASE]}, "/items"),
        ("/renew", {"items": [LEASE] * 501}, "/items"),
        ("/renew", {"items": [3]}, "/items/0"),
        ("/progress", {"items": [{**LEASE, "percent": 101}]}, "/items/0/percent"),
        ("/settle", {"items": [LEASE]}, "/items/0/verb"),
        ("/settle", {"items": [{**LEASE, "verb": "win"}]}, "/items/0/verb"),
        ("/settle", {"items": [{**LEASE, "verb": "defer"}]}, "/items/0/delay"),
        ("/settle", {"items": [{**LEASE, "verb": "defer", "delay": -1}]}, "/items/0/delay"),
        ("/settle", {"items": [{**LEASE, "verb": "release", "delay": 1}]}, "/items/0/delay"),
        ("/settle", {"items": [{**LEASE, "verb": "fail", "retry_after": 1e12}]},
         "/items/0/retry_after"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_place(
    worker: Worker, session: Session, path: str, sent: Any, where: str
) -> None:
    answer = worker.client.post(f"/api/leases{path}", json=sent)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer)[0] == where
    assert session.scalar(sa.select(sa.func.count()).select_from(JobEvent)) == 0
