"""Every planted fault is found and named; what is only old is not one."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import audit, transitions
from queueapp.jobs.audit import Report
from queueapp.jobs.status import Status
from tests.factories import make_job


def report_of(session: Session) -> Report:
    *_, (_, report) = audit.check(session)
    return report


def problems(session: Session) -> str:
    return "\n".join(offender.problem for offender in report_of(session).offenders)


@pytest.mark.parametrize("status", Status)
def test_a_job_that_only_verbs_have_touched_is_clean(session: Session, status: Status) -> None:
    make_job(session, status)

    report = report_of(session)

    assert report.clean, report.offenders
    assert (report.jobs, report.truncated) == (1, 0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("priority = 9", "priority: the ledger leads to 0, the row says 9"),
        ("attempts = 1", "attempts: the ledger leads to 0, the row says 1"),
        ("handbacks = 3", "handbacks: the ledger leads to 0, the row says 3"),
        ("available_at = '2001-01-01 00:00+00'", "available_at: the ledger leads to"),
        ("error_fingerprint = 'x'", "error_fingerprint: the ledger leads to None"),
        ("status = 'held', held_for = 'job'", "status: the ledger leads to queued"),
    ],
)
def test_a_row_changed_behind_the_ledgers_back_is_named(
    session: Session, change: str, named: str
) -> None:
    make_job(session)
    session.execute(text(f"UPDATE jobs SET {change}"))

    assert named in problems(session)


def test_a_cancel_request_that_the_ledger_does_not_know_is_named(session: Session) -> None:
    make_job(session, Status.RUNNING)
    session.execute(text("UPDATE jobs SET cancel_requested_at = now()"))

    assert "cancel_requested_at: the ledger leads to None" in problems(session)


def test_a_missing_event_is_a_gap_between_two_others(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.execute(text("DELETE FROM job_events WHERE event = 'claimed'"))

    assert "succeeded starts at running, the job was queued" in problems(session)


def test_an_illegal_move_is_named(session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED)
    session.execute(
        text(
            "INSERT INTO job_events (job_id, kind, event, from_status, to_status, actor)"
            " VALUES (:id, 'demo.echo', 'requeued', 'succeeded', 'queued', 'app')"
        ),
        {"id": job.id},
    )

    assert "requeued from succeeded to queued is no legal move" in problems(session)


def test_a_token_claimed_twice_is_named(session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    session.execute(
        text(
            "INSERT INTO job_events"
            " (job_id, kind, event, from_status, to_status, attempt, lease_token, actor)"
            " SELECT job_id, kind, event, from_status, to_status, attempt, lease_token, actor"
            " FROM job_events WHERE event = 'claimed'"
        )
    )

    assert f"token {job.lease_token} was claimed twice" in problems(session)


def test_a_row_that_vanished_is_named(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.execute(text("DELETE FROM jobs"))

    assert problems(session) == "the row is gone, the ledger says succeeded"


def test_a_purged_job_is_clean(session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED)
    transitions.purge(session, [job.id], actor="user:root")

    report = report_of(session)

    assert report.clean
    assert report.jobs == 0


def test_a_row_without_any_history_is_named(session: Session) -> None:
    make_job(session)
    make_job(session)
    session.execute(text("DELETE FROM job_events WHERE job_id = 2"))

    assert problems(session) == "the job has no history"


def test_a_history_whose_beginning_is_gone_is_counted_not_blamed(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.execute(text("DELETE FROM job_events WHERE event = 'enqueued'"))

    report = report_of(session)

    assert report.clean
    assert report.truncated == 1


def test_a_job_older_than_the_ledger_is_counted_not_blamed(session: Session) -> None:
    make_job(session)
    make_job(session)
    session.execute(text("DELETE FROM job_events WHERE job_id = 1"))
    session.execute(text("UPDATE jobs SET created_at = now() - interval '91 days' WHERE id = 1"))

    report = report_of(session)

    assert report.clean
    assert report.truncated == 1


def test_only_so_many_offenders_are_kept(session: Session) -> None:
    for _ in range(5):
        make_job(session)
    session.execute(text("UPDATE jobs SET priority = 9"))

    *_, (_, report) = audit.check(session, keep=3)

    assert len(report.offenders) == 3
