"""What the hot statements read, by their executed plans: buffers and indexes, never time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from queueapp.jobs import transitions
from queueapp.jobs.cursor import NOWHERE
from queueapp.jobs.queries import standings
from queueapp.jobs.transitions import Held, holding
from queueapp.jobs.transitions.settle import exchange_statement
from tests.factories import HOLDER
from tests.jobs.explain import Plan, Prepared
from tests.jobs.filling import FINISHED, analyze, fill, undisturbed

TERMS: dict[str, Any] = {
    "outcomes": "[]", "me": HOLDER.name, "lease": 60.0, "job_timeout": 0.0,
    "n": 100, "slots": 100, "only": ["demo.echo"], "skip": ["nobody"], "places": NOWHERE,
}  # fmt: skip


@pytest.fixture
def probe(worker: sa.Connection) -> Iterator[sa.Connection]:
    """A worker's connection over a table whose statistics only the test refreshes."""
    with undisturbed(worker):
        yield worker


def assert_small(plan: Plan, buffers: int) -> None:
    assert plan.reading <= buffers
    assert plan.scans("Seq Scan") == []
    assert plan.indexes <= {"pk_jobs", "ix_jobs_claim"}
    assert plan.sorted_rows <= 100


@pytest.mark.parametrize("rows_when_planned", [None, 0, 100, 1_000])
def test_plans_made_for_a_small_table_still_serve_a_large_one(
    probe: sa.Connection, rows_when_planned: int | None
) -> None:
    """A plan is kept until statistics are refreshed; a queue may grow a lot until then."""
    if rows_when_planned is not None:
        fill(probe, rows_when_planned, **FINISHED)
        analyze(probe)
    probe.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    exchange = Prepared(probe, "exchange", exchange_statement(only=False, skip=False))
    renew = Prepared(probe, "renew", holding._RENEW)
    standing = Prepared(probe, "standing", standings._STANDINGS)
    exchange.run(**TERMS | {"n": 0, "slots": 0})
    standing.run(ids=[], tokens=[])
    renew.run(**TERMS, ids=[], tokens=[])
    fill(probe, 50_000, **FINISHED)
    fill(probe, 5_000)

    claim = exchange.run(**TERMS)
    leases = probe.execute(
        sa.text("SELECT id, lease_token FROM jobs WHERE status = 'running'")
    ).all()
    ids, tokens = [row.id for row in leases], [row.lease_token for row in leases]
    renewal = renew.run(**TERMS, ids=ids, tokens=tokens)
    looked_up = standing.run(ids=ids, tokens=tokens)
    ends = [{"id": n, "token": str(t), "verb": "succeed"} for n, t in leases]
    both = exchange.run(**TERMS | {"outcomes": json.dumps(ends)})

    # Per row: a probe to lock it, the lock, a probe to update it.
    assert len(leases) == 100
    assert_small(claim, 700)
    assert_small(renewal, 1_300)
    assert_small(looked_up, 600)
    assert_small(both, 1_900)


def test_renewals_and_progress_are_hot(probe: sa.Connection) -> None:
    """Written in place, once the first of them have made room on the page."""
    fill(probe, 1_000)
    analyze(probe)
    claims = transitions.exchange(probe, [], HOLDER, slots=200).claims
    held = [Held(claim.id, claim.token) for claim in claims]
    reports = [transitions.Progress(claim.id, claim.token, 50, "half-way") for claim in claims]

    def renew() -> None:
        for _ in range(5):
            transitions.renew(probe, held, HOLDER)
            transitions.write_progress(probe, reports)

    renew()
    before = updates_of(probe)
    renew()

    updated, hot = (now - then for now, then in zip(updates_of(probe), before, strict=True))
    assert updated == 10 * len(claims)
    assert hot >= 0.9 * updated


def updates_of(worker: sa.Connection) -> tuple[int, int]:
    """How many rows of jobs were updated, and how many of them in place."""
    worker.execute(sa.text("SELECT pg_stat_force_next_flush()"))
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"
    updated, hot = worker.execute(sa.text(counted)).one()
    return updated, hot
