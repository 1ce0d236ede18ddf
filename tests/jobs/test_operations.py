"""What an operation reads: as much as its batch, however long the ledger and the table are."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.operations import driver, state
from queueapp.jobs.queries import JobFilter, PayloadField, Span, View, bound_reads
from queueapp.jobs.status import Status
from tests.jobs.explain import Prepared
from tests.jobs.filling import FINISHED, fill
from tests.jobs.plans import sequential_scans, statements_of

ENQUEUED = """
INSERT INTO job_events (job_id, kind, event, to_status, actor)
SELECT n, 'demo.echo', 'enqueued', 'queued', 'app' FROM generate_series(1, 30000) n
"""
BATCHES = """
INSERT INTO job_events (scope, event, actor, data)
SELECT 'op:0123456789abcdef', 'op_batch', 'user:ana', '{}' FROM generate_series(1, 5000) n
"""


@pytest.mark.postgresql("plans and what they read")
def test_what_the_ledger_says_is_asked_by_probes(worker: sa.Connection) -> None:
    """By plans that were made while the ledger was empty."""
    worker.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    asked = {
        "ids": list(range(1, 501)),
        "since": datetime.now(UTC),
        "snapshot": worker.execute(sa.text("SELECT pg_current_snapshot()::text")).scalar_one(),
    }
    with (
        Prepared(worker, "unchanged", driver._UNCHANGED) as unchanged,
        Prepared(worker, "lines", state._LINES) as lines,
    ):
        unchanged.run(**{**asked, "ids": [1]})
        lines.run(scope="op:0123456789abcdef")
        worker.execute(sa.text(ENQUEUED))
        worker.execute(sa.text(BATCHES))

        probes, found = unchanged.run(**asked), lines.run(scope="op:0123456789abcdef")

    assert probes.scans("Seq Scan") == found.scans("Seq Scan") == []
    # Of each day only the lines of one job, or the newest of one operation.
    for plan, by in ((probes, "job_id = "), (found, "scope = ")):
        looks = [node for node in plan.nodes if "Index Name" in node]
        assert looks
        assert [node for node in looks if by not in node.get("Index Cond", "")] == []
    assert found.tree["Shared Hit Blocks"] + found.tree["Shared Read Blocks"] <= 400


@pytest.mark.postgresql("plans and what they read")
def test_a_batch_scans_no_table(session: Session, engine: sa.Engine, worker: sa.Connection) -> None:
    fill(worker, 30_000, **FINISHED)
    fill(worker, 100)
    worker.commit()
    for where in (JobFilter(status=(Status.QUEUED,)), JobFilter(kind="demo.echo")):
        with statements_of(engine) as sent:
            bound_reads(session)
            found = operations.survey(session, "cancel", where)
            made = operations.plan(session, found, how={}, actor="user:ana", reason="because")
            operations.step(session, made.id, actor="user:ana", via="api")

        asked = [(text, given) for text, given in sent if "job" in text]
        assert found.counts.by_status == {"queued": 100}
        assert sequential_scans(session, asked) == []
        session.rollback()


EVERYTHING = JobFilter(
    status=(Status.QUEUED,),
    view=View.DUE,
    kind="demo.echo",
    producer="app",
    priority=1,
    priority_min=0,
    priority_max=2,
    fingerprint="f1",
    operation="0123456789abcdef",
    idempotency_key="ü",
    worker="host:1:aa",
    attempts=2,
    attempts_min=1,
    payload=(PayloadField("a.b", "ü"), PayloadField("id", "42")),
    created=Span(None, datetime(2030, 1, 1, tzinfo=UTC)),
    available=Span(datetime(2030, 1, 1, tzinfo=UTC), None),
    finished=Span(datetime(2030, 1, 1, 1, 2, 3, 4, UTC), datetime(2030, 1, 2, tzinfo=UTC)),
)


@pytest.mark.parametrize(
    "where", [EVERYTHING, JobFilter(status=(Status.QUEUED,))], ids=["all", "one"]
)
def test_a_plan_is_read_as_it_was_written(session: Session, where: JobFilter) -> None:
    assert all(getattr(EVERYTHING, one.name) not in (None, (), Span()) for one in fields(JobFilter))
    found = operations.survey(session, "cancel", where)

    made = operations.plan(session, found, how={}, actor="user:ana", reason="because")

    assert made.where == where == operations.find(session, made.id).where
