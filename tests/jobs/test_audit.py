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


def test_a_token_claimed_for_two_jobs_is_named(session: Session) -> None:
    first, second = make_job(session, Status.RUNNING), make_job(session, Status.RUNNING)
    steal = "UPDATE job_events SET lease_token = :token WHERE job_id = :id AND event = 'claimed'"
    session.execute(text(steal), {"token": first.lease_token, "id": second.id})

    assert f"token {first.lease_token} was claimed twice" in problems(session)


def test_a_lease_that_nobody_claimed_is_named(session: Session) -> None:
    make_job(session, Status.RUNNING)
    session.execute(text("UPDATE jobs SET lease_token = gen_random_uuid()"))

    assert "lease_token: the ledger leads to" in problems(session)


def test_an_end_for_another_token_than_the_claimed_one_is_named(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.execute(
        text("UPDATE job_events SET lease_token = gen_random_uuid() WHERE event = 'succeeded'")
    )

    assert "not for the one claimed last" in problems(session)


def test_an_attempt_that_was_not_counted_is_named(session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.execute(text("UPDATE job_events SET attempt = 2 WHERE event = 'claimed'"))

    assert "attempt 2 was claimed after 0" in problems(session)


@pytest.mark.parametrize("event", ["done", "queue_paused"])
def test_an_event_that_no_job_has_is_named(session: Session, event: str) -> None:
    make_job(session)
    insert = """
    INSERT INTO job_events (job_id, kind, event, from_status, to_status, actor)
    VALUES (1, 'demo.echo', :event, 'queued', 'queued', 'app')"""
    session.execute(text(insert), {"event": event})

    assert f"a job has no event {event}" in problems(session)


@pytest.mark.postgresql("jsonb_set")
@pytest.mark.parametrize("value", ["'\"soon\"'", "'7'", "'null'"])
def test_an_instant_that_is_none_is_a_difference_like_any_other(
    session: Session, value: str
) -> None:
    make_job(session)
    spoil = f"UPDATE job_events SET data = jsonb_set(data, '{{available_at}}', {value})"
    session.execute(text(spoil))

    assert "available_at: the ledger leads to" in problems(session)


def test_the_zone_of_a_session_that_wrote_an_event_does_not_matter(session: Session) -> None:
    session.execute(text("SET LOCAL timezone = 'Asia/Kathmandu'"))
    job = make_job(session, Status.RUNNING)
    transitions.cancel(session, [job.id], actor="user:ana")
    session.execute(text("SET LOCAL timezone = 'America/St_Johns'"))

    assert problems(session) == ""


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


def test_only_so_many_offenders_are_kept_and_all_are_counted(session: Session) -> None:
    for _ in range(5):
        make_job(session)
    session.execute(text("UPDATE jobs SET priority = 9"))

    *_, (_, report) = audit.check(session, keep=3)

    assert (len(report.offenders), report.found) == (3, 5)
