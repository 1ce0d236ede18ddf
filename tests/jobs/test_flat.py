"""What the hot statements read does not depend on what lies in the tables: buffers, never time.

They run as the worker has them, with generic plans; statistics are fresh, stale or missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from queueapp.jobs import outlook
from queueapp.jobs.control import SWITCH_EVENTS
from queueapp.jobs.cursor import Cursor
from queueapp.jobs.outlook import Edge, look
from queueapp.jobs.transitions import holding, sweeper
from queueapp.jobs.transitions.settle import _SETTLE, exchange_statement
from tests.factories import HOLDER
from tests.jobs.explain import Plan, Prepared
from tests.jobs.filling import AHEAD, FINISHED, analyze, churn, fill, forget_statistics, undisturbed

N = 10
TERMS: dict[str, Any] = {
    "outcomes": "[]", "me": HOLDER.name, "lease": 60.0, "job_timeout": 0.0, "n": N, "slots": N,
    "only": ["demo.echo"], "skip": ["nobody"], "spare": [], "limit": N,
    "since": None, "switches": SWITCH_EVENTS,
}  # fmt: skip
CLAIMS = {
    "claim": exchange_statement(only=False, skip=False),
    "claim of some kinds": exchange_statement(only=True, skip=True),
}
SWEEP = {"look": outlook._LOOK, "locked": sweeper._LOCKED, "overdue": sweeper._OVERDUE}
STATEMENTS = {**CLAIMS, "renew": holding._RENEW, **SWEEP, "settle": _SETTLE}
# Rows: what there is of it before, and then.
FEW = 1_000
MANY = [100_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
ALLOWED = {"enable_seqscan": "on", "enable_bitmapscan": "on", "jit": "on"}
# A third of a second's work is done between two looks of a worker under load.
BETWEEN_LOOKS = 1_000

Measured = dict[str, Plan]


class Hot:
    """The hot statements, prepared: each is planned when it first runs, and keeps that plan."""

    def __init__(self, worker: sa.Connection) -> None:
        self._worker = worker
        self._prepared = {
            what: Prepared(worker, f"s{id(self)}_{number}", statement)
            for number, (what, statement) in enumerate(STATEMENTS.items())
        }

    def measure(self, cursor: Cursor | None = None, edge: Edge | None = None) -> Measured:
        """Claim twice ten jobs, renew their leases, lose them, sweep them, settle them."""
        edge, cursor = edge or Edge(), cursor or Cursor()
        terms = TERMS | {"places": cursor.document()}
        plans = {what: self._prepared[what].run(**terms) for what in CLAIMS}
        leases = self._worker.execute(
            sa.text("SELECT id, lease_token FROM jobs WHERE status = 'running'")
        ).all()
        terms |= {"ids": [row.id for row in leases], "tokens": [row.lease_token for row in leases]}
        plans["renew"] = self._prepared["renew"].run(**terms)
        lose = "UPDATE jobs SET lease_expires_at = now() - interval '1 s' WHERE status = 'running'"
        self._worker.execute(sa.text(lose))
        terms |= {"low": edge.low, "places": json.dumps(edge.places)}
        plans |= {what: self._prepared[what].run(**terms) for what in SWEEP}
        ends = [{"id": n, "token": str(token), "verb": "succeed"} for n, token in leases]
        plans["settle"] = self._prepared["settle"].run(**terms | {"outcomes": json.dumps(ends)})
        return plans


@pytest.fixture
def hot(worker: sa.Connection) -> Iterator[Hot]:
    """Planned while the table was empty and nothing was known of it."""
    with undisturbed(worker):
        forget_statistics(worker)
        hot = Hot(worker)
        hot.measure()
        yield hot
    analyze(worker)


def assert_flat(few: Measured, many: Measured) -> None:
    for what, plan in many.items():
        assert plan.reading <= 2 * few[what].reading, what
        assert plan.writing <= 2 * few[what].writing, what
        assert plan.sorted_rows <= 2 * N, what
        assert {n["Node Type"] for n in plan.nodes}.isdisjoint({"Seq Scan", "Bitmap Heap Scan"})
        of_jobs = {"pk_jobs", "ix_jobs_claim", "ix_jobs_running"}
        assert {index for index in plan.indexes if "event" not in index} <= of_jobs, what


@pytest.mark.parametrize("rows", MANY)
@pytest.mark.parametrize(
    "of", [FINISHED, AHEAD, {"priority": "0"}], ids=["finished", "scheduled ahead", "waiting"]
)
def test_they_read_the_same_whatever_lies_in_the_tables(
    worker: sa.Connection, hot: Hot, of: dict[str, str], rows: int
) -> None:
    fill(worker, FEW)
    fill(worker, FEW, **of)
    few = hot.measure()

    fill(worker, rows - FEW, **of)

    assert_flat(few, hot.measure())
    assert_flat(few, Hot(worker).measure())
    analyze(worker)
    assert_flat(few, Hot(worker).measure())


@pytest.mark.parametrize(
    "rounds", [10, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_they_read_the_same_however_much_was_done_under_an_old_snapshot(
    worker: sa.Connection, engine: sa.Engine, hot: Hot, rounds: int
) -> None:
    """What is dead stays in every index; nothing walks it again."""
    fill(worker, BETWEEN_LOOKS * (rounds + 2), priority="0")
    cursor, edge = Cursor(), Edge()
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as pin:
        pin.execute(sa.text("SELECT count(*) FROM jobs"))
        churn(worker, BETWEEN_LOOKS, after=cursor)
        few = hot.measure(cursor, edge)
        for _ in range(rounds):
            edge = look(worker, me=HOLDER.name, edge=edge).edge
            churn(worker, BETWEEN_LOOKS, after=cursor)

        assert_flat(few, hot.measure(cursor, edge))


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_a_claim_of_some_kinds_reads_no_backlog_whatever_the_session_allows(
    worker: sa.Connection, hot: Hot, mode: str
) -> None:
    """Behind a pooler no setting of ours holds; 20,000 jobs are due at one priority."""
    fill(worker, 20_000, priority="0")
    analyze(worker)
    for name, value in {**ALLOWED, "plan_cache_mode": mode}.items():
        worker.execute(sa.text(f"SET {name} = {value}"))
    terms = TERMS | {"places": Cursor().document()}
    for what, statement in CLAIMS.items():
        with Prepared(worker, "claim", statement) as claim:
            plan = claim.run(**terms)

        assert plan.reading <= 80, what
        assert plan.sorted_rows <= N, what


@pytest.mark.parametrize("places", [0, 100])
def test_a_claim_reads_no_priority_below_the_last_that_it_takes(
    worker: sa.Connection, hot: Hot, places: int
) -> None:
    fill(worker, 5_000, priority="n")
    cursor = Cursor()
    churn(worker, places, batch=max(places, 1), after=cursor)

    plans = hot.measure(cursor)

    assert all(plans[what].reading <= 8 * (2 * N + places) for what in CLAIMS)


def test_each_priority_with_nothing_due_costs_a_claim_two_probes(
    worker: sa.Connection, hot: Hot
) -> None:
    fill(worker, 5_000, **AHEAD | {"priority": "n"})

    plans = hot.measure()

    assert all(plans[what].reading <= 6 * 5_000 for what in CLAIMS)
