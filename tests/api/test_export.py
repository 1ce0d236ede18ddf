"""Exports: the whole list, a page at a time, and no text that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.api import describe, export
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter, candidates, listing
from queueapp.jobs.status import Status
from queueapp.redaction import Redaction
from tests.api.conftest import Api, body, problem
from tests.console.hostile import make_hostile_jobs
from tests.factories import make_job
from tests.jobs.plans import statements_of

FORMS = ("ndjson", "csv")


def lines(client: FlaskClient, query: str = "") -> list[dict[str, Any]]:
    with closing(client.get(f"/api/jobs.ndjson{query}")) as answer:
        assert answer.status_code == 200
        return [json.loads(line) for line in answer.text.split("\n")[:-1]]


def table(client: FlaskClient, query: str = "") -> list[dict[str, str]]:
    with closing(client.get(f"/api/jobs.csv{query}")) as answer:
        assert answer.status_code == 200
        return list(csv.DictReader(io.StringIO(answer.text, newline="")))


@pytest.fixture
def seven(session: Session) -> list[int]:
    made = [make_job(session, Status.FAILED).id for _ in range(7)]
    session.commit()
    return made[::-1]


def test_an_export_has_what_the_list_has(client: FlaskClient, api: Api, seven: list[int]) -> None:
    api.make()
    listed = body(api.get("?status=failed"))["items"]

    assert lines(client, "?status=failed") == listed
    found = table(client, "?status=failed")
    assert list(found[0]) == list(describe.LISTED)
    for cells, job in zip(found, listed, strict=True):
        assert cells == {name: "" if it is None else str(it) for name, it in job.items()}


def test_an_export_of_nothing_has_no_jobs(client: FlaskClient) -> None:
    assert lines(client) == []
    with closing(client.get("/api/jobs.csv?fields=id,kind")) as answer:
        assert answer.data == b'"id","kind"\r\n'
        assert answer.content_type == "text/csv; charset=utf-8; header=present"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="jobs.csv"'


@pytest.mark.parametrize("form", FORMS)
def test_an_export_is_read_a_page_at_a_time_and_keeps_no_connection(
    client: FlaskClient, app: Flask, seven: list[int], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from queueapp.extensions import db

    monkeypatch.setattr(export, "PAGE", 2)
    with app.app_context():
        engine = db.engine
    with (
        statements_of(engine) as sent,
        closing(client.get(f"/api/jobs.{form}?fields=id&status=failed")) as answer,
    ):
        met = list(_pages_met(answer.response, sent, engine))

    # After each page no more has been read than that, and no more is in memory.
    assert [read for read, _ in met] == [1, 2, 3, 4]
    assert [text.count("\n") for _, text in met] == [2, 2, 2, 1]
    found = [int(number) for _, text in met for number in re.findall(r"\d+", text)]
    assert found == seven


def _pages_met(chunks: Any, sent: list[Any], engine: sa.Engine) -> Iterator[tuple[int, str]]:
    """Each piece, with how many pages have been read by then."""
    for chunk in chunks:
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        text = chunk.decode()
        if text not in ("", '"id"\r\n'):
            yield sum("ORDER BY jobs.id DESC" in statement for statement, _ in sent), text


def test_a_page_of_bodies_is_a_short_one(
    client: FlaskClient, app: Flask, seven: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from queueapp.extensions import db

    monkeypatch.setattr(export, "MOST_WITH_BODIES", 3)
    with app.app_context():
        pages = list(export.pages_of(db.engine, JobFilter(), ("payload",), Redaction()))

    assert [len(page) for page in pages] == [3, 3, 1]
    assert len(table(client, "?fields=payload,id")) == 7


def test_windows_without_a_match_do_not_end_an_export(
    client: FlaskClient, seven: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 2)

    assert lines(client, "?priority=7&fields=id") == []
    assert [job["id"] for job in lines(client, "?kind=demo.echo&fields=id")] == seven
    assert len(table(client, "?kind=demo.echo&fields=id")) == 7


@pytest.mark.parametrize(("most", "looks"), [(2, 1), (100, 4)], ids=["long", "short"])
def test_an_index_that_names_too_many_jobs_is_asked_once(
    client: FlaskClient,
    app: Flask,
    seven: list[int],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    looks: int,
) -> None:
    from queueapp.extensions import db

    for module in (candidates, listing):
        monkeypatch.setattr(module, "SCAN_LIMIT", most)
    monkeypatch.setattr(export, "PAGE", 2)
    with app.app_context():
        engine = db.engine
    with statements_of(engine) as sent:
        assert [job["id"] for job in lines(client, "?status=failed")] == seven

    assert sum("ORDER BY finished_at" in statement for statement, _ in sent) == looks


FORMULAS = (
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\uff1d1", "\uff0b1",
    "\uff0d1", "\uff20x", "=cmd|' /C calc'!A0", "\x1b=1",
)  # fmt: skip
PLAIN = ("a=1", "1", "a;=1", 'say "=1"', "it's", "'=1", "", " ", "é", "a\nb", "a\u2028b\x85c")


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN], ids=repr)
def test_no_cell_is_a_formula_and_no_text_is_lost(
    client: FlaskClient, session: Session, text: str
) -> None:
    job = make_job(session, priority=-5)
    session.execute(sa.update(Job).values(progress_note=text, producer=text))
    session.commit()

    [cells] = table(client, "?fields=progress_note,priority,id,producer")
    assert cells["progress_note"] == cells["producer"] == (f"'{text}" if text in FORMULAS else text)
    assert (cells["priority"], cells["id"]) == ("-5", str(job.id))
    with closing(client.get("/api/jobs.ndjson?fields=progress_note")) as answer:
        [line] = answer.text.splitlines()
    assert json.loads(line) == {"progress_note": text}


def test_hostile_jobs_are_exported_as_they_are(client: FlaskClient, session: Session) -> None:
    made = make_hostile_jobs(session)
    everything = f"?fields={','.join(describe.WHOLE)}"

    found = lines(client, everything)
    assert [job["id"] for job in found] == made[::-1]
    assert table(client, everything)[0]["payload"] == json.dumps(
        found[0]["payload"], ensure_ascii=False
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("fields=nope", (422, "invalid_request")), ("status=nope", (400, "bad_request")),
        ("limit=5", (400, "bad_request")), ("before=5", (400, "bad_request")),
    ],
)  # fmt: skip
def test_a_bad_query_is_refused(
    client: FlaskClient, form: str, query: str, refused: tuple[int, str]
) -> None:
    assert problem(client.get(f"/api/jobs.{form}?{query}")) == refused


def test_an_export_takes_a_place_until_it_ends_or_its_reader_leaves(
    client: FlaskClient, app: Flask, seven: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = threading.BoundedSemaphore(1)
    monkeypatch.setitem(app.extensions, "queue_waiters", places)
    monkeypatch.setattr(export, "PAGE", 2)

    first = client.get("/api/jobs.ndjson")
    next(iter(first.response))
    assert problem(client.get("/api/jobs.csv")) == (503, "too_many_waiters")
    first.close()
    assert len(lines(client)) == 7  # read to its end, and closed
    unread = client.get("/api/jobs.csv")
    unread.close()
    assert client.get("/api/jobs.csv?fields=nope").status_code == 422
    ended = client.get("/api/jobs.csv")
    list(ended.response)  # as a server does that forgets to close

    assert places.acquire(blocking=False)


def test_a_reader_that_stands_still_loses_its_place(
    client: FlaskClient, app: Flask, seven: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = threading.BoundedSemaphore(1)
    monkeypatch.setitem(app.extensions, "queue_waiters", places)
    monkeypatch.setattr(export, "STANDSTILL_S", 0.1)
    ours, theirs = socket.socketpair()

    with ours, theirs:
        answer = client.get("/api/jobs.ndjson", environ_overrides={"gunicorn.socket": ours})
        # As the server sends, to somebody whose buffers are full.
        with closing(answer), pytest.raises(TimeoutError):
            ours.sendall("".join(map(str, answer.response)).encode() * 1000)

    assert places.acquire(blocking=False)


def test_what_the_database_refuses_is_a_refusal_at_first_and_an_end_without_end_later(
    client: FlaskClient,
    seven: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from queueapp.error_handlers.streams import BrokenOff
    from queueapp.errors import DatabaseUnavailable
    from queueapp.jobs import queries

    monkeypatch.setattr(export, "PAGE", 2)
    whole, pages = queries.list_jobs, iter([True, False])

    def failing(*args: Any, **more: Any) -> Any:
        if next(pages, False):
            return whole(*args, **more)
        raise DatabaseUnavailable("gone", retry_after=1)

    monkeypatch.setattr(queries, "list_jobs", failing)

    with closing(client.get("/api/jobs.ndjson")) as answer, pytest.raises(BrokenOff):
        list(answer.response)
    assert answer.headers["X-Request-Id"] in caplog.text
    assert problem(client.get("/api/jobs.ndjson")) == (503, "database_unavailable")
    monkeypatch.setattr(queries, "list_jobs", whole)
    assert len(lines(client)) == 7  # no place was lost
