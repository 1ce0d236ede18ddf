"""Pages of GET /api/jobs: their cursors, fields and counts, while the data changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.api import describe
from queueapp.api.list_schemas import JobsFilter
from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.queries import candidates, counting, listing
from queueapp.jobs.status import Status
from tests.api.conftest import Api, body, problem
from tests.factories import make_job

ONE_INSTANT = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)

FILTERS = (
    "", "status=failed", "status=failed,queued", "kind=demo.echo", "producer=app", "priority=0",
    "priority_min=0", "priority_max=0&status=failed", "created_to=2026-01-02T00:00:00Z",
    "available_from=2026-01-01T00:00:00Z", "finished_from=2026-01-01T00:00:00Z",
    "finished_to=2026-01-02T00:00:00Z&status=failed", "fingerprint={fingerprint}",
    "fingerprint={fingerprint}&status=failed", "status=failed&fields=kind",
)  # fmt: skip


def page(api: Api, query: str) -> dict[str, Any]:
    return body(api.get(f"?{query}"))


def ids(found: dict[str, Any]) -> list[int]:
    return [job["id"] for job in found["items"]]


@pytest.fixture
def thirty(session: Session) -> list[int]:
    """Failed in one transaction, all at one instant; newest first."""
    made = [make_job(session, Status.FAILED) for _ in range(30)]
    numbers = [job.id for job in made]
    at = dict.fromkeys(("created_at", "available_at", "finished_at"), ONE_INSTANT)
    session.execute(sa.update(Job).values(**at))
    session.commit()
    return numbers[::-1]


@pytest.mark.parametrize("query", FILTERS)
def test_pages_of_one_instant_have_each_job_once_in_both_directions(
    api: Api, session: Session, thirty: list[int], query: str
) -> None:
    print_ = session.scalar(sa.select(Job.error_fingerprint).limit(1))
    query = f"{query.format(fingerprint=print_)}&fields=id&limit=7"

    down, found = [], page(api, query)
    assert found["previous"] is None
    while True:
        down += ids(found)
        if found["next"] is None:
            break
        found = page(api, f"{query}&before={found['next']}")
    up = ids(found)
    while found["previous"] is not None:
        found = page(api, f"{query}&after={found['previous']}")
        up = ids(found) + up

    assert down == thirty
    assert up == thirty


def test_pages_neither_skip_nor_repeat_a_job_while_others_come_move_and_go(
    api: Api, session: Session
) -> None:
    made = [make_job(session).id for _ in range(12)]
    session.commit()
    seen, cursor = [], ""
    for turn in range(4):
        found = page(api, f"status=queued&limit=3{cursor}")
        seen += ids(found)
        # One that was shown leaves, one comes, and the one at the cursor goes altogether.
        transitions.cancel(session, [seen[0]], actor="user:ana", reason="test")
        make_job(session)
        session.execute(sa.delete(Job).where(Job.id == seen[-1]))
        session.commit()
        cursor = f"&before={found['next']}"
        assert (found["next"] is None) == (turn == 3)

    assert seen == made[::-1]


@pytest.mark.postgresql("two writers at once")
def test_a_late_commit_appears_at_its_place(api: Api, session: Session, app: Flask) -> None:
    """The list is read again from the top to be complete: so it is documented."""
    late = make_job(session).id  # not committed yet
    early = [api.make()["id"] for _ in range(3)]
    found = page(api, "limit=2")
    assert ids(found) == [early[2], early[1]]

    session.commit()

    assert ids(page(api, f"limit=2&before={found['next']}")) == [early[0], late]
    assert ids(page(api, "")) == [*early[::-1], late]


def test_fields_are_the_only_ones_shown(api: Api) -> None:
    job = api.make(payload={"message": "hello"})

    [shown] = page(api, "fields=status,payload,id,status")["items"]
    assert shown == {"id": job["id"], "status": "queued", "payload": {"message": "hello"}}
    [shown] = page(api, "fields=timeout&fields=kind")["items"]
    assert shown == {"timeout": None, "kind": "demo.echo"}
    [shown] = page(api, f"fields={','.join(describe.WHOLE)}")["items"]
    assert shown == body(api.get(f"/{job['id']}"))


@pytest.mark.parametrize("fields", ["nope", "id,nope", "lease_token", "request_hash", "id,", "%00"])
def test_an_unknown_field_is_named_and_so_are_the_known_ones(api: Api, fields: str) -> None:
    answer = api.get(f"?fields={fields}")

    assert problem(answer) == (422, "invalid_request")
    [told] = body(answer)["errors"]
    assert told["parameter"] == "fields"
    unknown = [name for name in fields.split(",") if name not in describe.WHOLE]
    assert f"'{unknown[0]}'" in told["detail"] or fields == "%00"
    assert set(describe.WHOLE) <= set(re.findall(r"\w+", told["detail"]))


@pytest.mark.parametrize("name", describe.BODIES)
def test_a_page_of_bodies_is_a_short_one(api: Api, name: str) -> None:
    assert api.get(f"?fields={name}&limit=50").status_code == 200
    answer = api.get(f"?fields=id,{name}&limit=51")

    assert problem(answer) == (422, "invalid_request")
    assert body(answer)["errors"][0]["parameter"] == "limit"


def test_bodies_that_nobody_asked_for_are_not_read(api: Api, app: Flask) -> None:
    from queueapp.extensions import db
    from tests.jobs.plans import statements_of

    api.make()
    with app.app_context():
        engine = db.engine
    for query, read in (("", False), ("fields=id,kind", False), ("fields=payload", True)):
        with statements_of(engine) as sent:
            page(api, query)
        assert any("jobs.payload" in statement for statement, _ in sent) is read


def test_before_and_after_do_not_go_together(api: Api) -> None:
    assert problem(api.get("?before=3&after=1")) == (400, "bad_request")


@pytest.mark.parametrize("cursor", ["", "0", "-1", "x", "1.5", "9223372036854775808", "%00"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_cursor_that_is_none_is_refused(api: Api, side: str, cursor: str) -> None:
    assert problem(api.get(f"?{side}={cursor}")) == (400, "bad_request")


COUNTED = (
    ("", 6), ("status=queued", 3), ("status=failed", 2), ("status=held", 1), ("kind=demo.echo", 6),
    ("kind=no.such", 0), ("due=true", 3), ("finished_from=2020-01-01T00:00:00Z", 2),
    ("status=failed&finished_to=2020-01-01T00:00:00Z", 0), ("priority_min=1", 1),
    ("status=queued&priority_min=1", 1), ("idempotency_key=k", 1),
    ("status=failed&due=true", 0), ("status=failed,queued&due=true", 3),
    ("status=queued&due=false", 0), ("status=queued&finished_to=2030-01-01T00:00:00Z", 0),
)  # fmt: skip


@pytest.fixture
def six(session: Session) -> None:
    for status in (*[Status.QUEUED] * 2, *[Status.FAILED] * 2, Status.HELD):
        make_job(session, status)
    make_job(session, priority=3, key="k", request_hash="h=1")
    session.commit()


@pytest.mark.parametrize(("query", "count"), COUNTED)
def test_a_count_is_of_the_whole_filter(api: Api, six: None, query: str, count: int) -> None:
    found = page(api, f"{query}&count=true&limit=1")
    assert (found["count"], found["capped"]) == (count, False)
    found = page(api, f"{query}&count=true&before=1")
    assert (found["count"], found["capped"]) == (count, False)
    assert not {"count", "capped"} & set(page(api, f"{query}&count=false"))


@pytest.mark.parametrize(
    "query", ["", "status=queued", "kind=demo.echo", "due=true", "status=queued&kind=demo.echo"]
)
def test_a_count_stops_at_its_bound(
    api: Api, six: None, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "COUNT_LIMIT", 2)

    found = page(api, f"{query}&count=true")

    assert (found["count"], found["capped"]) == (2, True)


def test_a_count_says_when_it_has_not_looked_at_everything(
    api: Api, six: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (candidates, counting, listing):
        monkeypatch.setattr(module, "SCAN_LIMIT", 1)

    # The newest row only; or no more of the queued ones than may be looked at, and one to tell.
    assert page(api, "kind=demo.echo&count=true")["capped"]
    found = page(api, "status=queued&kind=demo.echo&count=true")
    assert (found["count"], found["capped"]) == (2, True)


def test_on_the_way_up_a_window_goes_on(
    api: Api, six: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 2)
    seen: list[int] = []
    cursor: str | None = "1"
    while cursor is not None:
        found = page(api, f"priority=3&after={cursor}")
        seen += ids(found)
        assert found["cut"] == (found["previous"] is not None)
        cursor = found["previous"]

    assert seen == [6]


def test_what_is_shown_is_no_filter() -> None:
    assert JobsFilter(fields=("id",)).where(None) == JobsFilter().where(None)
