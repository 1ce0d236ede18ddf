"""Every verb, as every role, by every way: a whole page, a dialog, a panel, the API."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.console import actions, switches
from queueapp.jobs.models import Job, JobEvent
from tests.applications import application
from tests.console.conftest import DIALOG, PANEL
from tests.console.deeds import DEEDS, Act, sent

# By which headers a page's form is sent: by the browser, or by the script from where.
WAYS = {"page": {}, "dialog": DIALOG, "panel": PANEL}
# What changes nothing of the queue, and what is not for people.
NOT_HERE = {"console.sign_in", "console.sign_out", "console.choose"}
NOT_HERE |= {f"api_leases.{name}" for name in ("lease", "progress", "renew", "settle")}
SAFE = {"GET", "HEAD", "OPTIONS"}


def ways_of(name: str) -> list[str]:
    deed = DEEDS[name]
    return [*(WAYS if deed.on_pages else ()), *(("api",) if deed.in_api else ())]


# Who is let in by one way is by every other: where operators may as well, an admin tries one.
ALLOWED = [
    pytest.param(name, way, role, id=f"{name}-{way}-{role}")
    for name, deed in DEEDS.items()
    for role in sorted(deed.may)
    for way in (ways_of(name)[-1:] if role is Role.ADMIN and deed.may > {role} else ways_of(name))
    if way != "panel"
]


@pytest.fixture
def guarded(database_url: str) -> Iterator[Flask]:
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in Role
    )
    with application(database_url, QUEUE_TOKENS=tokens) as app:
        yield app


def as_role(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}-secret"}


def state(session: Session) -> Any:
    """All that anybody could have changed: each job, and the ledger."""
    session.rollback()
    jobs = session.execute(sa.select(*Job.__table__.columns).order_by(Job.id)).all()
    return [tuple(map(repr, job)) for job in jobs], session.scalar(sa.func.count(JobEvent.id))


def done(client: FlaskClient, act: Act, way: str, role: Role, page: str | None) -> Any:
    if way == "api":
        assert act.api is not None
        return client.post(act.api, json=act.json, headers=as_role(role))
    return sent(client, act, {**WAYS[way], **as_role(role)}, page)


def asked(client: FlaskClient, act: Act) -> str | None:
    """The page of the question, as who may do anything sees it."""
    return client.get(act.ask, headers=as_role(Role.ADMIN)).text if act.ask else None


@pytest.mark.parametrize("name", DEEDS)
def test_whom_it_is_not_for_is_refused_by_every_way_and_nothing_changes(
    guarded: Flask, session: Session, name: str
) -> None:
    deed, client = DEEDS[name], guarded.test_client()
    act = deed.made(session)
    page, before = asked(client, act), state(session)

    for role in set(Role) - deed.may:
        for way in ways_of(name):
            answer = done(client, act, way, role, page)
            # Of a job that is not its own a producer learns nothing, not even that it is there.
            hidden = (name, way, role) == ("cancel", "api", Role.PRODUCER)
            assert answer.status_code == (404 if hidden else 403), (role, way)
            assert state(session) == before, (role, way)
        for headers in WAYS.values() if act.ask else ():
            question = client.get(act.ask, headers={**headers, **as_role(role)})
            assert question.status_code == 403, role


@pytest.mark.parametrize(("name", "way", "role"), ALLOWED)
def test_whom_it_is_for_does_it_by_every_way(
    guarded: Flask, session: Session, name: str, way: str, role: Role
) -> None:
    deed, client = DEEDS[name], guarded.test_client()
    act = deed.made(session)
    page, before = asked(client, act), state(session)

    answer = done(client, act, way, role, page)

    assert answer.status_code < 400, answer.text
    assert (state(session) != before) is deed.changes
    last = session.scalars(sa.select(JobEvent).order_by(JobEvent.id.desc()).limit(1)).first()
    if deed.changes:
        assert last is not None
        assert last.actor == f"token:the-{role}"


def test_every_route_and_verb_that_changes_anything_is_here(
    guarded: Flask, session: Session
) -> None:
    unsafe = {rule.endpoint for rule in guarded.url_map.iter_rules()
              if (rule.methods or set()) - SAFE}  # fmt: skip
    adapter = guarded.url_map.bind("localhost")
    acts = [(deed, deed.made(session)) for deed in DEEDS.values()]

    paths = [act.path for deed, act in acts if deed.on_pages and act.path]
    paths += [act.api for deed, act in acts if deed.in_api and act.api]
    found = {adapter.match(path, method="POST")[0] for path in paths}

    assert found == unsafe - NOT_HERE
    verbs = {path.rpartition("/")[2] for path in paths}
    assert verbs >= {*actions.VERBS, *switches.OF_KIND}
