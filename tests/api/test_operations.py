"""Operations over many jobs: planned, applied in batches, stopped; nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.api import operations as views
from queueapp.jobs import audit, operations, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import driver, planning, walk
from queueapp.jobs.queries import candidates
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import Moved
from tests.api.conftest import body, pointers, problem
from tests.factories import claim_one, make_job, outcome

BOB: dict[str, Any] = {"actor": "user:bob", "via": "api"}
FAILED: dict[str, Any] = {"status": ["failed"]}


class Operations:
    """The operations of the API, and what the ledger says of their jobs."""

    def __init__(self, client: FlaskClient, session: Session) -> None:
        self.client, self.session = client, session

    def plan(self, verb: str = "retry", where: Any = FAILED, **fields: Any) -> dict[str, Any]:
        asked = {"verb": verb, "filter": where, "reason": "because of ü", **fields}
        answer = self.client.post("/api/operations", json=asked)
        assert answer.status_code == 201, answer.text
        assert answer.headers["Location"] == f"/api/operations/{body(answer)['id']}"
        return body(answer)

    def apply(self, made: dict[str, Any], status: int = 200) -> dict[str, Any]:
        answer = self.client.post(f"/api/operations/{made['id']}/apply")
        assert answer.status_code == status, answer.text
        return body(answer)

    def stop(self, made: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.post(f"/api/operations/{made['id']}/stop", json={"reason": "enough"})
        assert answer.status_code == 200, answer.text
        return body(answer)

    def show(self, made: dict[str, Any]) -> dict[str, Any]:
        return body(self.client.get(f"/api/operations/{made['id']}"))

    def jobs(self, count: int, status: Status = Status.FAILED, **fields: Any) -> list[int]:
        ids = [make_job(self.session, status, **fields).id for _ in range(count)]
        self.session.commit()
        return ids

    def moved(self, made: dict[str, Any]) -> list[int]:
        """The jobs whose lines name the operation, as often as they do, after a look at these."""
        self.session.rollback()
        lines = self.session.scalars(
            sa.select(JobEvent).where(JobEvent.job_id.is_not(None)).order_by(JobEvent.id)
        )
        mine = [line for line in lines if (line.data or {}).get("operation") == made["id"]]
        assert {(line.reason, line.data["via"]) for line in mine} <= {("because of ü", "api")}
        assert {line.actor for line in mine} <= {"user:local", "user:bob"}
        return [line.job_id for line in mine if line.job_id is not None]

    def lines(self, made: dict[str, Any]) -> list[str]:
        self.session.rollback()
        own = sa.select(JobEvent.event).where(JobEvent.scope == f"op:{made['id']}")
        return list(self.session.scalars(own.order_by(JobEvent.id)))


@pytest.fixture
def bulk(client: FlaskClient, session: Session) -> Iterator[Operations]:
    yield Operations(client, session)
    session.rollback()
    *_, (_, report) = audit.check(session)
    assert report.clean, report.offenders


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs in a batch, one batch in a request."""
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "MOST_BATCHES", 1)


def test_a_plan_counts_and_changes_nothing(bulk: Operations) -> None:
    bulk.jobs(3, kind="a")
    bulk.jobs(2, Status.CANCELLED, kind="a")
    bulk.jobs(1, kind="b")
    bulk.jobs(1, Status.SUCCEEDED, kind="a")

    made = bulk.plan("retry", {"kind": "a"})

    assert (made["state"], made["moved"], made["skipped"]) == ("planned", 0, None)
    assert made["planned"] == made["left"] == {"count": 5, "more": False}
    assert made["counts"] == {
        "failed": {"count": 3, "more": False},
        "cancelled": {"count": 2, "more": False},
    }
    assert made["filter"] == {"status": ["failed", "cancelled"], "kind": "a"}
    assert (made["planned_by"], made["reason"]) == ("user:local", "because of ü")
    assert bulk.moved(made) == []
    assert bulk.show(made) == made


@pytest.mark.parametrize(
    ("indexed", "wanted_answers"),
    [(True, [(2, 3), (4, 1)]), (False, [(2, 3), (3, 2)])],
    ids=["indexed", "scanned"],
)
def test_batches_move_each_job_once_and_say_what_is_left(
    bulk: Operations,
    small_batches: None,
    monkeypatch: pytest.MonkeyPatch,
    indexed: bool,
    wanted_answers: list[tuple[int, int]],
) -> None:
    if not indexed:
        monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
        monkeypatch.setattr(walk, "SCAN_LIMIT", 3)
    wanted = bulk.jobs(3)
    bulk.jobs(2, Status.SUCCEEDED)
    wanted += bulk.jobs(2)
    made = bulk.plan()
    assert made["planned"] == {"count": 5, "more": False}

    answers = []
    while (made := body(bulk.client.post(f"/api/operations/{made['id']}/apply")))[
        "state"
    ] != "done":
        answers.append((made["moved"], made["left"]["count"]))
        assert made["moved"] + made["left"]["count"] == 5

    assert answers == wanted_answers
    assert (made["moved"], made["skipped"], made["left"]["count"]) == (5, 0, 0)
    assert bulk.moved(made) == wanted
    assert bulk.lines(made)[0] == "op_planned"
    assert bulk.lines(made)[-1] == "op_done"
    lines = bulk.lines(made)
    assert bulk.apply(made) == made == bulk.show(made) == bulk.stop(made)
    assert bulk.lines(made) == lines


@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_more_jobs_than_an_index_is_read_for_are_all_moved(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr(candidates, "SCAN_LIMIT", 2)
    wanted = bulk.jobs(jobs)
    made = bulk.plan()

    assert made["planned"] == {"count": jobs, "more": False}
    assert bulk.moved(bulk.apply(made)) == wanted


def test_one_request_moves_several_batches(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    wanted = bulk.jobs(5)

    made = bulk.apply(bulk.plan())

    assert (made["state"], bulk.moved(made)) == ("done", wanted)


def test_a_look_goes_on_where_nothing_is_found_until_its_time_is_up(
    bulk: Operations, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
    monkeypatch.setattr(walk, "SCAN_LIMIT", 2)
    bulk.jobs(7, Status.QUEUED)
    wanted = bulk.jobs(1)
    made = bulk.plan()

    monkeypatch.setattr(driver, "LOOK_S", -1.0)
    assert bulk.apply(made, 202)["moved"] == 0
    monkeypatch.undo()
    assert bulk.apply(made)["moved"] == 1
    assert bulk.moved(made) == wanted
    assert bulk.lines(made) == ["op_planned", "op_begun", "op_batch", "op_done"]


def test_a_request_ends_when_its_time_is_up(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", -1.0)
    bulk.jobs(5)

    assert bulk.apply(bulk.plan(), 202)["moved"] == 2


VERBS: list[tuple[str, dict[str, Any], dict[Status, str]]] = [
    (
        "cancel",
        {},
        {Status.QUEUED: "cancelled", Status.RUNNING: "running", Status.HELD: "cancelled"},
    ),
    ("retry", {}, {Status.FAILED: "queued", Status.CANCELLED: "queued"}),
    ("hold", {}, {Status.QUEUED: "held"}),
    ("unhold", {}, {Status.HELD: "queued"}),
    ("reschedule", {"delay": 60}, {Status.QUEUED: "queued", Status.HELD: "held"}),
    ("reschedule", {"priority": 9}, {Status.QUEUED: "queued", Status.HELD: "held"}),
    ("reschedule", {"spread": 86400}, {Status.QUEUED: "queued", Status.HELD: "held"}),
    (
        "reschedule",
        {"available_at": "2030-01-31T08:00:00Z"},
        {Status.QUEUED: "queued", Status.HELD: "held"},
    ),
    ("run-now", {}, {Status.QUEUED: "queued"}),
]


@pytest.mark.parametrize(("verb", "fields", "able"), VERBS, ids=lambda value: str(value)[:30])
def test_every_verb_moves_the_jobs_that_it_can(
    bulk: Operations, verb: str, fields: dict[str, Any], able: dict[Status, str]
) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    ids = {status: bulk.jobs(1, status, available_at=due)[0] for status in Status}

    made = bulk.plan(verb, {"kind": "demo.echo"}, **fields)
    done = bulk.apply(made)

    assert made["planned"]["count"] == done["moved"] == len(able)
    assert done["skipped"] == 0
    assert bulk.moved(done) == sorted(ids[status] for status in able)
    for status, after in able.items():
        assert bulk.session.get_one(Job, ids[status]).status == after
    for name, value in fields.items():
        assert str(done[name]).startswith(str(value).removesuffix("Z"))


T0 = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = {
    "created_from": [1, 2], "created_to": [0], "finished_from": [1, 2], "finished_to": [0],
    "available_from": [1, 2], "available_to": [0],
}  # fmt: skip


@pytest.mark.parametrize(("name", "found"), SPANS.items())
def test_a_span_of_time_narrows_the_plan_and_each_batch(
    bulk: Operations, small_batches: None, name: str, found: list[int]
) -> None:
    made = []
    for at in (T0, T0 + timedelta(hours=1), T0 + timedelta(hours=2)):
        made += bulk.jobs(1, available_at=at)
        moments = {"created_at": at, "finished_at": at}
        bulk.session.execute(sa.update(Job).where(Job.id == made[-1]).values(**moments))
    bulk.session.commit()
    where = {**FAILED, name: "2026-01-01T02:00:00+01:00"}

    operation = bulk.plan("retry", where)

    assert operation["filter"] == {**FAILED, name: "2026-01-01T01:00:00.000000Z"}
    assert operation["planned"] == {"count": len(found), "more": False}
    assert bulk.moved(bulk.apply(operation)) == [made[nth] for nth in found]


def test_a_range_of_priorities_narrows_the_plan(bulk: Operations) -> None:
    made = [bulk.jobs(1, priority=priority)[0] for priority in (-1, 0, 1, 2)]

    operation = bulk.plan("retry", {"priority_min": 0, "priority_max": 1})

    assert bulk.moved(bulk.apply(operation)) == made[1:3]


# What is not in the plan is not touched


def test_jobs_that_come_or_change_after_the_plan_are_left_alone(
    bulk: Operations, session: Session
) -> None:
    same, gone, back = bulk.jobs(3)
    made = bulk.plan()
    late = bulk.jobs(1)
    # One leaves the filter; another leaves it and comes back: it is not what was seen.
    transitions.requeue(session, [gone, back], actor="user:eve")
    transitions.settle(session, [outcome(claim_one(session, back), "fail")], actor="worker:1")
    session.commit()

    done = bulk.apply(made)

    assert bulk.moved(made) == [same]
    assert (done["moved"], done["skipped"]) == (1, 2)
    statuses = [session.get_one(Job, i).status for i in (gone, back, *late)]
    assert statuses == ["queued", "failed", "failed"]


@pytest.mark.postgresql("transactions that overlap")
def test_a_job_that_was_not_committed_yet_is_left_alone(
    bulk: Operations, session: Session, engine: sa.Engine
) -> None:
    with Session(engine) as slow:
        hidden = make_job(slow, Status.FAILED).id
        [seen] = bulk.jobs(1)
        assert hidden < seen
        made = bulk.plan()
        slow.commit()

    done = bulk.apply(made)

    assert (made["planned"]["count"], done["skipped"]) == (1, 0)
    assert bulk.moved(made) == [seen]


@pytest.mark.postgresql("row locks")
def test_a_job_that_somebody_has_locked_is_skipped_and_counted(
    bulk: Operations, engine: sa.Engine
) -> None:
    first, locked, last = bulk.jobs(3)
    made = bulk.plan()
    with engine.begin() as other:
        other.execute(sa.select(Job.id).where(Job.id == locked).with_for_update())

        done = bulk.apply(made)

    assert bulk.moved(made) == [first, last]
    assert (done["moved"], done["skipped"]) == (2, 1)


def test_what_is_held_for_its_kind_is_not_lifted_with_the_rest(
    bulk: Operations, session: Session
) -> None:
    [mine] = bulk.jobs(1, Status.HELD)
    [kinds] = bulk.jobs(1, Status.QUEUED)
    transitions.hold(session, [kinds], actor="housekeeping:1", held_for="kind")
    session.commit()

    made = bulk.plan("unhold", {"status": ["held"]})

    assert made["planned"]["count"] == bulk.apply(made)["moved"] == 1
    assert bulk.moved(made) == [mine]


# One driver at a time


@pytest.mark.postgresql("advisory locks; there the second one waits")
def test_a_second_driver_is_refused_while_the_first_is_at_work(
    bulk: Operations, small_batches: None, engine: sa.Engine
) -> None:
    wanted = bulk.jobs(5)
    made = bulk.plan()
    with Session(engine) as first:
        operations.step(first, made["id"], **BOB)

        refused = bulk.client.post(f"/api/operations/{made['id']}/apply")
        assert problem(refused) == (409, "operation_busy")
        assert bulk.moved(made) == []
        first.commit()

    assert bulk.apply(made, 202)["moved"] == 4
    assert bulk.apply(made)["moved"] == 5
    assert bulk.moved(made) == wanted


@pytest.mark.postgresql("advisory locks; there the second one waits")
def test_a_driver_that_is_overtaken_says_how_far_it_has_come(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch, engine: sa.Engine
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    wanted = bulk.jobs(6)
    made = bulk.plan()
    real, rival = driver.step, Session(engine)

    def step(*args: Any, **by: Any) -> Any:
        if bulk.moved(made) and not rival.in_transaction():
            real(rival, made["id"], **BOB)
        return real(*args, **by)

    monkeypatch.setattr(operations, "step", step)
    with rival:
        assert bulk.apply(made, 202)["moved"] == 2
        rival.commit()

    monkeypatch.setattr(operations, "step", real)
    assert bulk.apply(made)["moved"] == 6
    assert bulk.moved(made) == wanted


def test_an_answer_that_was_lost_costs_nothing(
    bulk: Operations, small_batches: None, session: Session
) -> None:
    wanted = bulk.jobs(5)
    made = bulk.plan()
    operations.step(session, made["id"], **BOB)
    session.rollback()  # its process died in the middle of a batch
    operations.step(session, made["id"], **BOB)
    session.commit()  # and here before it could answer

    assert bulk.apply(made, 202)["moved"] == 4
    assert bulk.apply(made)["moved"] == 5
    assert bulk.moved(made) == wanted
    # Who goes on with what Bob has begun is told as well.
    began = ["op_planned", "op_begun", "op_batch", "op_begun"]
    assert bulk.lines(made) == [*began, "op_batch", "op_done"]


def test_a_spread_is_told_and_each_job_has_its_own_moment(
    bulk: Operations, session: Session
) -> None:
    wanted = bulk.jobs(4, Status.QUEUED)
    at = "2030-01-31T08:00:00.000000Z"
    made = bulk.plan("reschedule", {"status": ["queued"]}, available_at=at, spread=40)

    assert (made["available_at"], made["spread"], made["delay"]) == (at, 40, None)
    assert bulk.apply(made)["moved"] == 4
    found = session.scalars(sa.select(Job.available_at).where(Job.id.in_(wanted)).order_by(Job.id))
    start = datetime.fromisoformat(at)
    assert [(one - start).total_seconds() for one in found] == [0, 10, 20, 30]


def test_even_without_its_place_it_moves_nothing_twice(bulk: Operations, session: Session) -> None:
    """A verb that leaves its jobs in the filter, begun anew."""
    wanted = bulk.jobs(3, Status.QUEUED)
    made = bulk.plan("reschedule", {"status": ["queued"]}, delay=60)
    operations.step(session, made["id"], **BOB)
    session.execute(sa.delete(JobEvent).where(JobEvent.event == Event.OP_DONE))
    session.commit()

    assert bulk.apply(made)["moved"] == 0
    assert bulk.moved(made) == wanted


# Stop


def test_what_is_stopped_moves_nothing_more(bulk: Operations, small_batches: None) -> None:
    wanted = bulk.jobs(5)
    made = bulk.plan()
    bulk.apply(made, 202)

    stopped = bulk.stop(made)

    assert (stopped["state"], stopped["moved"]) == ("stopped", 2)
    assert (stopped["left"]["count"], stopped["skipped"]) == (3, None)
    refused = bulk.client.post(f"/api/operations/{made['id']}/apply")
    assert problem(refused) == (409, "operation_stopped")
    assert bulk.stop(made) == stopped == bulk.show(made)
    assert bulk.lines(made) == ["op_planned", "op_begun", "op_batch", "op_stopped"]
    assert bulk.moved(made) == wanted[:2]


@pytest.mark.postgresql("writers that overlap")
@pytest.mark.parametrize("jobs", [5, 1], ids=["in the middle", "in the last batch"])
def test_a_batch_at_work_is_completed_and_no_other_begins(
    bulk: Operations, small_batches: None, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    wanted = bulk.jobs(jobs)
    made = bulk.plan()
    real, rival = driver._move, bulk.client.application.test_client()

    def move(*args: Any, **by: Any) -> Sequence[Moved]:
        answer = rival.post(f"/api/operations/{made['id']}/stop")
        assert body(answer)["state"] == "stopped"
        return real(*args, **by)

    monkeypatch.setattr(driver, "_move", move)
    refused = bulk.client.post(f"/api/operations/{made['id']}/apply")

    assert problem(refused) == (409, "operation_stopped")
    assert bulk.moved(made) == wanted[:2]
    assert (bulk.show(made)["state"], bulk.show(made)["moved"]) == ("stopped", min(2, jobs))


# Canary


def test_a_canary_retry_is_shown_while_a_worker_decides(bulk: Operations, session: Session) -> None:
    ids = bulk.jobs(7)
    made = bulk.plan(canary=True)
    assert made["canary"] == {
        "first": 5, "needed": 4, "jobs": [], "until": None, "passed": None,
    }  # fmt: skip
    begun = bulk.apply(made, 202)
    for job_id in ids[:4]:
        verb = "fail" if job_id == ids[3] else "succeed"
        ends = [outcome(claim_one(session, job_id), verb)]
        transitions.settle(session, ends, actor="worker:w1")
    session.commit()

    # The answers of a loop that goes on until 200 are the same until then.
    shown = bulk.apply(made, 202)
    operations.advance(session, made["id"], actor="housekeeping:w1")
    session.commit()
    assert bulk.apply(made, 202)["state"] == "canary"

    assert (begun["state"], begun["moved"], begun["left"]["count"]) == ("canary", 5, 2)
    assert [job["outcome"] for job in begun["canary"]["jobs"]] == [None] * 5
    assert [job["id"] for job in shown["canary"]["jobs"]] == ids[:5]
    outcomes = [job["outcome"] for job in shown["canary"]["jobs"]]
    assert outcomes == ["succeeded"] * 3 + ["failed", None]
    assert bulk.moved(made) == ids[:5]

    transitions.cancel(session, ids[4:5], actor="user:bob")
    operations.advance(session, made["id"], actor="housekeeping:w1")
    session.commit()
    refused = bulk.client.post(f"/api/operations/{made['id']}/apply")
    assert problem(refused) == (409, "operation_stopped")
    stopped = bulk.show(made)
    assert (stopped["canary"]["passed"], stopped["end_reason"]) == (False, "canary_failed")
    assert stopped["left"]["count"] == 2


def test_what_became_of_the_jobs_is_told_once_it_is_over(
    bulk: Operations, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bulk.jobs(3)
    made = bulk.plan()
    assert bulk.show(made)["now"] is None
    bulk.apply(made)
    transitions.cancel(session, ids[:1], actor="user:bob")
    session.commit()

    now = bulk.show(made)["now"]

    assert {status: one["count"] for status, one in now.items() if one["count"]} == {
        "cancelled": 1, "queued": 2,
    }  # fmt: skip
    assert not any(one["more"] for one in now.values())
    monkeypatch.setattr(candidates, "SCAN_LIMIT", 1)
    assert all(one["more"] for one in bulk.show(made)["now"].values())


# Bounds


def test_what_takes_long_to_count_is_counted_on_before_anything_is_moved(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
    monkeypatch.setattr(walk, "SCAN_LIMIT", 2)
    monkeypatch.setattr(planning, "COUNT_S", -1.0)
    monkeypatch.setattr(views, "MOST_BATCHES", 1)
    wanted = bulk.jobs(5)

    made = bulk.plan()
    counted = [bulk.apply(made, 202) for _ in range(2)]

    assert (made["state"], made["planned"]) == ("counting", {"count": 2, "more": True})
    assert [(one["state"], one["planned"]["count"]) for one in counted] == [
        ("counting", 4), ("planned", 5),
    ]  # fmt: skip
    assert bulk.moved(made) == []
    monkeypatch.undo()
    done = bulk.apply(made)
    assert (done["planned"], done["skipped"]) == ({"count": 5, "more": False}, 0)
    assert bulk.moved(made) == wanted
    assert bulk.lines(made)[:3] == ["op_planned", "op_counted", "op_counted"]


def test_what_is_left_is_counted_up_to_a_limit(
    bulk: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "COUNT_LIMIT", 3)
    bulk.jobs(5)

    made = bulk.show(bulk.plan())

    assert (made["planned"]["count"], made["left"]) == (5, {"count": 3, "more": True})


def test_jobs_of_the_filter_that_stay_as_they_are_are_counted_by_why(
    bulk: Operations, session: Session
) -> None:
    bulk.jobs(2)
    bulk.jobs(1, Status.RUNNING)
    for status, number in ((Status.SUCCEEDED, 3), (Status.QUEUED, 1), (Status.HELD, 1)):
        bulk.jobs(number, status)
    asked = bulk.jobs(1, Status.RUNNING)
    transitions.cancel(session, asked, actor="user:bob")
    session.commit()

    retry, cancel = (bulk.plan(verb, {"kind": "demo.echo"}) for verb in ("retry", "cancel"))

    def others(made: dict[str, Any]) -> dict[str, int]:
        assert not any(one["more"] for one in made["others"].values())
        return {why: one["count"] for why, one in made["others"].items()}

    assert retry["planned"]["count"] == 2
    assert others(retry) == {"queued": 1, "running": 2, "succeeded": 3, "held": 1}
    assert cancel["planned"]["count"] == 3
    assert others(cancel) == {"failed": 2, "succeeded": 3, "running": 1}
    assert bulk.plan("retry")["others"] == {}


# The list


def test_operations_are_listed_newest_first_page_by_page(bulk: Operations) -> None:
    bulk.jobs(2)
    made = [bulk.plan("cancel", {"kind": "demo.echo"}), bulk.plan(), bulk.plan(canary=True)]
    bulk.apply(made[1])
    bulk.stop(made[2])

    def page(query: str) -> tuple[list[dict[str, Any]], str | None]:
        found = body(bulk.client.get(f"/api/operations?{query}"))
        return found["items"], found["next"]

    first, more = page("limit=2")
    second, end = page(f"limit=2&before={more}")

    assert [one["id"] for one in (*first, *second)] == [one["id"] for one in reversed(made)]
    assert end is None
    told = [(one["state"], one["planned"]["count"], one["moved"], one["skipped"]) for one in first]
    assert told == [("stopped", 2, 0, None), ("done", 2, 2, 0)]
    assert (first[0]["end_reason"], first[0]["changed_by"]) == ("enough", "user:local")
    assert page("")[0][1] == first[1]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "before=", "before=1", "before=x.1"])
def test_a_page_of_operations_that_is_none_is_refused(bulk: Operations, query: str) -> None:
    assert problem(bulk.client.get(f"/api/operations?{query}")) == (400, "bad_request")


# The same request again


def test_a_plan_that_is_asked_for_twice_is_made_once(bulk: Operations) -> None:
    bulk.jobs(1)
    asked = {"verb": "reschedule", "filter": {"kind": "demo.echo"}, "reason": "r", "delay": 60}
    key = {"Idempotency-Key": "k 1"}

    def ask(**other: Any) -> Any:
        return bulk.client.post("/api/operations", json={**asked, **other}, headers=key)

    first, again = ask(), ask()
    other = ask(reason="another", delay=61)

    assert (first.status_code, again.status_code) == (201, 200)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert body(first) == body(again)
    assert problem(other) == (409, "idempotency_conflict")
    assert body(other)["fields"] == ["delay", "reason"]
    for header in ("", " ", "a,b", "x" * 201):
        answer = bulk.client.post(
            "/api/operations", json=asked, headers={"Idempotency-Key": header}
        )
        assert problem(answer) == (400, "bad_request")


# Undo


def test_a_cancel_is_undone_by_another_operation(bulk: Operations, session: Session) -> None:
    ids = bulk.jobs(3, Status.QUEUED, priority=4)
    origin = bulk.plan("cancel", {"kind": "demo.echo"})
    path, why = f"/api/operations/{origin['id']}/undo", {"reason": "because of ü"}
    assert problem(bulk.client.post(path, json=why)) == (409, "not_undoable")
    bulk.apply(origin)
    transitions.requeue(session, ids[:1], actor="user:bob")
    session.commit()
    key = {"Idempotency-Key": "k"}

    answer = bulk.client.post(path, json=why, headers=key)
    again = bulk.client.post(path, json=why, headers=key)
    done = bulk.apply(body(answer))

    assert (answer.status_code, again.status_code) == (201, 200)
    assert body(answer)["id"] == body(again)["id"]
    made = body(answer)
    assert (made["verb"], made["undoes"], made["state"]) == ("undo", origin["id"], "planned")
    assert made["planned"] == {"count": 2, "more": False}
    assert made["counts"] == {"cancelled": {"count": 2, "more": False}}
    assert made["others"] == {"changed": {"count": 1, "more": False}}
    assert bulk.show(origin)["state"] == "done"
    assert (done["state"], done["moved"], done["skipped"]) == ("done", 2, 0)
    shown = bulk.show(origin)
    assert (shown["undone_by"], shown["undone"]) == ([done["id"]], 2)
    listed = {one["id"]: one for one in body(bulk.client.get("/api/operations"))["items"]}
    told = [(one["undone_by"], one["undone"]) for one in listed.values()]
    assert sorted(told) == [([], 0), ([done["id"]], 2)]
    assert bulk.moved(done) == ids[1:]
    rows = session.execute(sa.select(Job.status, Job.priority).order_by(Job.id)).all()
    assert [tuple(row) for row in rows] == [("queued", 4)] * 3
    assert pointers(bulk.client.post(path, json={})) == ["/reason"]


def test_a_plan_for_nothing_is_done_at_once(bulk: Operations) -> None:
    made = bulk.apply(bulk.plan())

    assert (made["state"], made["moved"], made["skipped"]) == ("done", 0, 0)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"verb": "release"}, "/verb"),
        ({"verb": None}, "/verb"),
        ({"reason": ""}, "/reason"),
        ({"reason": "  "}, "/reason"),
        ({"reason": "x" * 1001}, "/reason"),
        ({"filter": {}}, "/filter"),
        ({"filter": None}, "/filter"),
        ({"filter": []}, "/filter"),
        ({"filter": {"state": "failed"}}, "/filter/state"),
        ({"filter": {"kind": None}}, "/filter/kind"),
        ({"filter": {"kind": ""}}, "/filter/kind"),
        ({"filter": {"priority": "1"}}, "/filter/priority"),
        ({"filter": {"created_from": 5}}, "/filter/created_from"),
        ({"filter": {"created_from": None}}, "/filter/created_from"),
        ({"filter": {"finished_to": "2026-01-01T00:00:00"}}, "/filter/finished_to"),
        ({"filter": {"finished_to": "9999-01-01T00:00:00Z"}}, "/filter/finished_to"),
        ({"filter": {"status": "failed"}}, "/filter/status"),
        ({"filter": {"status": []}}, "/filter/status"),
        ({"filter": {"status": ["broken"]}}, "/filter/status"),
        ({"filter": {"status": [["failed"]]}}, "/filter/status"),
        ({"filter": {"status": ["queued", "running"]}}, "/filter/status"),
        ({"delay": 5}, "/delay"),
        ({"priority": 0}, "/priority"),
        ({"verb": "reschedule", "filter": {"kind": "a"}}, ""),
        ({"verb": "reschedule", "filter": {"kind": "a"}, "delay": -1}, "/delay"),
        ({"verb": "reschedule", "filter": {"kind": "a"}, "spread": 0}, ""),
        ({"verb": "reschedule", "filter": {"kind": "a"}, "spread": 86_401}, "/spread"),
        (
            {"verb": "reschedule", "filter": {"kind": "a"}, "spread": 5, "delay": 5}
            | {"available_at": "2030-01-01T00:00:00Z"},
            "/delay",
        ),
        ({"spread": 5}, "/spread"),
        ({"limit": 5}, "/limit"),
        ({"canary": "yes"}, "/canary"),
        ({"verb": "cancel", "filter": {"kind": "a"}, "canary": True}, "/canary"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_what_cannot_be_read_plans_nothing(
    bulk: Operations, fields: dict[str, Any], pointer: str
) -> None:
    asked = {"verb": "retry", "filter": FAILED, "reason": "because", **fields}

    answer = bulk.client.post("/api/operations", json=asked)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == [pointer]
    assert bulk.session.scalar(sa.select(sa.func.count(JobEvent.id))) == 0


@pytest.mark.parametrize("name", ["0" * 16, "1", "G" * 16, "0" * 17, "%00"])
def test_an_operation_that_is_none_is_named(bulk: Operations, name: str) -> None:
    for answer in (
        bulk.client.get(f"/api/operations/{name}"),
        bulk.client.post(f"/api/operations/{name}/apply"),
        bulk.client.post(f"/api/operations/{name}/stop"),
    ):
        assert problem(answer) == (404, "operation_not_found")


def test_an_apply_that_asks_for_more_applies_nothing(
    bulk: Operations, session: Session, client: FlaskClient
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    path = f"/api/operations/{bulk.plan()['id']}/apply"

    by_body = client.post(path, json={"dry_run": True})
    by_query = client.post(f"{path}?dry_run=true")
    no_json = client.post(path, data="{bad", content_type="application/json")

    assert (problem(by_body), pointers(by_body)) == ((422, "invalid_request"), ["/dry_run"])
    assert problem(by_query) == (400, "bad_request")
    assert problem(no_json) == (400, "bad_request")
    assert body(client.get(path.removesuffix("/apply")))["moved"] == 0
    assert body(client.post(path, json={}))["moved"] == 1
