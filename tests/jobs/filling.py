"""Tables as full as a plan has to bear: rows written past the verbs, and jobs run in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim
from queueapp.jobs.cursor import Cursor
from tests.factories import HOLDER, outcome
from tests.live.processes import until

FINISHED = {"status": "'succeeded'", "finished_at": "now()"}
AHEAD = {"available_at": "now() + interval '1 day'", "priority": "10 + n % 5"}


def fill(connection: sa.Connection, count: int, **columns: str) -> None:
    """Write ``count`` queued rows past the verbs; ``columns`` are SQL that may use n."""
    fields = {
        "kind": "'demo.echo'", "payload": "'{}'", "status": "'queued'", "producer": "'app'",
        "available_at": "now() - n * interval '1 ms'", "priority": "n % 3", **columns,
    }  # fmt: skip
    names, values = ", ".join(fields), ", ".join(fields.values())
    insert = f"INSERT INTO jobs ({names}) SELECT {values} FROM generate_series(1, {count}) n"
    connection.execute(sa.text(insert))


def analyze(connection: sa.Connection) -> None:
    """Refresh what the planner knows, and clean what can be."""
    connection.execute(sa.text("VACUUM ANALYZE jobs"))


@contextmanager
def undisturbed(connection: sa.Connection) -> Iterator[None]:
    """Without autovacuum: what it analyses, its snapshot keeps dead rows for so long."""
    tables = connection.scalars(
        sa.text(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'job_events'::regclass UNION ALL SELECT 'jobs'"
        )
    ).all()
    for table in tables:
        connection.execute(sa.text(f"ALTER TABLE {table} SET (autovacuum_enabled = false)"))
    at_work = sa.text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE backend_type = 'autovacuum worker' AND datname = current_database()"
    )
    until(lambda: connection.scalar(at_work) == 0, "autovacuum has left the tables")
    try:
        yield
    finally:
        for table in tables:
            connection.execute(sa.text(f"ALTER TABLE IF EXISTS {table} RESET (autovacuum_enabled)"))


def forget_statistics(connection: sa.Connection) -> None:
    """As if the table had never been analysed."""
    connection.execute(sa.text("DELETE FROM pg_statistic WHERE starelid = 'jobs'::regclass"))


def churn(worker: sa.Connection, count: int, batch: int = 100, after: Cursor | None = None) -> None:
    """Run so many jobs, ``batch`` at a time, each claim behind ``after`` if there is one."""
    claims: list[Claim] = []
    for _ in range(0, count, batch):
        claims = exchange_of(worker, claims, batch, after)
    exchange_of(worker, claims, 0)


def exchange_of(
    worker: sa.Connection, done: list[Claim], slots: int, after: Cursor | None = None
) -> list[Claim]:
    """Settle ``done``, claim ``slots``, and go on behind them."""
    ends = [outcome(claim) for claim in done]
    claims = transitions.exchange(worker, ends, HOLDER, slots=slots, after=after).claims
    if after is not None:
        after.pass_(claims)
    return claims
