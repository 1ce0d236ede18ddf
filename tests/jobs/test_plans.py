"""What the hot statements read, by their executed plans: buffers and indexes, never time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim
from queueapp.jobs.cursor import NOWHERE
from queueapp.jobs.transitions import Held, holding
from queueapp.jobs.transitions.settle import exchange_statement
from tests.factories import HOLDER, make_job, outcome
from tests.jobs.explain import Plan, Prepared

TERMS: dict[str, Any] = {
    "outcomes": "[]", "me": HOLDER.name, "lease": 60.0, "job_timeout": 0.0,
    "n": 100, "slots": 100, "only": ["demo.echo"], "skip": ["nobody"], "places": NOWHERE,
}  # fmt: skip
TINY = 10


@pytest.fixture
def probe(worker: sa.Connection) -> Iterator[sa.Connection]:
    """A worker's connection over a table whose statistics only the test refreshes."""
    worker.execute(sa.text("ALTER TABLE jobs SET (autovacuum_enabled = false)"))
    yield worker
    worker.execute(sa.text("ALTER TABLE jobs RESET (autovacuum_enabled)"))


def analyze(connection: sa.Connection) -> None:
    connection.execute(sa.text("VACUUM ANALYZE jobs"))


def fill(connection: sa.Connection, count: int, **columns: str) -> None:
    """Write ``count`` queued rows past the verbs; ``columns`` are SQL that may use n."""
    fields = {
        "kind": "'demo.echo'", "payload": "'{}'", "status": "'queued'", "producer": "'app'",
        "available_at": "now() - n * interval '1 ms'", "priority": "n % 3", **columns,
    }  # fmt: skip
    names, values = ", ".join(fields), ", ".join(fields.values())
    insert = f"INSERT INTO jobs ({names}) SELECT {values} FROM generate_series(1, {count}) n"
    connection.execute(sa.text(insert))


def claim_plans(probe: sa.Connection) -> list[Plan]:
    """Claims of ten: kept and made afresh, of all kinds and of some."""
    plans = []
    for mode in ("force_generic_plan", "force_custom_plan"):
        probe.execute(sa.text(f"SET plan_cache_mode = {mode}"))
        for some in (False, True):
            statement = exchange_statement(only=some, skip=some)
            with Prepared(probe, "claim", statement) as claim:
                plans.append(claim.run(**TERMS | {"n": TINY, "slots": TINY}))
    return plans


def assert_small(plan: Plan, buffers: int) -> None:
    assert plan.reading <= buffers
    assert plan.scans("Seq Scan") == []
    assert plan.indexes <= {"pk_jobs", "ix_jobs_claim"}
    assert plan.sorted_rows <= 100


@pytest.mark.parametrize(
    "many",
    [
        {"available_at": "now() + interval '1 day'", "priority": "10 + n % 5"},
        {"status": "'succeeded'", "finished_at": "now()"},
    ],
    ids=["scheduled ahead", "finished"],
)
def test_a_claim_reads_the_same_with_a_hundred_thousand_rows_more(
    probe: sa.Connection, many: dict[str, str]
) -> None:
    fill(probe, 1_000)
    analyze(probe)
    before = claim_plans(probe)
    fill(probe, 100_000, **many)
    analyze(probe)

    after = claim_plans(probe)

    for one, other in zip(before, after, strict=True):
        assert_small(one, 80)
        # Each of five priorities ahead costs a probe to find it and one for its rows.
        assert_small(other, 2 * one.reading)


@pytest.mark.parametrize("rows_when_planned", [None, 0, 100, 1_000])
def test_plans_made_for_a_small_table_still_serve_a_large_one(
    probe: sa.Connection, rows_when_planned: int | None
) -> None:
    """A plan is kept until statistics are refreshed; a queue may grow a lot until then."""
    if rows_when_planned is not None:
        fill(probe, rows_when_planned, status="'succeeded'", finished_at="now()")
        analyze(probe)
    probe.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    exchange = Prepared(probe, "exchange", exchange_statement(only=False, skip=False))
    renew = Prepared(probe, "renew", holding._RENEW)
    exchange.run(**TERMS | {"n": 0, "slots": 0})
    renew.run(**TERMS, ids=[], tokens=[])
    fill(probe, 50_000, status="'succeeded'", finished_at="now()")
    fill(probe, 5_000)

    claim = exchange.run(**TERMS)
    leases = probe.execute(
        sa.text("SELECT id, lease_token FROM jobs WHERE status = 'running'")
    ).all()
    ids, tokens = [row.id for row in leases], [row.lease_token for row in leases]
    renewal = renew.run(**TERMS, ids=ids, tokens=tokens)
    ends = [{"id": n, "token": str(t), "verb": "succeed"} for n, t in leases]
    both = exchange.run(**TERMS | {"outcomes": json.dumps(ends)})

    # Per row: a probe to lock it, the lock, a probe to update it.
    assert len(leases) == 100
    assert_small(claim, 700)
    assert_small(renewal, 1_300)
    assert_small(both, 1_900)


def test_a_settle_under_a_pinned_snapshot_reads_no_more_the_longer_it_is_held(
    probe: sa.Connection, engine: sa.Engine
) -> None:
    """What moved on stays in every index until the snapshot is gone; the key leads past it."""
    settle = Prepared(probe, "settle", exchange_statement(only=False, skip=False))
    fill(probe, 6_000)
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as pin:
        pin.execute(sa.text("SELECT count(*) FROM jobs"))
        read = []
        for _ in range(2):
            churn(probe, 2_000)
            ends = [ending(claim) for claim in exchange_of(probe, [], 100)]
            plan = settle.run(**TERMS | {"n": 0, "slots": 0, "outcomes": json.dumps(ends)})
            assert_small(plan, 2_000)
            read.append(plan.reading)

    assert read[1] <= 1.2 * read[0]


def test_a_claim_under_a_pinned_snapshot_reads_a_page_for_five_jobs_done_meanwhile_at_most(
    probe: sa.Connection, engine: sa.Engine
) -> None:
    """It walks past what is dead and cannot be removed; afterwards it reads as little as before."""
    done = 2_000
    fill(probe, 3 * done, priority="0")
    analyze(probe)
    with Prepared(probe, "claim", exchange_statement(only=False, skip=False)) as claim:
        before = claim.run(**TERMS | {"n": TINY, "slots": TINY})
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as pin:
            pin.execute(sa.text("SELECT count(*) FROM jobs"))
            churn(probe, done)
            held = claim.run(**TERMS | {"n": TINY, "slots": TINY})
        analyze(probe)
        after = claim.run(**TERMS | {"n": TINY, "slots": TINY})

    assert_small(held, before.reading + done // 5)
    assert_small(after, 2 * before.reading)


def churn(worker: sa.Connection, count: int) -> None:
    """Run so many jobs, a hundred at a time."""
    claims: list[Claim] = []
    for _ in range(0, count, 100):
        claims = exchange_of(worker, claims, 100)
    exchange_of(worker, claims, 0)


def exchange_of(worker: sa.Connection, done: list[Claim], slots: int) -> list[Claim]:
    ends = [outcome(claim) for claim in done]
    return transitions.exchange(worker, ends, HOLDER, slots=slots).claims


def ending(claim: Claim) -> dict[str, Any]:
    return {"id": claim.id, "token": str(claim.token), "verb": "succeed"}


def test_renewals_and_progress_are_hot(session: Session, worker: sa.Connection) -> None:
    for _ in range(20):
        make_job(session)
    session.commit()
    claims = transitions.exchange(worker, [], HOLDER, slots=20).claims
    held = [Held(claim.id, claim.token) for claim in claims]
    reports = [transitions.Progress(claim.id, claim.token, 50, "half-way") for claim in claims]
    before = updates_of(worker)

    for _ in range(10):
        transitions.renew(worker, held, HOLDER)
        transitions.write_progress(worker, reports)

    updated, hot = (now - then for now, then in zip(updates_of(worker), before, strict=True))
    assert updated == 400
    # How many depends on when pages are pruned; an index on what they write would make it none.
    assert hot > updated / 4


def updates_of(worker: sa.Connection) -> tuple[int, int]:
    """How many rows of jobs were updated, and how many of them in place."""
    worker.execute(sa.text("SELECT pg_stat_force_next_flush()"))
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"
    updated, hot = worker.execute(sa.text(counted)).one()
    return updated, hot
