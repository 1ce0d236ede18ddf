"""Columns, CHECKs and indexes of the two tables. No behaviour: moves are in ``transitions``.

The migration writes the same tables in SQL, with what SQLAlchemy cannot say (partitions, storage
parameters); ``flask db check`` proves that the two agree.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, SmallInteger, text
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import UserDefinedType

from queueapp.base import Base
from queueapp.jobs.names import KIND


class XID8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id; SQLAlchemy has no type for it."""

    cache_ok = True

    def get_col_spec(self, **_kw: Any) -> str:
        """Return the name of the type in DDL."""
        return "xid8"


# So that reflection (``flask db check``) knows the type instead of warning about it.
ischema_names["xid8"] = XID8

_NOW = text("now()")

# One CHECK says what a row of each status looks like: a move then compares few statuses, where one
# for each column made each move a quarter dearer. ``attempts < max_attempts``: a claim must always
# be able to count one more, for settle and claim are one statement.
_LEASE = "locked_by, lease_token, lease_expires_at, claimed_at"
_ENDED = f"finished_at IS NOT NULL AND num_nonnulls({_LEASE}, held_for) = 0"
_STATE = f"""CASE status
    WHEN 'queued' THEN attempts < max_attempts
      AND num_nonnulls({_LEASE}, finished_at, held_for, cancel_requested_at) = 0
    WHEN 'running' THEN num_nonnulls({_LEASE}) = 4 AND num_nonnulls(finished_at, held_for) = 0
    WHEN 'succeeded' THEN {_ENDED}
    WHEN 'failed' THEN {_ENDED}
    WHEN 'cancelled' THEN {_ENDED}
    WHEN 'held' THEN attempts < max_attempts AND coalesce(held_for IN ('kind','job'), false)
      AND num_nonnulls({_LEASE}, finished_at, cancel_requested_at) = 0
    ELSE false END"""


class Job(Base):
    """One job. Higher priority runs first; ``attempts`` counts claims, not failures."""

    __tablename__ = "jobs"
    __table_args__ = (
        # Where jobs come in: nobody renames a kind, and each move would pay for the comparison.
        CheckConstraint(
            f"status NOT IN ('queued','held') OR attempts > 0 OR kind ~ '^{KIND.pattern}$'",
            name="kind",
        ),
        CheckConstraint(_STATE, name="state"),
        CheckConstraint(
            "attempts BETWEEN 0 AND max_attempts AND handbacks >= 0"
            " AND coalesce(progress BETWEEN 0 AND 100, true) AND coalesce(timeout_s >= 0, true)"
            " AND (idempotency_key IS NULL) = (request_hash IS NULL)"
            " AND coalesce(length(idempotency_key) BETWEEN 1 AND 200, true)",
            name="bounds",
        ),
        # The order of the claim, column by column.
        Index(
            "ix_jobs_claim",
            text("priority DESC"),
            "available_at",
            "created_at",
            "id",
            postgresql_where=text("status = 'queued'"),
        ),
        # lease_expires_at is in no index, so that renewing a lease is a HOT update.
        Index("ix_jobs_running", "claimed_at", "id", postgresql_where=text("status = 'running'")),
        Index(
            "ix_jobs_finished",
            "status",
            "finished_at",
            "id",
            postgresql_where=text("finished_at IS NOT NULL"),
        ),
        Index(
            "ix_jobs_failed_fingerprint",
            "error_fingerprint",
            "finished_at",
            "id",
            postgresql_where=text("status = 'failed'"),
        ),
        Index(
            "ix_jobs_held_kind",
            "kind",
            "id",
            postgresql_where=text("status = 'held' AND held_for = 'kind'"),
        ),
        Index(
            "ix_jobs_held_alone",
            "kind",
            "id",
            postgresql_where=text("status = 'held' AND held_for = 'job'"),
        ),
        Index(
            "uq_jobs_idempotency",
            "producer",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    kind: Mapped[str]
    payload: Mapped[Any] = mapped_column(nullable=False)
    status: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    available_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    max_attempts: Mapped[int] = mapped_column(server_default=text("5"))
    handbacks: Mapped[int] = mapped_column(server_default=text("0"))
    held_for: Mapped[str | None]
    locked_by: Mapped[str | None]
    lease_token: Mapped[UUID | None]
    lease_expires_at: Mapped[datetime | None]
    claimed_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    progress: Mapped[int | None] = mapped_column(SmallInteger)
    progress_note: Mapped[str | None]
    result: Mapped[Any] = mapped_column(nullable=True)
    error_class: Mapped[str | None]
    error_message: Mapped[str | None]
    error_fingerprint: Mapped[str | None]
    producer: Mapped[str]
    idempotency_key: Mapped[str | None]
    request_hash: Mapped[str | None]
    timeout_s: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class JobEvent(Base):
    """One line of the ledger. No foreign key: the ledger outlives the row.

    The table has no key: the identity makes ids unique, nothing looks a line up by id alone, and an
    index more on each line is paid three times a job. The mapper's key is ``id``.
    """

    __tablename__ = "job_events"
    __table_args__ = (
        CheckConstraint("(job_id IS NULL) = (scope IS NOT NULL)", name="job_or_scope"),
        CheckConstraint("(job_id IS NULL) = (kind IS NULL)", name="kind_of_job"),
        Index("ix_job_events_job", "job_id", "id"),
        Index("ix_job_events_feed", "xid", "id"),
        Index(
            "ix_job_events_control", "event", "scope", "id", postgresql_where=text("job_id IS NULL")
        ),
        {"postgresql_partition_by": "RANGE (created_at)"},
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    job_id: Mapped[int | None] = mapped_column(BigInteger)
    kind: Mapped[str | None]
    scope: Mapped[str | None]
    event: Mapped[str]
    from_status: Mapped[str | None]
    to_status: Mapped[str | None]
    attempt: Mapped[int | None]
    lease_token: Mapped[UUID | None]
    actor: Mapped[str]
    reason: Mapped[str | None]
    data: Mapped[Any] = mapped_column(nullable=True)
    created_at: Mapped[datetime] = mapped_column(server_default=text("clock_timestamp()"))
    xid: Mapped[int] = mapped_column(XID8, server_default=text("pg_current_xact_id()"))

    __mapper_args__ = {"primary_key": [id]}  # noqa: RUF012
