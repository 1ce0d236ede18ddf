"""What is read once for all who ask: in which session, and what is said where there is nothing."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.errors import DatabaseUnavailable
from queueapp.shared import Snapshot
from queueapp.shared_readings import present, share_bounded


@pytest.mark.postgresql("SQLite bounds no statement")
def test_a_shared_session_bounds_what_is_read_in_it(app: Flask) -> None:
    def statement_timeout(session: Session) -> str:
        return str(session.scalar(sa.text("SHOW statement_timeout")))

    assert share_bounded(app, statement_timeout).get().value == "2s"


def test_a_reading_of_now_is_given_and_one_that_is_not_says_why() -> None:
    assert present(Snapshot(7, age_s=1.0)) == 7
    with pytest.raises(DatabaseUnavailable, match="it is away; try again"):
        present(Snapshot(7, age_s=3600.0, failure="it is away"))
