"""GET /api/jobs: filters narrow exactly, pages neither skip nor repeat, bodies stay out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.api.conftest import Api, body, problem
from tests.factories import make_job

LATER = datetime(2099, 1, 1, tzinfo=UTC)
INSTANTS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n) for n in range(4)]


def text(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


def ids(api: Api, query: str = "") -> list[int]:
    return [job["id"] for job in body(api.get(query))["items"]]


def test_the_newest_job_comes_first_without_its_bodies(api: Api) -> None:
    first, second = api.make()["id"], api.make(payload={"message": "secret"})["id"]

    listed = body(api.get())

    assert [job["id"] for job in listed["items"]] == [second, first]
    assert not {"payload", "result", "error_message", "lease_token"} & set(listed["items"][0])
    assert (listed["next"], listed["cut"]) == (None, False)


def test_a_status_may_be_repeated_or_joined_by_commas(api: Api, session: Session) -> None:
    jobs = {status: make_job(session, status).id for status in Status}
    session.commit()

    for status, job_id in jobs.items():
        assert ids(api, f"?status={status}") == [job_id]
    wanted = sorted((jobs[Status.FAILED], jobs[Status.HELD]), reverse=True)
    assert ids(api, "?status=failed,held") == wanted
    assert ids(api, "?status=failed&status=held") == wanted


def test_each_filter_narrows(api: Api, session: Session) -> None:
    failed = make_job(session, Status.FAILED, kind="demo.fail", payload={}, producer="shop")
    payload = {"order": {"id": "7"}, "a,b": "c,d"}
    keyed = make_job(session, key="k", request_hash="h=1", priority=3, attempts=2, payload=payload)
    make_job(session)
    session.commit()

    assert ids(api, "?kind=demo.fail") == [failed.id]
    assert ids(api, "?producer=shop") == [failed.id]
    assert ids(api, f"?fingerprint={failed.error_fingerprint}") == [failed.id]
    assert ids(api, "?idempotency_key=k") == [keyed.id]
    assert ids(api, "?priority=3&status=queued&kind=demo.echo") == [keyed.id]
    assert ids(api, "?priority=3&kind=demo.fail") == []
    assert ids(api, "?payload.order.id=7") == [keyed.id]
    assert ids(api, "?payload=order.id=7&payload=a,b=c,d&count=true") == [keyed.id]
    assert ids(api, "?payload.order.id=8") == []
    assert ids(api, "?attempts=2") == ids(api, "?attempts_min=2") == [keyed.id]
    running = make_job(session, Status.RUNNING)
    session.commit()
    assert ids(api, f"?worker={running.locked_by}") == [running.id]

    found = operations.survey(session, "retry", JobFilter(kind="demo.fail"))
    made = operations.plan(session, found, how={}, actor="user:ana", reason="because")
    operations.step(session, made.id, actor="user:ana", via="api")
    session.commit()
    assert ids(api, f"?operation={made.id}") == [failed.id]
    assert ids(api, f"?operation={made.id}&status=failed") == []
    assert problem(api.get("?operation=latest")) == (400, "bad_request")


def test_a_range_of_priorities_has_both_its_ends(api: Api, session: Session) -> None:
    low, middle, high = (make_job(session, priority=p).id for p in (-5, 0, 7))
    session.commit()

    for queued in ("", "&status=queued", "&due=true"):
        assert ids(api, f"?priority_min=0{queued}") == [high, middle]
        assert ids(api, f"?priority_max=0{queued}") == [middle, low]
        assert ids(api, f"?priority_min=-5&priority_max=-5{queued}") == [low]
        assert ids(api, f"?priority_min=1&priority_max=0{queued}") == []


def test_due_is_what_could_start_now(api: Api, session: Session) -> None:
    due = make_job(session).id
    scheduled = make_job(session, available_at=LATER).id
    for status in Status:
        if status is not Status.QUEUED:
            make_job(session, status)
    session.commit()

    assert ids(api, "?due=true") == [due]
    assert ids(api, "?due=false") == [scheduled]
    assert ids(api, "?due=true&status=running") == []
    # The addresses of the console have them as statuses.
    for name, asked in (("due", "`due=true`"), ("retrying", "`due=false&attempts_min=1`")):
        refused = api.get(f"?status=failed,{name}")
        assert problem(refused) == (400, "bad_request")
        assert f"{name} is {asked}" in refused.get_json()["detail"]


def test_a_range_of_times_begins_at_its_first_instant_and_ends_before_its_last(
    api: Api, session: Session
) -> None:
    jobs = [make_job(session, Status.FAILED).id for _ in range(3)]
    jobs += [make_job(session, available_at=LATER).id]
    for job_id, at in zip(jobs, INSTANTS, strict=True):
        session.execute(
            sa.update(Job).where(Job.id == job_id).values(created_at=at, available_at=at)
        )
        final = sa.update(Job).where(Job.id == job_id, Job.status == "failed")
        session.execute(final.values(finished_at=at))
    session.commit()
    first, second, third, queued = jobs
    start, end = (text(INSTANTS[n]) for n in (1, 2))

    for name in ("created", "available"):
        assert ids(api, f"?{name}_from={start}&{name}_to={end}") == [second]
        assert ids(api, f"?{name}_from={start}") == [queued, third, second]
        assert ids(api, f"?{name}_to={end}") == [second, first]
        assert ids(api, f"?{name}_from={start}&status=queued") == [queued]
    for beside in ("", "&status=failed", "&status=failed,running,cancelled"):
        assert ids(api, f"?finished_from={start}&finished_to={end}{beside}") == [second]
        assert ids(api, f"?finished_from={start}{beside}") == [third, second]
        assert ids(api, f"?finished_to={start}{beside}") == [first]
    assert ids(api, f"?finished_from={start}&status=queued,running") == []
    assert ids(api, f"?finished_from={end}&finished_to={start}") == []


def test_a_fingerprint_goes_with_a_time(api: Api, session: Session) -> None:
    made = [make_job(session, Status.FAILED) for _ in range(2)]
    fingerprint, old = made[0].error_fingerprint, made[0].id
    session.execute(sa.update(Job).where(Job.id == old).values(finished_at=INSTANTS[0]))
    session.commit()

    query = f"?fingerprint={fingerprint}&status=failed&finished_from={text(INSTANTS[1])}"

    assert ids(api, query) == [made[1].id]


@pytest.mark.parametrize(
    "query",
    [
        "created_from=yesterday", "created_to=2026-01-01", "finished_from=2026-01-01T00:00:00",
        "finished_to=", "available_from=0001-01-01T00:00:00%2B12:00", "due=yes", "due=",
        "available_to=9999-12-31T23:59:59-12:00", "priority_min=x", "priority_max=32768",
        "created_from=2026-01-01T00:00:00Z&created_from=2026-01-02T00:00:00Z",
        "finished_from=2026-01-01T00:00:00 02:00", "priority_min=1e3", "created_from=%00",
        "attempts=-1", "attempts_min=x", "worker=", "payload=a", "payload=a..b=1", "payload=a=%00",
        "payload=a=1&payload=a=2",
    ],
)  # fmt: skip
def test_a_range_that_is_none_is_refused(api: Api, query: str) -> None:
    answer = api.get(f"?{query}")

    assert problem(answer) == (400, "bad_request")
    assert body(answer)["errors"][0]["parameter"] == query.partition("=")[0]


def test_filters_are_literal(api: Api, session: Session) -> None:
    make_job(session, kind="axb")
    literal = make_job(session, kind="a_b")
    session.commit()

    assert ids(api, "?kind=a_b") == [literal.id]
    for text_ in ("a%25", "%25", "_", "a\\_b", "a__", "*"):
        for name in ("kind", "producer", "fingerprint", "idempotency_key"):
            assert ids(api, f"?{name}={text_}") == []


@pytest.mark.parametrize("name", ["kind", "producer", "fingerprint", "idempotency_key"])
@pytest.mark.parametrize("value", ["", "a" * 10_000, "%25" * 201, "a%00b"])
def test_a_filter_that_no_job_can_match_is_refused(api: Api, name: str, value: str) -> None:
    assert problem(api.get(f"?{name}={value}")) == (400, "bad_request")


def test_jobs_of_one_instant_are_paged_without_gap_or_repeat(api: Api, session: Session) -> None:
    made = [make_job(session).id for _ in range(30)]
    session.execute(sa.text("UPDATE jobs SET created_at = '2026-01-01 00:00:00.123456+00'"))
    session.commit()

    for query in ("?limit=7", "?limit=7&status=queued", "?limit=7&kind=demo.echo"):
        seen, cursor = [], ""
        while True:
            page = body(api.get(query + cursor))
            seen += [job["id"] for job in page["items"]]
            if page["next"] is None:
                break
            assert isinstance(page["next"], str)
            cursor = f"&before={page['next']}"
        assert seen == sorted(made, reverse=True)


def test_a_page_is_not_moved_by_newcomers(api: Api) -> None:
    made = [api.make()["id"] for _ in range(4)]
    page = body(api.get("?limit=2"))
    api.make()

    assert ids(api, f"?limit=2&before={page['next']}") == [made[1], made[0]]


@pytest.mark.postgresql("rows written past the verbs")
def test_odd_rows_do_not_break_the_list(api: Api, session: Session) -> None:
    payloads = ["null", "1", '"text"', "[1]", f'{{"n": 1{"0" * 400}.5}}']
    rows = [make_job(session, kind="nobody.knows", progress_note="\x1b[31m") for _ in payloads]
    made = [row.id for row in rows]
    for job_id, payload in zip(made, payloads, strict=True):
        session.execute(
            sa.text("UPDATE jobs SET payload = CAST(:payload AS jsonb) WHERE id = :id"),
            {"id": job_id, "payload": payload},
        )
    session.commit()

    assert ids(api) == made[::-1]
    shown = [body(api.get(f"/{job_id}"))["payload"] for job_id in made]
    assert shown == [None, 1, "text", [1], {"n": "inf"}]


ODD = {
    "an instant without end": "available_at = 'infinity', created_at = '-infinity'",
    "a year beyond 9999": "available_at = '12000-01-01', created_at = '0044-03-15 BC'",
    "the last of all years": "available_at = '9999-12-31 23:59:59', created_at = '0001-01-01'",
    "an end before its start": "started_at = now(), created_at = now() + interval '1 day'",
    "an unknown kind": "kind = 'nobody.knows'",
    "control characters": "progress_note = E'\\x1b[31m', error_message = E'\\x07'",
    "a large payload": "payload = jsonb_build_object('a', repeat('x', 5000000))",
    "a payload of null": "payload = 'null'",
    "a payload of text": "payload = '\"text\"'",
    "an empty producer": "producer = ''",
}


@pytest.mark.postgresql("rows written past the verbs")
@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
@pytest.mark.parametrize("status", [Status.QUEUED, Status.FAILED])
def test_one_odd_row_breaks_nothing(
    api: Api, client: FlaskClient, session: Session, change: str, status: Status
) -> None:
    before, odd, after = (make_job(session, s).id for s in (status, status, Status.QUEUED))
    session.execute(sa.text(f"UPDATE jobs SET {change} WHERE id = {odd}"))
    if status is Status.FAILED and "infinity" in change:
        session.execute(sa.text(f"UPDATE jobs SET finished_at = 'infinity' WHERE id = {odd}"))
    session.execute(sa.text(f"DELETE FROM job_events WHERE job_id = {odd}"))
    session.commit()

    assert ids(api) == [after, odd, before]
    assert odd in ids(api, f"?status={status}&count=true&fields=id,payload,result,error_message")
    for path in ("", "/events", "/why"):
        assert api.get(f"/{odd}{path}").status_code in (200, 304), path
    for path in ("/", "/jobs", f"/jobs/{odd}", "/api/stats", "/api/events", "/metrics"):
        assert client.get(path).status_code == 200, path
    for form in ("ndjson", "csv"):
        exported = client.get(f"/api/jobs.{form}?fields=id", buffered=True).text
        assert [int(n) for n in re.findall(r"[0-9]+", exported)] == [after, odd, before]


@pytest.mark.postgresql("instants without end")
def test_an_instant_that_no_calendar_has_is_shown_as_one_far_away(
    api: Api, session: Session
) -> None:
    job = make_job(session).id
    session.execute(sa.text("UPDATE jobs SET created_at = '-infinity', available_at = 'infinity'"))
    session.commit()

    shown = body(api.get(f"/{job}"))

    assert shown["created_at"] == "1000-01-01T00:00:00.000000Z"
    assert shown["available_at"] == "9000-01-01T00:00:00.000000Z"


@pytest.mark.postgresql("numbers of any length")
def test_a_number_that_python_does_not_read_is_shown_as_its_digits(
    api: Api, client: FlaskClient, session: Session
) -> None:
    job, digits = make_job(session).id, "1" + "0" * 5000
    session.execute(
        sa.text("UPDATE jobs SET payload = CAST(:text AS jsonb)"),
        {"text": f'{{"n": {digits}, "m": 7}}'},
    )
    session.commit()

    assert body(api.get(f"/{job}"))["payload"] == {"n": digits, "m": 7}
    assert body(api.get("?fields=payload"))["items"] == [{"payload": {"n": digits, "m": 7}}]
    assert digits in client.get("/api/jobs.ndjson?fields=payload").text
