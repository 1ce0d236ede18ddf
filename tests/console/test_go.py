"""The jump box: whatever somebody has in hand leads to its page, and nowhere else."""

from __future__ import annotations

import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.console.hostile import MARK, TEXT
from tests.factories import make_job


def goes(client: FlaskClient, asked: str) -> str | None:
    answer = client.get("/go", query_string={"q": asked})
    return answer.location if answer.status_code == 302 else None


def test_what_one_has_in_hand_leads_to_its_page(client: FlaskClient, session: Session) -> None:
    failed = make_job(session, Status.FAILED, kind="lost.kind")
    running = make_job(session, Status.RUNNING)
    keyed = make_job(session, key="order-4711", request_hash="x")
    alike = session.get_one(Job, failed.id).error_fingerprint
    session.commit()
    found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    made = operations.plan(session, found, how={}, actor="user:ana", reason="again")
    session.commit()
    holder = str(running.locked_by)

    for asked, address in {
        "": "/",
        "audit": "/audit",
        "workers": "/workers",
        "Worker": "/workers",
        "/jobs": "/jobs",
        "/jobs?status=failed&kind=a": "/jobs?status=failed&kind=a",
        "http://localhost/kinds": "/kinds",
        "https://LOCALHOST/kinds?done=pause": "/kinds",
        f"/jobs/{failed.id}": f"/jobs/{failed.id}",
        f" {failed.id} ": f"/jobs/{failed.id}",
        f"#{failed.id}": f"/jobs/{failed.id}",
        f"job {failed.id}": f"/jobs/{failed.id}",
        made.id: f"/operations/{made.id}",
        f"op {made.id}": f"/operations/{made.id}",
        f"op:{made.id.upper()}": f"/operations/{made.id}",
        f"op {made.id[:6]}": f"/operations/{made.id}",
        str(alike): f"/errors/{alike}",
        f"error {str(alike)[:8]}": f"/errors/{alike}",
        holder: f"/workers/{holder}",
        f"worker:{holder}": f"/workers/{holder}",
        holder[:-2]: f"/workers/{holder}",
        "demo.echo": "/kinds/demo.echo",
        "demo.ech": "/kinds/demo.echo",
        "lost.kind": "/kinds/lost.kind",
        "order-4711": f"/jobs/{keyed.id}",
        "user:ana": "/audit?actor=user:ana",
    }.items():
        assert goes(client, asked) == address, asked

    session.execute(sa.delete(Job).where(Job.id == failed.id))
    session.commit()
    assert goes(client, str(failed.id)) == f"/events?job={failed.id}"


def test_several_are_listed(console: Console) -> None:
    page = console.get("/go?q=demo.")

    assert 'href="/kinds/demo.echo">demo.echo</a>' in page
    assert 'href="/kinds/demo.sleep">demo.sleep</a>' in page


NOTHING = (
    "no such thing", "demo_echo", "%", "d%o", "999999", "99999999999999999999", "0",
    "0123456789abcdef", TEXT, "x" * 400, "a\x00b", "/nowhere", "/go?q=1", "/static/app.js",
    "//evil.example/", "https://evil.example", "http://localhost.evil.example/jobs",
    "http://localhost@evil.example/jobs", "http://localhost//evil.example/jobs",
    "/\\evil.example", "javascript:alert(1)",
)  # fmt: skip


def test_nothing_found_is_said_and_nobody_is_led_away(client: FlaskClient) -> None:
    for asked in NOTHING:
        answer = client.get("/go", query_string={"q": asked})

        assert answer.status_code == 404, asked
        assert "Location" not in answer.headers
        assert "Nothing here is called" in words(answer.text)
        assert f"<script>{MARK}" not in answer.text


def test_every_page_has_the_box_but_for_those_who_have_to_sign_in(console: Console) -> None:
    for path in ("/", "/jobs", "/audit", "/settings", "/help"):
        assert '<form class="jump" method="get" action="/go"' in console.get(path)
