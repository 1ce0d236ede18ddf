"""Lines of the ledger that no release of ours has written break no page."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.models import JobEvent
from tests.console.test_outage import every_page

SIGNS: list[Any] = [
    None, {}, [], "text", {"slots": "many", "kinds": "a", "lease_s": None},
    {"slots": -1, "kinds": [1, None], "release": {"a": 1}, "lost": "x"},
]  # fmt: skip
SWITCHES: list[Any] = [None, {}, {"until": "never", "spread_s": "x"}, {"until": 5}, []]
MINUTES: list[Any] = [
    {}, {"xid": "1", "id": 1, "kinds": {}}, {"kinds": {"a.b": {}}, "all": {}},
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
