"""Whatever a producer, a handler or a worker has stored stays text on every page."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask.testing import FlaskClient
from sqlalchemy import update
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from tests.console.conftest import Console, words
from tests.console.hostile import HIDDEN, MARK, TEXT, make_hostile_jobs


def test_stored_text_is_escaped_on_every_page(console: Console, session: Session) -> None:
    for path in _paths(make_hostile_jobs(session)):
        _assert_inert(console.get(path), path)


def test_stored_text_is_shown_as_it_is(console: Console, session: Session) -> None:
    [job_id, *_] = make_hostile_jobs(session)

    shown = words(console.get(f"/jobs/{job_id}"))

    # Once as message and as progress note; within JSON its quotes are escaped.
    text = re.sub(f"[{HIDDEN}]", lambda found: f"\\u{ord(found[0]):04x}", TEXT)
    assert "\\u202eyenom" in text
    assert shown.count(" ".join(text.split())) >= 2


def test_stored_text_is_escaped_on_the_pages_of_a_cause(console: Console, session: Session) -> None:
    """The fingerprint is the worker's own, all else is not."""
    make_hostile_jobs(session)
    session.execute(update(Job).values(error_fingerprint="0123456789abcdef"))
    session.commit()
    plan = {"verb": "canary", "reason": TEXT}
    made = console.post("/errors/0123456789abcdef", **plan)

    for path in ("/errors", "/errors/0123456789abcdef", str(made.location), "/operations"):
        _assert_inert(console.get(path), path)
        console.post(f"{made.location}/apply")


def test_text_in_the_address_is_escaped(client: FlaskClient) -> None:
    fields = {
        "/": ("done", "next", "a<b>"),
        "/jobs": ("status", "kind", "priority", "key", "done", "a<b>"),
        "/jobs/bulk": ("next", "id"),
        "/jobs/1/cancel": ("next",),
        "/operations/new": ("status", "kind", "a<b>"),
        "/events": ("event", "job", "kind", "actor", "before"),
        "/errors": ("kind",),
        "/audit": ("actor", "verb", "since", "until", "before", "a<b>"),
        "/operations": ("before",),
        "/kinds/demo.echo/hold": ("next", "spread"),
        "/workers/release": ("worker", "next"),
        "/go": ("q",),
    }
    for path, names in fields.items():
        for name in names:
            answer = client.get(path, query_string={name: TEXT, "verb": "retry"})
            _assert_inert(answer.text, f"{path} {name}")
    for path in (f"/workers/{quote(TEXT)}", f"/kinds/{quote(TEXT, safe='')}", f"/{quote(TEXT)}"):
        _assert_inert(client.get(path).text, path)
    _assert_inert(client.post("/settings", data={"zone": TEXT}).text, "/settings")


def _paths(ids: list[int]) -> list[str]:
    many = "&".join(f"id={job_id}" for job_id in ids)
    alone = [f"/jobs/{job_id}" for job_id in ids]
    return [
        "/",
        "/jobs",
        "/errors",
        "/events",
        "/audit",
        "/kinds",
        "/workers",
        "/operations",
        "/system",
        *alone,
        *(f"{path}/{verb}" for path in alone for verb in ("retry", "cancel")),
        f"/jobs/bulk?verb=cancel&{many}",
        *(f"/events?job={job_id}" for job_id in ids),
    ]


def _assert_inert(page: str, where: str) -> None:
    for raw in (f"<script>{MARK}", "<img src=x", "<div hx-get='", "<svg onload", f"'/{MARK}'"):
        assert raw not in page, f"{raw} on {where}"
    assert f'href="javascript:{MARK}' not in page, where
    assert "49{%" not in page, where
    # What a form sends back is as it was asked for.
    shown = re.sub(' value="[^"]*"', "", page)
    found = re.search(f".{{0,80}}[{HIDDEN}].{{0,40}}", shown)
    assert found is None, f"{found[0]!a} on {where}"
