"""What a claim costs: measured without claiming, told in each line of the statistics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import minute_stats
from queueapp.jobs.models import JobEvent
from queueapp.jobs.system import claim_cost
from queueapp.jobs.system.told import Asked, Tone
from tests.factories import make_job
from tests.jobs.filling import fill

pytestmark = pytest.mark.postgresql("buffers")


@pytest.fixture
def old_snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(sa.text("SELECT count(*) FROM jobs"))
        yield connection


@pytest.fixture(autouse=True)
def first_line(session: Session) -> None:
    """The very first line counts nothing: it is where the next one goes on from."""
    minute_stats.write(session, actor="housekeeping:test")
    session.commit()


def write_line(session: Session, *, jobs: int = 1) -> JobEvent:
    """One more line of the statistics, as if it were the next minute's, in which jobs came."""
    for _ in range(jobs):
        make_job(session)
    session.commit()
    age = "UPDATE job_events SET created_at = created_at - interval '2 min' WHERE event = :e"
    session.execute(sa.text(age), {"e": "minute_stats"})
    minute_stats.write(session, actor="housekeeping:test")
    session.commit()
    newest = sa.select(JobEvent).where(JobEvent.event == "minute_stats").order_by(JobEvent.id)
    return session.scalars(newest).all()[-1]


def test_the_cost_rises_with_the_dead_before_the_head_and_is_told(
    session: Session, worker: sa.Connection, old_snapshot: sa.Connection
) -> None:
    few = [write_line(session).data["claim"]["pages"] for _ in range(3)]
    before = claim_cost.claim_cost(session, Asked())

    fill(worker, 20_000, priority="5")
    worker.execute(sa.text("DELETE FROM jobs WHERE priority = 5"))
    many = claim_cost.claim_cost(session, Asked())

    assert max(few) < 30
    assert before.tone is Tone.OK
    assert many.tone is Tone.CAREFUL
    assert "usually" in many.sentence
    assert many.command == "VACUUM jobs;"
    assert many.table
    assert many.table.rows[0][1:] == (str(max(few)), "3")
    # Nothing was claimed, by whichever measure.
    assert session.scalar(sa.text("SELECT count(*) FROM jobs WHERE status = 'running'")) == 0


def test_a_measure_that_takes_too_long_leaves_the_line_and_its_transaction_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_cost, "LONGEST", "10ms")
    slow = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT pg_sleep(5)"
    monkeypatch.setattr(claim_cost, "PROBE", slow)
    timeout = session.scalar(sa.text("SHOW statement_timeout"))

    assert claim_cost.measured(session) == {"timed_out": True}
    assert session.scalar(sa.text("SHOW statement_timeout")) == timeout
    assert write_line(session).data["claim"] == {"timed_out": True}


def test_a_minute_in_which_no_job_moves_measures_nothing(session: Session) -> None:
    """An idle worker asks little."""
    assert write_line(session, jobs=0).data["claim"] is None
