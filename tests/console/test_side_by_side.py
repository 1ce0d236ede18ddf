"""What a page shares with others is read while it reads its own; and nothing is asked twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.extensions import db
from queueapp.jobs.operations import state
from queueapp.jobs.queries import actions, clock, depth, failures, ledger
from queueapp.jobs.status import Status
from queueapp.jobs.verdict import statements
from tests.console.conftest import PANEL
from tests.console.test_operation_page import plan
from tests.factories import make_job
from tests.jobs.plans import statements_of

pytestmark = pytest.mark.postgresql("statements")

# Longer than any thread takes to come to its statement; only what comes never takes so long.
PATIENCE_S = 20.0


@pytest.fixture
def sharing(fresh_app: Flask) -> Flask:
    """The application as it is outside tests: what was read serves for a while."""
    for name in ("queue_look", "queue_overview", "queue_counts", "queue_causes"):
        fresh_app.extensions[name].life_s = 600.0
    return fresh_app


def engine_of(app: Flask) -> sa.Engine:
    with app.app_context():
        return db.engine


class Meeting:
    """One statement waits until others have been sent. ``missed``: those that never were."""

    def __init__(self, of: str, waits_for: tuple[str, ...]) -> None:
        self._of = of
        self._sent = {statement: threading.Event() for statement in waits_for}
        self.missed: list[str] = []
        self.held = False

    def note(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement in self._sent:
            self._sent[statement].set()
        elif self._of in statement and not self.held:
            self.held = True
            self.missed = [
                one[:60] for one, sent in self._sent.items() if not sent.wait(PATIENCE_S)
            ]


@contextmanager
def meeting(app: Flask, of: str, *waits_for: str) -> Iterator[Meeting]:
    found, engine = Meeting(of, waits_for), engine_of(app)
    sa.event.listen(engine, "before_cursor_execute", found.note)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", found.note)
    assert found.held
    assert found.missed == []


@pytest.mark.parametrize(
    ("path", "own", "shared"),
    [
        ("/jobs", "FROM jobs ORDER BY jobs.id", (depth._DEPTH, statements.LINE)),
        ("/events", ledger._LISTED, (statements.LINE,)),
        ("/errors", failures._NEWEST, (statements.LINE,)),
        ("/", actions._MARKS, (depth._DEPTH, statements.LINE)),
    ],
)
def test_a_page_reads_its_own_beside_what_it_shares(
    sharing: Flask, session: Session, path: str, own: str, shared: tuple[str, ...]
) -> None:
    make_job(session, Status.FAILED)
    session.commit()

    with meeting(sharing, own, *shared):
        answer = sharing.test_client().get(path)

    assert answer.status_code == 200
    assert answer.headers["Queue-Verdict"].startswith("green")


def test_the_first_page_does_not_wait_for_the_counts_before_it_reads_the_rest(
    sharing: Flask, session: Session
) -> None:
    make_job(session, Status.FAILED)
    session.commit()

    with meeting(sharing, depth._DEPTH, actions._MARKS):
        answer = sharing.test_client().get("/")

    assert answer.status_code == 200


def test_what_waits_is_counted_once(sharing: Flask, session: Session) -> None:
    make_job(session)
    session.commit()

    with statements_of(engine_of(sharing)) as sent:
        for path in ("/jobs", "/"):
            assert sharing.test_client().get(path).status_code == 200

    texts = [text for text, _ in sent]
    assert texts.count(depth._DEPTH) == texts.count(depth._OTHER_COUNTS) == 1
    assert depth._COUNTS not in texts


def test_a_poll_with_nothing_new_asks_for_nothing_else(fresh_app: Flask, session: Session) -> None:
    path, _ids = plan(session, 2)
    # What stops its jobs is told by the look that all pages share.
    fresh_app.extensions["queue_look"].life_s = 600.0
    client = fresh_app.test_client()
    timed = PANEL | {"Queue-Timer": "1"}
    expected = {
        "/jobs": [clock._PULSE], "/events": [clock._PULSE], "/operations": [clock._PULSE],
        path: [clock._PULSE, state._LINES],
    }  # fmt: skip

    for headers in (PANEL, timed):
        for each, statement in expected.items():
            tag = client.get(each, headers=headers).headers["HX-PTag"]
            with statements_of(engine_of(fresh_app)) as sent:
                answer = client.get(each, headers=headers | {"HX-PTag": tag})
            assert answer.status_code == 304
            assert [text for text, _ in sent] == statement
