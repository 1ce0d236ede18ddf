"""What an address asks of a list that has no such filter is said, and never passed over."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.factories import make_job

LISTS = ("/operations", "/errors", "/kinds", "/workers", "/events", "/audit", "/jobs")


@pytest.mark.parametrize("path", LISTS)
def test_a_filter_that_there_is_none_is_said_and_nothing_is_shown(
    console: Console, session: Session, path: str
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    assert 'id="problems"' not in console.get(f"{path}?done=pause&refresh=5")

    page = console.get(f"{path}?colour=red")

    assert "There is no filter “colour”." in words(page)
    assert "demo.echo" not in words(page).partition("There is no filter")[2]
    assert f'href="{path}"' in page.partition('id="problems"')[2]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/errors?kind=a&kind=b", "Only one kind can be asked for, not “a” and “b”."),
        ("/errors?kind=&since=-2h", "There is no filter “since”."),
        ("/events?after=5", "There is no filter “after”."),
        ("/kinds?before=5", "There is no filter “before”."),
        ("/events?before=1", "“1” is no place in this list"),
        ("/operations?before=1", "“1” is no place in this list"),
    ],
)
def test_nothing_that_was_asked_for_is_dropped_without_a_word(
    console: Console, path: str, said: str
) -> None:
    assert said in words(console.get(path))
