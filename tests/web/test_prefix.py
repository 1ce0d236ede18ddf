"""Under a path of a larger site: every address has the prefix, and nothing leads out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash

from queueapp import create_app
from queueapp.errors import SettingError
from tests.applications import application

HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")


@pytest.fixture
def below(database_url: str) -> Iterator[FlaskClient]:
    """The application of a site that gives it ``/ops/queue``."""
    settings = {"QUEUE_PREFIX": "/ops/queue/", "QUEUE_USERS": f"ana:operator:{HASH}"}
    with application(database_url, **settings) as app:
        yield app.test_client()


def test_a_proxy_may_pass_the_prefix_on_or_take_it_off(below: FlaskClient) -> None:
    for path in ("/ops/queue", "/ops/queue/", "/", "/ops/queue/jobs?status=failed"):
        answer = below.get(path)
        assert answer.status_code == 303
        assert str(answer.location).startswith("/ops/queue/login?next=/ops/queue/")
    for path in ("/ops/queue/healthz", "/healthz"):
        assert below.get(path).status_code == 200
    assert below.get("/ops/queues/healthz").status_code == 404


def test_who_signs_in_comes_back_and_every_address_has_the_prefix(below: FlaskClient) -> None:
    form = {"name": "ana", "password": "correct horse battery", "next": "/ops/queue/jobs"}
    came = below.post("/ops/queue/login", data=form)
    page = below.get("/ops/queue/jobs")
    made = below.post("/ops/queue/api/jobs", json={"kind": "demo.echo"})

    assert came.location == "/ops/queue/jobs"
    assert page.status_code == 200
    found = re.findall(r'(?:href|src|action|hx-get|hx-post)="(/[^"]*)"', page.text)
    assert found
    assert [url for url in found if not url.startswith("/ops/queue/")] == []
    assert made.status_code == 201
    assert str(made.headers["Location"]).startswith("/ops/queue/api/jobs/")
    style = below.get(next(url for url in found if ".css" in url))
    assert style.status_code == 200
    style.close()


def test_what_the_api_says_of_itself_has_the_prefix(below: FlaskClient) -> None:
    refused, described = (
        below.get("/ops/queue/api/jobs/0"),
        below.get("/ops/queue/api/openapi.json"),
    )

    place = refused.get_json()["type"].partition("#")[0]
    assert place == "/ops/queue/api/docs/"
    assert below.get(place).status_code == 200
    assert described.get_json()["servers"] == [{"url": "/ops/queue"}]


@pytest.mark.parametrize("prefix", ["queue", "/a b", "/../x", "/a//b", "/jobs", "/api/queue"])
def test_a_prefix_that_cannot_be_is_refused(prefix: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_PREFIX"):
        create_app({"DATABASE_URL": "postgresql://h/d", "TESTING": True, "QUEUE_PREFIX": prefix})


def test_the_jump_box_takes_addresses_with_and_without_the_prefix(below: FlaskClient) -> None:
    form = {"name": "ana", "password": "correct horse battery", "next": "/ops/queue/jobs"}
    below.post("/ops/queue/login", data=form)
    whole = "http://localhost/ops/queue"

    for asked, address in {
        "/": "/",
        "/jobs?status=failed": "/jobs?status=failed",
        "/ops/queue/kinds": "/kinds",
        f"{whole}/jobs?kind=a.b": "/jobs?kind=a.b",
        f"{whole.replace('http', 'https')}/workers": "/workers",
        "http://localhost/workers": "/workers",
    }.items():
        answer = below.get("/ops/queue/go", query_string={"q": asked})
        assert (answer.status_code, answer.location) == (302, f"/ops/queue{address}"), asked
    for asked in ("/ops/queues/jobs", "/nowhere", "http://elsewhere/ops/queue/jobs"):
        assert below.get("/ops/queue/go", query_string={"q": asked}).status_code == 404, asked
