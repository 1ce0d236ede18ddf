"""A small part of much is something: no page and no sentence rounds it to nothing."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from queueapp.jobs.verdict.words import percent
from tests.console.conftest import Console, words
from tests.factories import make_job

RARE, COMMON = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize(
    ("part", "of", "said"),
    [(0, 647, "0 %"), (3, 647, "<1 %"), (4, 647, "1 %"), (647, 647, "100 %"), (0, 0, "0 %")],
)
def test_a_share_in_a_sentence(part: int, of: int, said: str) -> None:
    assert percent(part, of) == said


def test_the_page_of_a_rare_cause(console: Console, session: Session) -> None:
    for fingerprint in (RARE, *[COMMON] * 209):
        error = {"error_class": "KeyError", "error_fingerprint": fingerprint}
        make_job(session, Status.FAILED, **error)
    session.commit()

    assert "<1 % of the newest 210 failures" in words(console.get(f"/errors/{RARE}"))
    assert "100 % of the newest 210 failures" in words(console.get(f"/errors/{COMMON}"))
