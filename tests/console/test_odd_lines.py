"""Lines of the ledger that no release of ours has written break no page."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.jobs import kinds, minute_stats, why
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries import drain
from queueapp.jobs.status import Status
from tests.console.test_outage import every_page
from tests.factories import make_job
from tests.scenes import ECHO, Scene

SIGNS: list[Any] = [
    None, {}, [], "text", {"slots": "many", "kinds": "a", "lease_s": None},
    {"slots": -1, "kinds": [1, None], "release": {"a": 1}, "lost": "x"},
]  # fmt: skip
SWITCHES: list[Any] = [None, {}, {"until": "never", "spread_s": "x"}, {"until": 5}, []]
MINUTES: list[Any] = [
    {}, {"xid": "1", "id": 1, "kinds": {}}, {"kinds": {"a.b": {}}, "all": {}},
    {"kinds": None}, {"kinds": []}, {"kinds": "text", "all": "text"},
    {"kinds": {"demo.echo": None}},
    {"kinds": {"demo.echo": {"events": None, "wait": None, "run": None, "retries": None}}},
    {"xid": None, "id": None, "since": None, "kinds": None, "all": None, "totals": None,
     "claim": None, "due_to": None, "full": None},
]  # fmt: skip
ODD: list[dict[str, Any]] = [
    *(
        {"event": "worker_seen", "scope": "worker:x", "data": data}
        for data in SIGNS
    ),
    {"event": "worker_stopped", "scope": "worker:x"}, {"event": "worker_seen", "scope": "x"},
    *(
        {"event": event, "scope": scope, "data": data}
        for event, scope in (("queue_paused", "queue"), ("kind_held", "kind:"),
                             ("kind_held", "kind:demo.echo"), ("kind_unheld", "kind:A b"))
        for data in SWITCHES
    ),
    *(
        {"event": "minute_stats", "scope": "queue", "data": data}
        for data in MINUTES
    ),
    *(
        {"event": event, "scope": scope, "data": data}
        for event in ("op_planned", "op_batch", "op_stopped", "op_done")
        for scope, data in (("op:0123456789abcdef", None), ("op:0123456789abcdef", {}), ("", {}),
                            ("op:x", {"verb": "explode", "filter": 7}))
    ),
    *(
        {"event": event, "job_id": 1, "kind": kind, "data": data, "from_status": "x"}
        for event in ("claimed", "failed", "explode", "released", "enqueued")
        for kind, data in (("A b", None), ("demo.echo", {"attempts": "x", "run_ms": "long"}),
                           ("", {"available_at": "soon", "wait_ms": -1}))
    ),
]  # fmt: skip


@pytest.mark.postgresql("rows written past the verbs")
def test_odd_lines_of_the_ledger_break_no_page(
    app: Flask, client: FlaskClient, session: Session
) -> None:
    pages = every_page(app, session)
    session.add_all(JobEvent(actor="user:odd", **line) for line in ODD)
    session.commit()

    broken = {}
    for path in (*pages, "/api/verdict", "/api/events", "/metrics"):
        answer = client.get(path)
        if answer.status_code >= 500 or "an error of ours" in answer.text:
            broken[path] = answer.status_code
        answer.close()
    assert broken == {}


@pytest.mark.parametrize("data", MINUTES)
def test_a_line_without_what_a_minute_tells_takes_nothing_from_the_others(
    app: Flask, session: Session, data: Any
) -> None:
    scene = Scene(session)
    scene.worker()
    scene.minutes(3, upto=20, claimed=6, succeeded=6, run={"3": 6})
    running, due = scene.running(1), make_job(session)
    session.add(JobEvent(actor="user:odd", event="minute_stats", scope="queue", data=data))
    session.commit()

    look = judgement.look(app)
    now = look.verdict.as_of

    assert look.facts is not None
    assert look.facts.unread == ()
    assert look.facts.hour is not None
    assert sum(one.count(Status.SUCCEEDED) for one in look.facts.hour.minutes) == 18
    told = kinds.last_hour(session, now).of(ECHO)
    assert told is not None
    assert told.count(Status.SUCCEEDED) == 18
    assert drain.claims_per_s(session, now)
    for job in (running, due):
        assert why.why(session, job.id, job_timeout_s=60).sentence
    session.rollback()
    minute_stats.write(session, actor="housekeeping:a")
