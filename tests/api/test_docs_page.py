"""The page of the documentation: everything is on it, and its commands do what it says."""

from __future__ import annotations

import html
import json
import re
import shlex
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from queueapp.api.answers import JobSummary
from queueapp.api.contract import Operation, operations
from queueapp.api.list_schemas import JobsQuery
from queueapp.api.schemas import JobBody
from queueapp.jobs import control
from queueapp.jobs.status import Event, Status
from tests.api.conftest import Api, body
from tests.factories import make_job

# A newcomer's job is not in every status at once.
NEEDS = {
    "jobs_hold": Status.QUEUED,
    "jobs_unhold": Status.HELD,
    "jobs_reschedule": Status.QUEUED,
    "jobs_run_now": Status.QUEUED,
    "jobs_release": Status.RUNNING,
    "jobs_purge": Status.SUCCEEDED,
}
EXAMPLE = re.compile(r'data-example="(\w+)">(.*?)</pre>', re.DOTALL)


@pytest.fixture
def docs(client: FlaskClient) -> str:
    answer = client.get("/api/docs/")
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    return answer.text


def examples(text: str) -> list[tuple[str, str]]:
    return [(name, html.unescape(command)) for name, command in EXAMPLE.findall(text)]


def run(client: FlaskClient, command: str, headers: dict[str, str] | None = None) -> TestResponse:
    """Do what curl would do with ``command``."""
    words = shlex.split(command.replace("\\\n", ""))
    assert words.pop(0) == "curl"
    method, data, address = None, None, ""
    sent = dict(headers or {})
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            sent[name] = value
        elif word in ("-d", "--data-binary"):
            data = words.pop(0)
        else:
            assert not word.startswith("-"), word
            address = word
    path = address.removeprefix("http://localhost")
    assert path.startswith("/")
    method = method or ("POST" if data else "GET")
    return client.open(path, method=method, headers=sent, data=data, buffered=True)


def test_every_example_does_what_the_page_says(
    app: Flask, api: Api, client: FlaskClient, session: Session, docs: str
) -> None:
    job = api.make()
    others = {name: make_job(session, status) for name, status in NEEDS.items()}
    worker = "worker:web-1:4711:9f3a1c"
    control.record(session, Event.WORKER_SEEN, scope=worker, actor=worker, data={"slots": 1})
    session.commit()
    lease: dict[str, Any] = {}
    done: list[tuple[str, str]] = []
    found = examples(docs)
    declared: dict[str, Operation] = {one.name: one for one in operations(app)}
    assert {name for name, _ in found} == set(declared) - {"openapi_openapi", "docs_page"}
    operation = "5f0c2a9d83b1e647"
    for name, command in found:
        command = command.replace("5f0c2a9d83b1e647", operation)
        # The number on the page is that of a newcomer's first job.
        number = others[name].id if name in others else job["id"]
        command = command.replace("/api/jobs/1", f"/api/jobs/{number}")
        if name == "jobs_release":
            seen = body(api.get(f"/{number}"))["claimed_at"]
            command = command.replace("2030-01-31T08:00:00.000000Z", seen)
        if name == "operations_undo":
            command = command.replace(operation, cancelled(client, session))
        if lease:
            command = command.replace('"id": 1,', f'"id": {lease["id"]},')
            command = command.replace("0b2d0ac6-0a5c-4c4e-9c2f-3a4d5e6f7a8b", lease["token"])

        answer = run(client, command)

        assert answer.status_code in declared[name].contract.answers, (command, answer.text)
        if "atomic=false" in command:
            assert body(answer)["counts"] == {"new": 1, "replay": 0, "conflict": 0, "invalid": 1}
        if name == "operations_plan":
            operation = body(answer)["id"]
        if name == "leases_lease":
            [lease] = body(answer)["items"]
        elif name.startswith("leases_"):
            done += [(name, one["outcome"]) for one in body(answer)["items"]]
    # The example of a failure comes after that of a success.
    assert done == [
        ("leases_progress", "accepted"), ("leases_renew", "renewed"),
        ("leases_settle", "accepted"), ("leases_settle", "repeat"),
    ]  # fmt: skip


def cancelled(client: FlaskClient, session: Session) -> str:
    """An operation that there is a way back from: that of the page is a retry."""
    make_job(session, kind="a.b")
    session.commit()
    asked = {"verb": "cancel", "filter": {"kind": "a.b"}, "reason": "r"}
    made: str = body(client.post("/api/operations", json=asked))["id"]
    client.post(f"/api/operations/{made}/apply")
    return made


def test_every_operation_field_parameter_and_code_is_on_it(app: Flask, docs: str) -> None:
    for one in operations(app):
        assert f'id="{one.name}"' in docs
        for error in one.refuses:
            assert f'<tr id="{error.code}">' in docs
        for header in (
            *one.contract.takes,
            *(h for a in one.contract.answers.values() for h in a.headers),
        ):
            assert f"<code>{header.name}</code>" in docs
    for name in (*JobBody.model_fields, *JobsQuery.model_fields, *JobSummary.model_fields):
        assert f"<code>{name}</code>" in docs


def test_it_says_what_must_be_sent(docs: str) -> None:
    article = docs.partition('id="jobs_create"')[2].partition("</article>")[0]
    rows = re.findall(r"<code>(\w+)</code></th>\s*<td>(.*?)</td>", article, re.DOTALL)
    assert [name for name, told in rows if "required" in told] == ["kind"]
    # What is sent within a list stands among the objects; what is answered is always there.
    objects = docs.partition('id="objects"')[2]
    assert {"Succeed", "Fail"} <= {
        part.partition('"')[0] for part in objects.split('<article class="block" id="')[1:]
        if "required" in part
    }  # fmt: skip
    assert "required" not in objects.partition('id="Job"')[2].partition("</article>")[0]


def test_every_link_within_it_leads_somewhere(docs: str) -> None:
    ids = re.findall(r' id="([^"]+)"', docs)

    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', docs)) <= set(ids)


def test_the_type_of_a_refusal_leads_to_it(client: FlaskClient, docs: str) -> None:
    place = body(client.get("/api/jobs/7"))["type"]

    assert place.startswith("/api/docs/#")
    assert f'id="{place.partition("#")[2]}"' in docs


def test_with_tokens_the_commands_send_one(fresh_app: Flask) -> None:
    from queueapp.auth.tokens import read_tokens

    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # "secret"
    fresh_app.extensions["queue_tokens"] = read_tokens(f"shop:admin:{digest}")
    client = fresh_app.test_client()

    text = client.get("/api/docs/").text
    _, command = examples(text)[0]

    assert 'Authorization: Bearer $TOKEN"' in command
    assert run(client, command).status_code == 401
    assert run(client, command.replace("$TOKEN", "secret")).status_code == 201
    document = body(client.get("/api/openapi.json"))
    assert document["paths"]["/api/jobs"]["get"]["security"] == [{"token": []}]
    assert "security" not in document["paths"]["/healthz"]["get"]


@pytest.mark.parametrize("host", ["x'; rm -rf ~ #", "<b>.example", "a b", "$(id)", "", "::1"])
def test_a_host_that_is_none_is_in_no_command(client: FlaskClient, host: str) -> None:
    text = client.get("/api/docs/", environ_overrides={"HTTP_HOST": host}).text

    for _, command in examples(text):
        assert "http://127.0.0.1:8000/" in command
    assert "<b>.example" not in text


def test_the_commands_name_the_address_that_was_opened(client: FlaskClient) -> None:
    text = client.get("/api/docs/", environ_overrides={"HTTP_HOST": "queue.example.com"}).text

    assert "http://queue.example.com/api/jobs" in examples(text)[0][1]


def test_it_needs_no_script(docs: str) -> None:
    assert len(re.findall("<script", docs)) == 3
    assert " style=" not in docs
    assert "<style" not in docs
    assert not re.search(r"\son\w+=", docs)
    for _, command in examples(docs):
        assert json.dumps(command)


def test_what_a_request_must_have_is_marked(docs: str) -> None:
    def is_marked(of: str, name: str) -> bool:
        table = docs[docs.index(f'hidden">{of}</caption>') :]
        row = table[table.index(f"<code>{name}</code>") :]
        return "<b>required</b>" in row[: row.index("</tr>")]

    assert is_marked("Body of POST /api/jobs", "kind")
    assert not is_marked("Body of POST /api/jobs", "payload")
    assert is_marked("Body of POST /api/leases", "kinds")
    assert is_marked("Body of POST /api/operations", "reason")
    assert is_marked("Defer", "delay")
    assert is_marked("address of GET /api/jobs/{job_id}", "job_id")
    # An answer asks nothing of its reader.
    assert not is_marked("Job", "id")
