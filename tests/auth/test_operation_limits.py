"""What an operator may do to many jobs at once: refused by the server, in API and console."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from queueapp.api import operations as api_views
from queueapp.jobs.models import Job
from queueapp.jobs.operations import driver
from queueapp.jobs.status import Status
from tests.auth.conftest import bearer
from tests.factories import make_job


@pytest.fixture(autouse=True)
def three_jobs_where_two_may_be_moved(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queueapp.auth.principal.MOST_JOBS", 2)
    for _ in range(3):
        make_job(session, Status.FAILED)
    session.commit()


def statuses(session: Session) -> list[str]:
    session.rollback()
    return list(session.scalars(sa.select(Job.status).order_by(Job.id)))


def plan(caller: FlaskClient, **where: Any) -> str:
    asked = {"verb": "retry", "filter": where or {"kind": "demo.echo"}, "reason": "r"}
    answer = caller.post("/api/operations", json=asked, headers=bearer("operator"))
    assert answer.status_code == 201, answer.text
    assert answer.json is not None
    return str(answer.json["id"])


def by(caller: FlaskClient, role: str, path: str, **form: object) -> TestResponse:
    return caller.post(path, data=form or None, headers=bearer(role))


def test_more_jobs_than_an_operator_may_move_take_an_admin(
    caller: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 1)
    monkeypatch.setattr(api_views, "MOST_BATCHES", 1)
    number = plan(caller)
    api, page = f"/api/operations/{number}/apply", f"/operations/{number}/apply"

    refused = by(caller, "operator", api)
    assert (refused.status_code, (refused.json or {})["code"]) == (403, "operation_needs_admin")
    assert "3 jobs" in (refused.json or {})["detail"]
    assert by(caller, "operator", page).status_code == 403
    shown = caller.get(f"/operations/{number}", headers=bearer("operator")).text
    assert "An admin has to confirm this" in shown
    assert statuses(session) == ["failed"] * 3

    # What an admin has begun is not an operator's to go on with, but to stop.
    assert by(caller, "admin", api).status_code == 202
    assert by(caller, "operator", api).status_code == 403
    assert by(caller, "operator", page).status_code == 403
    assert statuses(session) == ["queued", "failed", "failed"]
    assert by(caller, "operator", f"/api/operations/{number}/stop").status_code == 200


@pytest.mark.parametrize(
    ("verb", "where", "kind"),
    [
        ("cancel", {"kind": "demo.echo"}, "demo.echo"),
        ("reschedule", {"kind": "demo.echo"}, "demo.echo"),
        # It is not to run less, or no one kind is named.
        ("retry", {"kind": "demo.echo"}, None),
        ("cancel", {"priority": 0}, None),
    ],
)
def test_an_operator_who_may_not_move_so_many_holds_their_kind(
    caller: FlaskClient, session: Session, verb: str, where: dict[str, Any], kind: str | None
) -> None:
    for _ in range(3):
        make_job(session)
    session.commit()
    how = {"reschedule": {"delay": 60}}.get(verb, {})
    asked = {"verb": verb, "filter": where, "reason": "a <loop> & more", **how}
    number = caller.post("/api/operations", json=asked, headers=bearer("operator")).json

    page = caller.get(f"/operations/{(number or {})['id']}", headers=bearer("operator")).text

    assert "An admin has to confirm this" in page
    found = re.findall(r'href="(/kinds/[^"]*/hold[^"]*)"', page)
    assert [one.partition("?")[0] for one in found] == ([f"/kinds/{kind}/hold"] if kind else [])
    if kind:
        asks = caller.get(html.unescape(found[0]), headers=bearer("operator")).text
        assert 'name="reason" maxlength="500" value="a &lt;loop&gt; &amp; more"' in asks
    # Whoever may do it all is not led elsewhere.
    page = caller.get(f"/operations/{(number or {})['id']}", headers=bearer("admin")).text
    assert "/hold" not in page


def test_as_many_as_an_operator_may_move_take_no_admin(
    caller: FlaskClient, session: Session
) -> None:
    make_job(session, Status.FAILED, kind="a")
    session.commit()

    answer = by(caller, "operator", f"/api/operations/{plan(caller, kind='a')}/apply")

    assert answer.status_code == 200
    assert statuses(session) == ["failed"] * 3 + ["queued"]


def test_every_job_there_is_takes_an_admin_the_number_and_the_word(
    caller: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.auth.principal.MOST_JOBS", 100)
    form = {"verb": "retry", "reason": "r"}
    assert by(caller, "operator", "/operations", **form).status_code == 403
    asked = caller.get("/operations/new", headers=bearer("operator")).text
    assert "Only an admin may do this" in asked
    assert "<button" not in asked.partition("<main")[2].partition("</main>")[0]

    planned = by(caller, "admin", "/operations", **form)
    assert planned.status_code == 303
    path = f"{planned.location}/apply"
    shown = caller.get(planned.location, headers=bearer("admin")).text
    assert 'name="word"' in shown
    assert 'name="count"' in shown

    assert by(caller, "operator", path, count="3", word="retry").status_code == 403
    assert by(caller, "operator", f"/api{path}").status_code == 403
    for typed in ({}, {"count": "3"}, {"word": "retry"}, {"count": "3", "word": "cancel"}):
        assert by(caller, "admin", path, **typed).status_code == 422
    assert statuses(session) == ["failed"] * 3
    assert by(caller, "admin", path, count="3", word=" Retry ").status_code == 303
    assert statuses(session) == ["queued"] * 3


def test_a_purge_takes_an_admin_from_the_plan_to_the_end(
    caller: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few jobs it is for: there is no undo."""
    monkeypatch.setattr("queueapp.auth.principal.MOST_JOBS", 100)
    monkeypatch.setattr(driver, "BATCH", 1)
    monkeypatch.setattr(api_views, "MOST_BATCHES", 1)
    asked = {"verb": "purge", "filter": {"kind": "demo.echo"}, "reason": "r"}
    form = {"verb": "purge", "kind": "demo.echo", "reason": "r"}
    refused = caller.post("/api/operations", json=asked, headers=bearer("operator"))
    assert (refused.status_code, (refused.json or {})["code"]) == (403, "operation_needs_admin")
    assert "only an admin may plan a purge" in (refused.json or {})["detail"]
    assert by(caller, "operator", "/operations", **form).status_code == 403
    for role in ("viewer", "producer", "worker"):
        assert caller.post("/api/operations", json=asked, headers=bearer(role)).status_code == 403
    question = caller.get("/operations/new?kind=demo.echo", headers=bearer("operator")).text
    assert 'value="purge"' not in question
    assert "for admins; you are operator" in question

    planned = by(caller, "admin", "/operations", **form).location
    api, page = f"/api{planned}/apply", f"{planned}/apply"
    for path in (api, page):
        assert (
            by(caller, "operator", path, **({"word": "purge"} if path == page else {})).status_code
            == 403
        )
    shown = caller.get(planned or "", headers=bearer("operator")).text
    assert "An admin has to confirm this: there is no undo of it." in shown
    assert statuses(session) == ["failed"] * 3
    assert by(caller, "admin", api).status_code == 202
    for path in (api, page):
        assert by(caller, "operator", path).status_code == 403
    again = caller.get(planned or "", headers=bearer("operator")).text
    assert "An admin has to go on with this" in again
    assert statuses(session) == ["failed"] * 2
    # Whoever may act may end it.
    assert by(caller, "operator", f"/api{planned}/stop").status_code == 200
    assert "Plan the rest</a>" not in caller.get(planned or "", headers=bearer("operator")).text
    assert "Plan the rest</a>" in caller.get(planned or "", headers=bearer("admin")).text


@pytest.mark.parametrize("role", ["viewer", "operator", "producer", "worker"])
def test_nobody_but_an_admin_purges_anything(
    caller: FlaskClient, session: Session, role: str
) -> None:
    for path in ("/jobs/1/purge", "/jobs/bulk?verb=purge&id=1", "/jobs/bulk?verb=purge&id=1&id=2"):
        assert caller.get(path, headers=bearer(role)).status_code == 403, path
    sent = {"verb": "purge", "id": "1", "reason": "r"}
    for path in ("/jobs/1/purge", "/jobs/bulk"):
        assert by(caller, role, path, **sent).status_code == 403, path
    refused = caller.post("/api/jobs/1/purge", json={"reason": "r"}, headers=bearer(role))
    assert refused.status_code == 403
    assert statuses(session) == ["failed"] * 3
