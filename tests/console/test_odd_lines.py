"""Lines of the ledger that no verb of ours writes break no page: they are shown, or left out."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.models import JobEvent
from tests.console.test_outage import every_page

ODD: dict[str, list[dict[str, Any]]] = {
    "signs": [
        {"event": "worker_seen", "scope": "worker:x", "data": data}
        for data in (None, {}, [], "text", {"slots": "many", "kinds": "a", "lease_s": None},
                     {"slots": -1, "kinds": [1, None], "release": {"a": 1}, "lost": "x"})
    ] + [{"event": "worker_seen", "scope": None}, {"event": "worker_stopped", "scope": "worker:x"}],
    "switches": [
        {"event": event, "scope": scope, "data": data}
        for event, scope in (("queue_paused", "queue"), ("kind_held", "kind:"),
                             ("kind_held", "kind:demo.echo"), ("kind_unheld", "kind:A b"))
        for data in (None, {}, {"until": "never", "spread_s": "x"}, {"until": 5}, [])
    ],
    "minutes": [
        {"event": "minute_stats", "scope": "queue", "data": data}
        for data in ({}, {"xid": "1", "id": 1, "kinds": {}}, {"kinds": {"a.b": {}}, "all": {}},
                     {"kinds": None, "all": None, "totals": None, "since": None})
    ],
    "operations": [
        {"event": event, "scope": scope, "data": data}
        for event in ("op_planned", "op_batch", "op_stopped", "op_done")
        for scope, data in (("op:0123456789abcdef", None), ("op:0123456789abcdef", {}), (None, {}),
                            ("op:x", {"verb": "explode", "filter": 7}))
    ],
    "jobs": [
        {"event": event, "job_id": 1, "kind": kind, "data": data, "from_status": "x"}
        for event in ("claimed", "failed", "explode", "released", "enqueued")
        for kind, data in ((None, None), ("demo.echo", {"attempts": "x", "run_ms": "long"}),
                           ("", {"available_at": "soon", "wait_ms": -1}))
    ],
}  # fmt: skip


@pytest.mark.postgresql("rows written past the verbs")
@pytest.mark.parametrize("lines", ODD.values(), ids=ODD)
def test_odd_lines_of_the_ledger_break_no_page(
    app: Flask, client: FlaskClient, session: Session, lines: list[dict[str, Any]]
) -> None:
    pages = every_page(app, session)
    session.add_all(JobEvent(actor="user:odd", **line) for line in lines)
    session.commit()

    answers = {path: client.get(path) for path in (*pages, "/api/verdict", "/api/events")}

    broken = {path: answer.status_code for path, answer in answers.items()
              if answer.status_code >= 500}  # fmt: skip
    assert broken == {}
    assert "an error of ours" not in answers["/"].text
