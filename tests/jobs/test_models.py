"""What the tables themselves refuse, whatever the code does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import FINAL, WAITING, Event, Status

LEASE = {
    "locked_by": "'host:1:000000'",
    "lease_token": "gen_random_uuid()",
    "lease_expires_at": "now()",
    "claimed_at": "now()",
}
COMMON = {"kind": "'demo.echo'", "payload": "'{}'", "producer": "'app'", "attempts": "1"}
# The least that a row of each status needs; values are SQL.
ROWS: dict[str, dict[str, str]] = {
    "queued": COMMON,
    "running": COMMON | LEASE,
    "succeeded": COMMON | {"finished_at": "now()"},
    "failed": COMMON | {"finished_at": "now()"},
    "cancelled": COMMON | {"finished_at": "now()"},
    "held": COMMON | {"held_for": "'job'"},
}


def insert(session: Session, status: str, /, **changed: str) -> int:
    fields = {**ROWS.get(status, COMMON), "status": f"'{status}'", **changed}
    statement = (
        f"INSERT INTO jobs ({', '.join(fields)}) VALUES ({', '.join(fields.values())}) RETURNING id"
    )
    job_id: int = session.execute(sa.text(statement.replace(":", "\\:"))).scalar_one()
    return job_id


@dataclass
class Refusal:
    constraint_name: str | None
    column_name: str | None


def refusal(session: Session, status: str, /, **changed: str) -> Refusal:
    with pytest.raises(sa.exc.IntegrityError) as caught:
        insert(session, status, **changed)
    origin = caught.value.orig
    if isinstance(origin, psycopg.errors.IntegrityError):
        return Refusal(origin.diag.constraint_name, origin.diag.column_name)
    return _of_sqlite(str(origin))


def _of_sqlite(said: str) -> Refusal:
    """It names the constraint, or what columns it is about."""
    about = said.rpartition("failed: ")[2]
    if about == "jobs.producer, jobs.idempotency_key":
        return Refusal("uq_jobs_idempotency", None)
    return Refusal(about, about.removeprefix("jobs."))


@pytest.mark.parametrize("status", Status)
def test_the_least_row_of_each_status_is_taken(session: Session, status: Status) -> None:
    assert insert(session, status) > 0


Refused = tuple[str, str, dict[str, str]]

KINDS = ("''", "'Mail'", "'1mail'", "'a b'", "'a\nb'", "'é'", f"'{'a' * 101}'", "'a\n'")
NOT_RUNNING = [status for status in Status if status is not Status.RUNNING]
NOT_FINAL = [status for status in Status if status not in FINAL]
NOT_WAITING = [status for status in Status if status not in WAITING]
NOT_HELD = [status for status in Status if status is not Status.HELD]

# Constraint, status and what is wrong with the row.
SHAPE: list[Refused] = [
    *(("kind", status, {"kind": kind, "attempts": "0"}) for status in WAITING for kind in KINDS),
    *(("state", "queued", {"status": f"'{status}'"}) for status in ("waiting", "QUEUED", "")),
    *(("bounds", "running", {"progress": progress}) for progress in ("-1", "101")),
    ("bounds", "queued", {"handbacks": "-1"}),
    ("bounds", "queued", {"timeout_s": "-1"}),
    ("bounds", "queued", {"idempotency_key": "'k'"}),
    ("bounds", "queued", {"request_hash": "'x'"}),
    ("bounds", "queued", {"idempotency_key": "''", "request_hash": "'x'"}),
    ("bounds", "queued", {"idempotency_key": f"'{'k' * 201}'", "request_hash": "'x'"}),
]
LEASES: list[Refused] = [
    *(("state", "running", {field: "NULL"}) for field in LEASE),
    *(
        ("state", status, {field: value})
        for field, value in LEASE.items()
        for status in NOT_RUNNING
    ),
    *(("state", status, LEASE) for status in NOT_RUNNING),
]
ENDS: list[Refused] = [
    *(("state", status, {"finished_at": "NULL"}) for status in FINAL),
    *(("state", status, {"finished_at": "now()"}) for status in NOT_FINAL),
]
ATTEMPTS: list[Refused] = [
    *(("bounds", status, {"attempts": "-1"}) for status in Status),
    *(("bounds", status, {"attempts": "6"}) for status in NOT_WAITING),
    *(("state", status, {"attempts": "5"}) for status in WAITING),
    *(("state", status, {"attempts": "0", "max_attempts": "0"}) for status in WAITING),
]
HOLDS: list[Refused] = [
    ("state", "held", {"held_for": "NULL"}),
    ("state", "held", {"held_for": "'queue'"}),
    *(("state", status, {"held_for": "'job'"}) for status in NOT_HELD),
    *(("state", status, {"cancel_requested_at": "now()"}) for status in WAITING),
]
REFUSED = SHAPE + LEASES + ENDS + ATTEMPTS + HOLDS


@pytest.mark.parametrize(("constraint", "status", "wrong"), REFUSED)
def test_a_row_that_contradicts_itself_is_refused(
    session: Session, constraint: str, status: str, wrong: dict[str, str]
) -> None:
    assert refusal(session, status, **wrong).constraint_name == f"ck_jobs_{constraint}"


def test_every_check_of_the_table_is_tested_here() -> None:
    checks = {c.name for c in Job.__table_args__ if isinstance(c, sa.CheckConstraint)}

    assert checks == {f"ck_jobs_{constraint}" for constraint, _, _ in REFUSED}


@pytest.mark.parametrize(
    ("status", "fine"),
    [
        ("queued", {"kind": f"'{'a' * 100}'"}),
        ("queued", {"kind": "'a.b_c-9'"}),
        ("running", {"attempts": "5"}),
        ("failed", {"attempts": "0", "max_attempts": "0"}),
        ("running", {"cancel_requested_at": "now()"}),
        ("succeeded", {"cancel_requested_at": "now()"}),
        ("held", {"held_for": "'kind'"}),
        ("running", {"progress": "0"}),
        ("running", {"progress": "100"}),
        ("queued", {"timeout_s": "0"}),
        ("queued", {"idempotency_key": f"'{'k' * 200}'", "request_hash": "'x'"}),
        ("queued", {"idempotency_key": f"'{'😀' * 200}'", "request_hash": "'x'"}),
        ("queued", {"priority": "-32768"}),
    ],
)
def test_a_row_at_the_edge_is_taken(session: Session, status: str, fine: dict[str, str]) -> None:
    assert insert(session, status, **fine) > 0


@pytest.mark.parametrize(
    "column",
    [
        "kind", "payload", "status", "priority", "available_at", "attempts", "max_attempts",
        "handbacks", "producer", "created_at",
    ],
)  # fmt: skip
def test_columns_that_order_or_decide_are_never_null(session: Session, column: str) -> None:
    """A NULL priority would come first under DESC."""
    assert refusal(session, "queued", **{column: "NULL"}).column_name == column


def test_a_key_is_unique_within_its_producer(session: Session) -> None:
    key = {"idempotency_key": "'k'", "request_hash": "'x'"}
    insert(session, "queued", **key)
    insert(session, "queued", **key, producer="'other'")

    assert refusal(session, "succeeded", **key).constraint_name == "uq_jobs_idempotency"


def test_jobs_without_a_key_are_never_in_each_others_way(session: Session) -> None:
    assert insert(session, "queued") != insert(session, "queued")


def test_two_hundred_random_characters_fit_the_key_index(session: Session) -> None:
    """The longest key there can be: two hundred characters of four bytes that do not compress."""
    text = "".join(chr(0x10000 + 7919 * n % 0xFFFF) for n in range(200))

    assert insert(session, "queued", idempotency_key=f"'{text}'", request_hash="'x'") > 0


@pytest.mark.parametrize(
    ("constraint", "wrong"),
    [
        ("ck_job_events_job_or_scope", {"job_id": None, "kind": None}),
        ("ck_job_events_job_or_scope", {"scope": "queue"}),
        ("ck_job_events_kind_of_job", {"kind": None}),
        ("ck_job_events_kind_of_job", {"job_id": None, "scope": "queue"}),
    ],
)
def test_an_event_is_of_a_job_or_of_a_scope(
    session: Session, constraint: str, wrong: dict[str, Any]
) -> None:
    fields = {"job_id": 1, "kind": "demo.echo", "event": Event.ENQUEUED, "actor": "app", **wrong}

    with pytest.raises(sa.exc.IntegrityError, match=constraint):
        session.execute(sa.insert(JobEvent).values(**fields))


@pytest.mark.postgresql("transaction ids")
def test_an_event_knows_its_instant_and_its_transaction(session: Session) -> None:
    statement = """
    INSERT INTO job_events (scope, event, actor) VALUES ('queue', 'queue_paused', 'user:ana')
    RETURNING xid = pg_current_xact_id(), created_at > now() - interval '1 minute'"""

    assert session.execute(sa.text(statement)).one() == (True, True)


def test_the_two_tables_can_be_read_as_objects(session: Session) -> None:
    job_id = insert(session, "queued")
    session.execute(
        sa.insert(JobEvent).values(job_id=job_id, kind="demo.echo", event="enqueued", actor="app")
    )

    job, event = session.get_one(Job, job_id), session.scalars(sa.select(JobEvent)).one()

    assert (job.status, job.payload, job.priority) == ("queued", {}, 0)
    assert (event.job_id, event.created_at.tzinfo is not None) == (job_id, True)
