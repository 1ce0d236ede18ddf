"""The claim takes exactly the next jobs, in exactly the order, on every path and under any plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.connections import WORKER_SESSION
from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.cursor import Cursor
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import NewJob
from tests.factories import HOLDER, make_job, outcome

BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
PERSON: dict[str, Any] = {"actor": "user:ana"}
Key = tuple[int, datetime, datetime, int]


def enqueue_sixty(session: Session) -> list[int]:
    """Sixty due jobs of eleven priorities, in one statement: equal created_at, ties everywhere."""
    places = [(n % 11 - 5, BEGINNING + timedelta(minutes=n % 3)) for n in range(60)]
    random.Random(7).shuffle(places)
    jobs = [NewJob(kind="demo.echo", payload={}, priority=p, available_at=at) for p, at in places]
    made = transitions.enqueue(session, jobs, producer="app", actor="app", via="python")
    session.commit()
    return [job.id for job in made]


def key_of(job: Job | Claim) -> Key:
    return -job.priority, job.available_at, job.created_at, job.id


def expected(session: Session) -> list[int]:
    """The ids of the queued jobs in the order of the line, sorted here."""
    session.rollback()
    queued = session.scalars(sa.select(Job).where(Job.status == Status.QUEUED))
    return [job.id for job in sorted(queued, key=key_of)]


def drain(worker: sa.Connection, after: Cursor | None = None) -> list[int]:
    """Claim until nothing is left, each time behind ``after`` if there is one; the ids in order."""
    ids: list[int] = []
    while claims := transitions.exchange(worker, [], HOLDER, slots=7, after=after).claims:
        ids += [claim.id for claim in claims]
        if after is not None:
            after.pass_(claims)
    return ids


def claim_all(worker: sa.Connection) -> list[Claim]:
    return transitions.exchange(worker, [], HOLDER, slots=1000).claims


def fresh(_session: Session, _worker: sa.Connection, _ids: list[int]) -> None:
    pass


def retried(_session: Session, worker: sa.Connection, _ids: list[int]) -> None:
    ends = [outcome(claim, "retry", delay_s=0) for claim in claim_all(worker)]
    transitions.settle(worker, ends, actor=HOLDER.name)


def handed_back(_session: Session, worker: sa.Connection, _ids: list[int]) -> None:
    ends = [outcome(claim, "release") for claim in claim_all(worker)]
    transitions.settle(worker, ends, actor=HOLDER.name)


def recovered(session: Session, worker: sa.Connection, _ids: list[int]) -> None:
    claim_all(worker)
    session.execute(sa.update(Job).values(lease_expires_at=BEGINNING))
    transitions.expire(session, actor="sweeper:1", backoff=Backoff(base_s=0))
    session.commit()


def requeued(_session: Session, worker: sa.Connection, ids: list[int]) -> None:
    transitions.cancel(worker, ids, **PERSON)
    transitions.requeue(worker, ids, **PERSON)


def unheld(_session: Session, worker: sa.Connection, ids: list[int]) -> None:
    transitions.hold(worker, ids, **PERSON)
    transitions.unhold(worker, ids, **PERSON)


def rescheduled(_session: Session, worker: sa.Connection, ids: list[int]) -> None:
    for number, job_id in enumerate(ids):
        transitions.reschedule(worker, [job_id], **PERSON, priority=number % 7)


PATHS = [fresh, retried, handed_back, recovered, requeued, unheld, rescheduled]


@pytest.mark.parametrize("cursor", [True, False])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_the_order_is_exact_on_every_path(
    session: Session,
    worker: sa.Connection,
    path: Callable[[Session, sa.Connection, list[int]], None],
    ties: bool,
    cursor: bool,
) -> None:
    path(session, worker, enqueue_sixty(session))
    if ties:
        tie = sa.text("timestamptz '2020-01-01' + (id % 3) * interval '1 min'")
        # Ids are drawn before a commit: the younger row may have the lower one.
        age = sa.text("timestamptz '2020-01-01' - (id % 4) * interval '1 min'")
        session.execute(sa.update(Job).values(available_at=tie, created_at=age))
        session.commit()
    wanted = expected(session)

    assert len(wanted) == 60
    assert drain(worker, Cursor() if cursor else None) == wanted


def test_higher_priorities_run_first_and_zero_stands_between(
    session: Session, worker: sa.Connection
) -> None:
    for priority in (0, -1, 1, -32768, 32767):
        make_job(session, priority=priority)
    session.commit()

    claims = transitions.exchange(worker, [], HOLDER, slots=5).claims

    assert [claim.priority for claim in claims] == [32767, 1, 0, -1, -32768]


def test_a_job_that_is_not_due_waits_whatever_its_priority(
    session: Session, worker: sa.Connection
) -> None:
    make_job(session, priority=9, delay_s=3600)
    due = make_job(session, priority=-9)
    session.commit()

    assert drain(worker) == [due.id]


@pytest.mark.postgresql("row locks")
def test_a_locked_top_row_is_passed_over_and_comes_next(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    enqueue_sixty(session)
    wanted = expected(session)
    with engine.begin() as locker:
        lock = "SELECT FROM jobs WHERE id = :id FOR UPDATE"
        locker.execute(sa.text(lock), {"id": wanted[0]})
        first = transitions.exchange(worker, [], HOLDER, slots=5).claims
    second = transitions.exchange(worker, [], HOLDER, slots=2).claims

    assert [claim.id for claim in first] == wanted[1:6]
    assert [claim.id for claim in second] == [wanted[0], wanted[6]]


def test_only_the_kinds_asked_for_are_claimed(session: Session, worker: sa.Connection) -> None:
    by_kind = {kind: make_job(session, kind=kind).id for kind in ("a", "b", "c", "d")}
    session.commit()

    def claim(**kinds: Any) -> list[int]:
        holder = Holder("test:1:aa", lease_s=60, **kinds)
        return [c.id for c in transitions.exchange(worker, [], holder, slots=9).claims]

    assert claim(only=("a", "b"), skip=("b",)) == [by_kind["a"]]
    assert claim(skip=("c",)) == [by_kind["b"], by_kind["d"]]
    assert claim(only=()) == []
    assert claim() == [by_kind["c"]]


def test_a_claim_counts_the_attempt_and_starts_a_lease(
    session: Session, worker: sa.Connection
) -> None:
    make_job(session, timeout_s=None)
    make_job(session, timeout_s=10)
    make_job(session, timeout_s=0)
    session.commit()
    holder = Holder("test:1:aa", lease_s=60, job_timeout_s=30)

    claims = transitions.exchange(worker, [], holder, slots=3).claims

    jobs = [session.get_one(Job, claim.id) for claim in claims]
    assert [job.attempts for job in jobs] == [claim.attempt for claim in claims] == [1, 1, 1]
    assert [job.lease_token for job in jobs] == [claim.token for claim in claims]
    assert {job.locked_by for job in jobs} == {"test:1:aa"}
    leases = [(j.lease_expires_at - j.claimed_at).total_seconds() for j in jobs]  # type: ignore[operator]
    # Never past the attempt's time-out; 0 is none.
    assert leases == pytest.approx([30, 10, 60], abs=1)


def test_prefetched_claims_are_the_last_of_the_batch_and_have_not_started(
    session: Session, worker: sa.Connection
) -> None:
    enqueue_sixty(session)

    claims = transitions.exchange(worker, [], HOLDER, slots=3, prefetch=4).claims

    assert [claim.started for claim in claims] == [True] * 3 + [False] * 4
    assert [claim.id for claim in claims] == [c.id for c in sorted(claims, key=key_of)]


# Plans

PLAIN = ""
# The planner is driven into plans it would not choose; none may change what is claimed.
HOSTILE = {
    "worker": WORKER_SESSION,
    "plain": PLAIN,
    "planned anew": f"{WORKER_SESSION} -c plan_cache_mode=force_custom_plan",
    "plain generic": "-c plan_cache_mode=force_generic_plan",
    "jit": "-c jit=on -c jit_above_cost=0 -c jit_inline_above_cost=0 -c jit_optimize_above_cost=0",
    "no nested loops": "-c enable_nestloop=off",
    "no hash, no merge, no material": (
        "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off"
    ),
    "no index scans": (
        "-c enable_indexscan=off -c enable_indexonlyscan=off -c enable_bitmapscan=off"
    ),
    "parallel": (
        "-c max_parallel_workers_per_gather=4 -c parallel_setup_cost=0 -c parallel_tuple_cost=0"
        " -c min_parallel_table_scan_size=0 -c min_parallel_index_scan_size=0"
    ),
}


@pytest.fixture
def stale(engine: sa.Engine) -> Iterator[None]:
    """Statistics of empty tables, and nothing that would refresh them."""
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with alone.connect() as connection:
        connection.execute(sa.text("ALTER TABLE jobs SET (autovacuum_enabled = false)"))
        connection.execute(sa.text("VACUUM ANALYZE jobs"))
    yield
    with alone.connect() as connection:
        connection.execute(sa.text("ALTER TABLE jobs RESET (autovacuum_enabled)"))


@pytest.mark.postgresql("plans")
@pytest.mark.usefixtures("stale")
@pytest.mark.parametrize("options", HOSTILE.values(), ids=HOSTILE)
def test_any_plan_claims_the_same_rows_and_locks_no_more(
    session: Session, engine: sa.Engine, database_url: str, options: str
) -> None:
    hostile = sa.create_engine(
        database_url, connect_args={"options": options, "prepare_threshold": 0}
    )
    with hostile.connect() as worker:
        # Planned for the empty table, and kept where plans are kept.
        transitions.exchange(worker, [], HOLDER, slots=1)
        worker.rollback()
        line_up(session, 5_000)

        claims = transitions.exchange(worker, [], HOLDER, slots=10).claims

        assert [claim.id for claim in claims] == expected(session)[:10]
        free = "SELECT id FROM jobs WHERE status = 'queued' FOR UPDATE SKIP LOCKED"
        with engine.begin() as other:
            assert len(other.execute(sa.text(free)).all()) == 5_000 - 10
        worker.rollback()
    hostile.dispose()


def line_up(session: Session, count: int) -> None:
    """Queue ``count`` due jobs of ten priorities, past the verbs."""
    insert = """
    INSERT INTO jobs (kind, payload, status, priority, available_at, producer)
    SELECT 'demo.echo', '{}', 'queued', n * 7 % 10,
      timestamptz '2020-01-01' + n % 13 * interval '1 s', 'app'
    FROM generate_series(1, :count) n"""
    session.execute(sa.text(insert), {"count": count})
    session.commit()
