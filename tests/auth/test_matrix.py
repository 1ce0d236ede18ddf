"""Every address, by every method, as everybody: the table in docs/security.md, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.routing import Rule
from werkzeug.security import generate_password_hash
from werkzeug.test import TestResponse

from queueapp.auth import Role
from queueapp.auth.roles import PEOPLE
from queueapp.auth.tokens import entry_of
from queueapp.jobs import queries
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import DIALOG, PANEL
from tests.factories import make_job

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
PROXY = "10.0.0.5"
HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")

Matrix = dict[tuple[str, str], dict[str, str]]


def documented() -> Matrix:
    """What the page says: by method and address, the word for each role."""
    block = PAGE.read_text().partition("<!-- access:begin -->")[2].partition("<!-- access:end")[0]
    lines = [line for line in block.splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip(" `") for cell in one.strip("|").split(" | ")] for one in lines]
    found: Matrix = {}
    for route, *words in rows:
        method, address = route.split(" ", 1)
        found[method, address] = dict(zip(heads[1:], words, strict=True))
    return found


@pytest.fixture
def guarded(database_url: str) -> Iterator[Flask]:
    with application(
        database_url,
        QUEUE_TOKENS=" ".join(entry_of(f"{r}-t", f"the-{r}", r) for r in Role),
        QUEUE_USERS=" ".join(f"a-{role}:{role}:{HASH}" for role in PEOPLE),
        QUEUE_TRUSTED_PROXIES=PROXY,
        QUEUE_PROXY_USER_HEADER="X-Forwarded-User",
    ) as app:
        yield app


CALLERS = {
    **{f"token {role}": (role.value, {"Authorization": f"Bearer {role}-t"}) for role in Role},
    **{f"person {role}": (role, {"X-Forwarded-User": f"a-{role}"}) for role in PEOPLE},
    "nobody": ("anybody", {}),
    "a wrong token": ("anybody", {"Authorization": "Bearer wrong"}),
    # What the page's script asks for is no other request than the browser's.
    "person viewer, in a dialog": ("viewer", {"X-Forwarded-User": "a-viewer", **DIALOG}),
    "person operator, in a panel": ("operator", {"X-Forwarded-User": "a-operator", **PANEL}),
    "nobody, in a panel": ("anybody", PANEL),
    "an override": ("anybody", {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/healthz"}),
}

# Those whom methods that no route has would help most; the others try what the route has, and one.
EVERY_METHOD = ("token admin", "nobody", "an override")


@pytest.mark.parametrize("caller", CALLERS)
def test_everybody_gets_exactly_where_the_table_says(guarded: Flask, caller: str) -> None:
    role, headers = CALLERS[caller]
    table, client = documented(), guarded.test_client()
    faults = []
    for rule in guarded.url_map.iter_rules():
        for method in METHODS if caller in EVERY_METHOD else {*(rule.methods or ()), "PATCH"}:
            answer = client.open(
                address(rule), method=method, headers=headers,
                environ_overrides={"REMOTE_ADDR": PROXY},
            )  # fmt: skip
            answer.close()
            row = table.get(("GET" if method == "HEAD" else method, rule.rule))
            if fault := _fault(answer, row[role] if row else None, method, rule):
                faults.append(f"{method} {rule.rule}: {answer.status_code}, {fault}")

    assert faults == []


def _fault(answer: TestResponse, word: str | None, method: str, rule: Rule) -> str | None:
    if answer.status_code >= 500:
        return "broken"
    if method == "OPTIONS":
        return None if answer.status_code in (200, 401, 403, 303) else "not said"
    if word is None:
        # 404: an address that another rule has for the method.
        return None if answer.status_code in (404, 405) or _is_refused(answer, rule) else "no row"
    if word == "no":
        return None if _is_refused(answer, rule) else "let in"
    return "refused" if _is_refused(answer, rule) else None


def _is_refused(answer: TestResponse, rule: Rule) -> bool:
    if rule.rule in ("/login", "/logout"):
        return answer.status_code == 403
    to_login = answer.status_code == 303 and str(answer.location).startswith("/login")
    return answer.status_code in (401, 403) or to_login


def address(rule: Rule) -> str:
    built = rule.build({name: "hold" if name == "verb" else "999999" for name in rule.arguments})
    assert built is not None
    return built[1]


def test_the_table_has_every_route(guarded: Flask) -> None:
    routes = {
        (method, rule.rule)
        for rule in guarded.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }

    assert set(documented()) == routes


def test_no_address_does_anything_when_it_is_only_read(guarded: Flask, session: Session) -> None:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    before = [line.id for line in queries.events_of(session, job_id)]
    session.rollback()
    headers = {"Authorization": f"Bearer {Role.ADMIN}-t"}

    for rule in guarded.url_map.iter_rules():
        for verb in ("retry", "cancel"):
            values = {"job_id": job_id, "verb": verb, "kind": "demo.echo", "filename": "app.css"}
            built = rule.build({name: values.get(name, "0" * 16) for name in rule.arguments})
            assert built is not None
            guarded.test_client().get(built[1], headers=headers).close()

    assert queries.get_job(session, job_id).status == Status.FAILED
    assert [line.id for line in queries.events_of(session, job_id)] == before
    assert len(queries.list_jobs(session, JobFilter(), before=None, limit=10).rows) == 1


def test_a_client_of_another_address_is_not_the_proxy(guarded: Flask) -> None:
    client: FlaskClient = guarded.test_client()

    answer = client.get("/api/jobs", headers={"X-Forwarded-User": "a-admin"})

    assert answer.status_code == 401
