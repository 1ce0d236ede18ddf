"""After one's own act every page is of now, whichever of several web processes answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console import anew
from queueapp.shared import Shared
from tests.applications import application
from tests.console.conftest import PANEL, words
from tests.factories import make_job


@pytest.fixture
def other(session: Session, database_url: str) -> Iterator[FlaskClient]:
    """A second web process, which has read everything a moment ago."""
    make_job(session)
    session.commit()
    with application(database_url) as app:
        for name in anew._SHARED:
            app.extensions[name].life_s = 600.0
        client = app.test_client()
        for path in ("/", "/kinds", "/kinds/demo.echo"):
            assert client.get(path).status_code == 200
        yield client


@pytest.mark.parametrize(
    ("path", "form", "before", "after"),
    [
        ("/pause", {"reason": "migration"}, "Nothing is paused or on hold", "paused by user:local"),
        (
            "/kinds/demo.echo/hold",
            {"reason": "down"},
            "demo.echo Hold Return",
            "On hold by user:local",
        ),
    ],
)
def test_the_page_after_an_act_shows_it_in_another_process_too(
    client: FlaskClient,
    other: FlaskClient,
    path: str,
    form: dict[str, Any],
    before: str,
    after: str,
) -> None:
    question = client.get(path).text
    seen = question.partition('name="seen" value="')[2].partition('"')[0]
    landed = client.post(path, data={**form, "seen": seen}).location
    assert landed is not None
    stale = words(other.get(landed.partition("?")[0]).text)

    page = words(other.get(landed).text)

    assert before in stale
    assert before not in page
    assert after.lower() in page.lower()


def test_what_the_script_asks_for_after_an_act_is_read_anew(
    client: FlaskClient, other: FlaskClient
) -> None:
    seen = client.get("/pause").text.partition('name="seen" value="')[2].partition('"')[0]
    client.post("/pause", data={"reason": "migration", "seen": seen})

    polled = other.get("/", headers={**PANEL, "Queue-Timer": "1"}).text
    acted = other.get("/", headers={**PANEL, anew.HEADER: "1"}).text

    assert "Nothing is paused or on hold" in words(polled)
    assert "Nothing is paused or on hold" not in words(acted)


def test_all_that_tabs_share_is_read_anew(client: FlaskClient) -> None:
    extensions = client.application.extensions
    shared = {name for name, held in extensions.items() if isinstance(held, Shared)}

    # What programs ask for is of its own time.
    assert shared - {*anew._SHARED} == {"queue_metrics"}
