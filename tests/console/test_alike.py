"""Jobs with the same payload: a link where an address can say what that is, and none elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy.orm import Session

from tests.applications import application
from tests.console.conftest import Console, job_ids
from tests.factories import make_job


def link(page: str) -> str | None:
    found = re.search(r'href="([^"]+)">same payload fields</a>', page)
    return html.unescape(found[1]) if found else None


@pytest.mark.parametrize(
    ("payload", "asked"),
    [
        ({"to": "a@b.c & <d>", "copies": 2}, {"to": "a@b.c & <d>", "copies": "2"}),
        ({"order": {"id": 7, "paid": True, "by": None}}, {"id": "7", "paid": "true", "by": "null"}),
        ({"n": 12345678901234567890123, "f": 1.50}, {"n": "12345678901234567890123", "f": "1.5"}),
        ({"text": "42", "ö": "ß%+#?&="}, {"text": "42", "ö": "ß%+#?&="}),
    ],
)
def test_jobs_with_the_same_payload_are_a_click_away(
    console: Console, session: Session, payload: dict[str, Any], asked: dict[str, str]
) -> None:
    alike = [make_job(session, payload=payload).id for _ in range(2)]
    make_job(session, payload={**payload, next(iter(payload)): "another"})
    make_job(session, payload=payload, kind="another.kind")
    session.commit()

    address = link(console.get(f"/jobs/{alike[0]}"))

    assert address is not None
    given = dict(parse_qsl(urlsplit(address).query))
    assert given.pop("kind") == "demo.echo"
    assert {name.rpartition(".")[2]: value for name, value in given.items()} == asked
    assert job_ids(console.get(address)) == alike[::-1]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"ids": [1]},
        {"a": {}},
        {"a": ""},
        {"a": " b"},
        {"a": '"b"'},
        {"a": "b" * 101},
        {"a.b": 1},
        {" a": 1},
        {"": 1},
        dict.fromkeys("abcdef", 1),
        {"a": "b\nc" * 1000},
        {"password": "p"},
        {"account": {"api_key": {"id": 1}}},
    ],
)
def test_what_no_address_can_say_has_no_such_link(
    console: Console, session: Session, payload: dict[str, Any]
) -> None:
    job = make_job(session, payload=payload)
    session.commit()

    page = console.get(f"/jobs/{job.id}")

    assert link(page) is None
    assert "same kind</a>" in page


def test_what_is_hidden_of_the_kind_stands_in_no_address(
    database_url: str, session: Session
) -> None:
    told, hidden = (
        make_job(session, kind=kind, payload={"who": {"name": "ana"}}).id
        for kind in ("a.told", "a.hidden")
    )
    session.commit()
    with application(database_url, QUEUE_REDACT="a.hidden:who.name") as app:
        console = Console(app.test_client())
        assert link(console.get(f"/jobs/{told}"))
        # Whoever reads this is an admin; the address may be sent to somebody else.
        assert link(console.get(f"/jobs/{hidden}")) is None
