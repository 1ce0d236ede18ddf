"""GET /api/jobs: filters narrow exactly, pages neither skip nor repeat, bodies stay out."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.api.conftest import Api, body
from tests.factories import make_job


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
    keyed = make_job(session, key="k", request_hash="h=1", priority=3)
    make_job(session)
    session.commit()

    assert ids(api, "?kind=demo.fail") == [failed.id]
    assert ids(api, "?producer=shop") == [failed.id]
    assert ids(api, f"?fingerprint={failed.error_fingerprint}") == [failed.id]
    assert ids(api, "?idempotency_key=k") == [keyed.id]
    assert ids(api, "?priority=3&status=queued&kind=demo.echo") == [keyed.id]
    assert ids(api, "?priority=3&kind=demo.fail") == []


def test_filters_are_literal(api: Api, session: Session) -> None:
    make_job(session, kind="axb")
    literal = make_job(session, kind="a_b")
    session.commit()

    assert ids(api, "?kind=a_b") == [literal.id]
    assert ids(api, "?kind=a%25") == []


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
