"""Each page leads to the same thing in the API, narrowed in the same way, where the API has it."""

from __future__ import annotations

import html
import re

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Event, Status
from tests.api.conftest import body
from tests.console.conftest import Console, job_ids
from tests.console.test_causes import fail
from tests.factories import make_job
from tests.scenes import ago

WORKER = "worker:web-1:7:aaaaaa"


def api_links(page: str) -> set[str]:
    found = re.findall(r'<a [^>]*?href="(/api/[^"]*)"', page)
    return {html.unescape(one) for one in found if not one.startswith("/api/docs")}


@pytest.fixture
def addresses(session: Session) -> dict[str, str]:
    """Every page, and the beginning of the link that it has at least."""
    control.record(session, Event.WORKER_SEEN, scope=WORKER, actor=WORKER, data={"slots": 1})
    fingerprint = fail(session, "no account 1")
    running = make_job(session, Status.RUNNING)
    session.execute(sa.update(Job).where(Job.id == running.id).values(locked_by=WORKER))
    found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    made = operations.plan(session, found, how={}, actor="user:ana", reason="r")
    session.commit()
    return {
        "/": "/api/verdict",
        "/jobs": "/api/jobs",
        f"/jobs/{running.id}": f"/api/jobs/{running.id}",
        "/errors": "/api/errors",
        "/errors?kind=demo.echo": "/api/errors?kind=demo.echo",
        f"/errors/{fingerprint}": f"/api/jobs?status=failed&fingerprint={fingerprint}",
        "/kinds": "/api/kinds",
        "/kinds/demo.echo": "/api/kinds/demo.echo",
        "/events": "/api/events",
        f"/events?job={running.id}": f"/api/jobs/{running.id}/events",
        "/workers": "/api/workers",
        f"/workers/{WORKER}": f"/api/workers/{WORKER}",
        "/operations": "/api/operations",
        f"/operations/{made.id}": f"/api/operations/{made.id}",
        "/system": "/api/system",
    }


def test_every_page_leads_to_the_api_and_each_such_link_leads_somewhere(
    console: Console, addresses: dict[str, str]
) -> None:
    for path, wanted in addresses.items():
        links = api_links(console.get(path))
        assert wanted in links, path
        for link in links:
            assert console.client.get(link).status_code == 200, (path, link)


@pytest.mark.parametrize("path", ["/", "/jobs", "/errors", "/kinds", "/events", "/workers",
                                  "/operations", "/system"])  # fmt: skip
def test_so_do_those_that_have_nothing_to_show(console: Console, path: str) -> None:
    links = api_links(console.get(path))

    assert links
    assert {console.client.get(link).status_code for link in links} == {200}


@pytest.mark.parametrize(
    "query",
    [
        "status=failed&status=held",
        "status=due",
        "status=scheduled",
        "status=retrying",
        "status=retrying&attempts=2",
        "status=retrying&attempts=>=2",
        "status=scheduled&attempts=0",
        "kind=demo.echo&producer=shop%26co",
        "priority=-3",
        "key=a+b%2Bc",
        "fingerprint=0123456789abcdef",
        "worker=web-1:7:aaaaaa",
        "attempts=>=2",
        "payload.order.id=42&payload=to%3Da%26b",
        "since=-1h",
        "since=-1d&until=-1h",
    ],
)
def test_the_link_of_a_list_is_narrowed_as_the_list(
    console: Console, session: Session, query: str
) -> None:
    for status in Status:
        make_job(session, status)
    make_job(session, Status.HELD, priority=-3, kind="another")
    later = ago(-3600)
    for attempts in range(3):
        make_job(session, attempts=attempts, available_at=later)
    payload = {"order": {"id": 42}, "to": "a&b"}
    make_job(session, producer="shop&co", payload=payload, key="a b+c", request_hash="h")
    old = ago(7_200)
    make_job(
        session, Status.FAILED, attempts=3, created_at=old, error_fingerprint="0123456789abcdef"
    )
    running = make_job(session, Status.RUNNING, attempts=2)
    session.execute(sa.update(Job).where(Job.id == running.id).values(locked_by=WORKER))
    session.commit()

    address = console.client.get(f"/jobs?{query}")
    page = console.get(address.location if address.status_code == 302 else f"/jobs?{query}")
    [link] = [one for one in api_links(page) if one.startswith("/api/jobs")]

    listed = job_ids(page)
    assert [one["id"] for one in body(console.client.get(link))["items"]] == listed
    assert 0 < len(listed) < session.scalar(sa.select(sa.func.count(Job.id)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "path",
    [
        f"/jobs?kind={'a' * 201}",
        "/jobs?kind=%00",
        "/jobs?status=retrying&attempts=0",
        f"/errors?kind={'a' * 201}",
        "/errors?kind=%00",
        "/events?job=999999",
        "/events?kind=demo.echo",
        "/events?job=1&event=failed",
    ],
)
def test_what_the_api_cannot_be_asked_has_no_link(
    console: Console, session: Session, path: str
) -> None:
    make_job(session)
    session.commit()

    assert api_links(console.get(path)) == set()
