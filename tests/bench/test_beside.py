"""The claims that are measured beside a console are real ones, and leave nothing behind."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from bench import beside
from queueapp.jobs.models import Job, JobEvent
from tests.factories import make_job

pytestmark = pytest.mark.postgresql("a claimer on a connection of its own")


def test_every_turn_claims_and_settles_and_all_of_it_is_taken_away(
    engine: sa.Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "PACE_S", 0.0)
    other = make_job(session)
    session.commit()
    ids = beside.enqueue(engine, 20)

    assert len(beside.drain(engine, 3)) == 3

    statuses = session.scalars(sa.select(Job.status).where(Job.id.in_(ids)))
    counted = sorted(statuses)
    assert counted == ["queued"] * 8 + ["running"] * 4 + ["succeeded"] * 8
    session.rollback()
    beside.remove(engine, ids)
    assert session.scalars(sa.select(Job.id)).all() == [other.id]
    assert set(session.scalars(sa.select(JobEvent.job_id))) == {other.id}
