"""A page of one thing that many look at costs the database what it costs for one of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from queueapp.auth import Role
from queueapp.console import readings
from queueapp.console.readings import Glances
from queueapp.extensions import db
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import PANEL
from tests.console.test_operation_page import plan
from tests.factories import HOLDER, claim_one, make_job
from tests.jobs.plans import statements_of
from tests.live.proxy import Proxy

TIMER = PANEL | {"Queue-Timer": "1"}
TABS = 5
CAUSE = "/errors/" + "ab" * 8
WORKER = f"/workers/{HOLDER.name}"
SECRET, HIDDEN = "hunter2", "•••"


def as_role(role: Role) -> dict[str, str]:
    return TIMER | {"Authorization": f"Bearer {role}-secret"}


@pytest.fixture
def sharing(database_url: str) -> Iterator[Flask]:
    """The application as it is outside tests: what was read serves for a while."""
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in Role
    )
    with application(database_url, QUEUE_TOKENS=tokens) as app:
        yield sharing_for_long(app)


def sharing_for_long(app: Flask) -> Flask:
    for name in ("queue_pulse", "queue_roll", "queue_glances", "queue_look"):
        app.extensions[name].life_s = 600.0
    return app


@pytest.fixture
def pages(session: Session) -> list[str]:
    """A cause, a job, an operation and a worker, each with something to show."""
    operation, _ids = plan(session, 2)
    job = make_job(session, Status.FAILED, payload={"password": SECRET, "order": 1})
    make_job(session, Status.FAILED, payload={"password": SECRET, "order": 2})
    session.execute(
        sa.update(Job).where(Job.kind == job.kind).values(error_fingerprint=CAUSE[-16:])
    )
    claim_one(session, make_job(session).id, HOLDER)
    session.commit()
    return [CAUSE, f"/jobs/{job.id}", operation, WORKER]


def time_passes(app: Flask) -> None:
    """What was read is too old for anybody."""
    for name in ("queue_pulse", "queue_roll", "queue_glances"):
        app.extensions[name].forget()


def something_happens(session: Session) -> None:
    """To everything that the pages show."""
    session.execute(sa.update(Job).values(priority=Job.priority + 1))
    make_job(session, Status.FAILED, error_fingerprint=CAUSE[-16:])
    session.commit()


def asked(app: Flask, path: str, tabs: int, headers: dict[str, str]) -> tuple[int, set[str]]:
    """How many statements so many tabs cost that ask in the same moment, and what they show."""
    barrier = threading.Barrier(tabs)

    def ask() -> TestResponse:
        client = app.test_client()
        barrier.wait(60)
        return client.get(path, headers=headers)

    with app.app_context():
        engine = db.engine
    with statements_of(engine) as sent, ThreadPoolExecutor(tabs) as pool:
        answers = [one.result() for one in [pool.submit(ask) for _ in range(tabs)]]
    assert {answer.status_code for answer in answers} == {200}, path
    return len(sent), {answer.text for answer in answers}


@pytest.mark.postgresql("statements")
def test_many_tabs_of_one_thing_cost_what_one_costs(
    sharing: Flask, session: Session, pages: list[str]
) -> None:
    for path in pages:
        costs = []
        for tabs in (1, 1, TABS, TABS):
            costs.append(asked(sharing, path, tabs, as_role(Role.OPERATOR)))
            something_happens(session)
            time_passes(sharing)
        (_, _), (one, _), (many, shown), (again, news) = costs

        assert 0 < many <= one, path
        assert again <= one, path
        assert len(shown) == len(news) == 1, path
        # The plan of an operation is of the moment that it was made in.
        assert shown != news, path


def test_whoever_asks_himself_is_told_of_now(
    sharing: Flask, session: Session, pages: list[str]
) -> None:
    client, path = sharing.test_client(), pages[1]
    himself = {name: told for name, told in as_role(Role.OPERATOR).items() if name not in TIMER}
    himself |= PANEL
    before = client.get(path, headers=as_role(Role.OPERATOR))

    something_happens(session)

    assert client.get(path, headers=as_role(Role.OPERATOR)).text == before.text
    own = client.get(path, headers=himself)
    assert own.headers["HX-PTag"] != before.headers["HX-PTag"]
    assert own.headers["Queue-As-Of"] > before.headers["Queue-As-Of"]


def test_nobody_is_shown_what_was_drawn_for_another_role(sharing: Flask, pages: list[str]) -> None:
    roles = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
    for path in pages:
        shown = {
            role: sharing.test_client().get(path, headers=as_role(role)).text for role in roles
        }
        for role, other in zip(roles, (*roles[1:], roles[0]), strict=True):
            assert shown[role] != shown[other] or path == WORKER, path
        assert "<form" not in shown[Role.VIEWER], path
        for role in (Role.OPERATOR, Role.VIEWER):
            assert SECRET not in shown[role], path
        if path in pages[:2]:
            assert SECRET in shown[Role.ADMIN]
            assert HIDDEN in shown[Role.OPERATOR]


def test_what_is_not_there_is_not_there_for_any_tab(sharing: Flask) -> None:
    client = sharing.test_client()

    for path in ("/jobs/77", "/operations/0123456789abcdef"):
        answers = [client.get(path, headers=as_role(Role.VIEWER)) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [404, 404], path
        assert answers[0].text == answers[1].text


@pytest.mark.postgresql("a server that goes away")
def test_a_failure_is_told_to_all_tabs_and_is_over_when_it_is(
    database_url: str, session: Session, pages: list[str]
) -> None:
    proxy = Proxy(database_url)
    with application(proxy.url) as app:
        sharing_for_long(app)
        client = app.test_client()
        proxy.refuse()
        told = {path: [client.get(path, headers=TIMER) for _ in range(2)] for path in pages[:3]}
        proxy.admit()
        time_passes(app)
        after = {path: client.get(path, headers=TIMER).status_code for path in pages}

    for path, answers in told.items():
        assert {answer.status_code for answer in answers} == {503}, path
        assert {answer.headers["Retry-After"] for answer in answers} == {"5"}
    assert set(after.values()) == {200}
    proxy.close()


def test_only_the_latest_things_are_kept(fresh_app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MOST_GLANCES", 2)
    glances = Glances(fresh_app)
    first, second = (glances.of(number, lambda: 0) for number in (1, 2))

    assert glances.of(1, lambda: 0) is first
    glances.of(3, lambda: 0)

    assert glances.of(1, lambda: 0) is first
    assert glances.of(2, lambda: 0) is not second
