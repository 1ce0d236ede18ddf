"""Holds on kinds: the walk along the queued line, batch after batch."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, holds, transitions
from queueapp.jobs.holds import Holds
from queueapp.jobs.models import Job
from queueapp.jobs.transitions import NewJob
from tests.jobs.explain import Prepared
from tests.jobs.filling import analyze, fill
from tests.scenes import ago

PLACE = ("priority", "available_at", "created_at", "id")
IN_ORDER = "ORDER BY priority DESC, available_at, created_at, id"


@pytest.mark.parametrize("scan", [1, 7, 10, 30])
def test_one_walk_along_the_line_looks_at_every_job_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, scan: int
) -> None:
    """Thirty jobs of three priorities, all due at one time; every other is of the kind on hold."""
    jobs = [
        NewJob(kind=("test.held", "demo.echo")[n % 2], payload={}, priority=n % 3)
        for n in range(30)
    ]
    transitions.enqueue(session, jobs, producer="app", actor="app", via="python")
    control.hold_kind(session, "test.held", actor="user:ana", reason="x")
    session.commit()
    monkeypatch.setattr(holds, "SCAN", scan)
    walk = Holds()

    for _ in range(-(-30 // scan)):
        walk.tick(session.connection(), control.in_force(session), ago(0), actor="test")

    found = session.execute(sa.text(f"SELECT kind, status FROM jobs {IN_ORDER}")).all()
    assert {tuple(row) for row in found} == {("test.held", "held"), ("demo.echo", "queued")}


def test_what_was_held_comes_back_spread_over_the_time_asked_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches, each over what is left of the time; one that is due later keeps its own."""
    monkeypatch.setattr(holds, "BATCH", 4)
    jobs = [NewJob(kind="test.held", payload={}) for _ in range(10)]
    jobs.append(NewJob(kind="test.held", payload={}, available_at=ago(-5_000)))
    made = transitions.enqueue(session, jobs, producer="app", actor="app", via="python")
    ids = [one.id for one in made]
    transitions.hold(session, ids, held_for="kind", actor="housekeeping:one")
    control.hold_kind(session, "test.held", actor="user:ana", reason="x")
    control.unhold_kind(session, "test.held", actor="user:ana", spread_s=600)
    # A minute of it is over.
    session.execute(
        sa.text("UPDATE job_events SET created_at = :at WHERE event = 'kind_unheld'"),
        {"at": ago(60)},
    )
    session.commit()

    Holds().tick(session.connection(), control.in_force(session), ago(0), actor="test")

    rows = session.execute(sa.select(Job.status, Job.available_at).order_by(Job.id)).all()
    assert {row.status for row in rows} == {"queued"}
    due = [(row.available_at - ago(0)).total_seconds() for row in rows]
    # Three batches, of four, four and three: each begins now and ends before the time does.
    assert due == pytest.approx([0, 135, 270, 405, 0, 135, 270, 405, 0, 180, 5_000], abs=20)


@pytest.mark.postgresql("plans")
@pytest.mark.parametrize("priority", ["0", "n / 30000"], ids=["one priority", "four"])
def test_a_batch_reads_the_same_wherever_the_walk_has_come_to(
    worker: sa.Connection, priority: str
) -> None:
    fill(worker, 100_000, priority=priority)
    analyze(worker)
    worker.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    terms: dict[str, Any] = {"kinds": ["nobody"], "scan": 1_000}
    nth = sa.text(f"SELECT {', '.join(PLACE)} FROM jobs {IN_ORDER} OFFSET :n LIMIT 1")
    far = worker.execute(nth, {"n": 80_000}).one()

    with Prepared(worker, "walk", holds._NEXT_QUEUED) as walk:
        first = walk.run(**terms, **dict(zip(PLACE, holds._START, strict=True)))
        later = walk.run(**terms, **far._mapping)

    assert later.reading <= 2 * first.reading
    for plan in (first, later):
        assert plan.indexes == {"ix_jobs_claim"}
        assert plan.scans("Seq Scan") == []
        assert plan.sorted_rows <= 1_000
