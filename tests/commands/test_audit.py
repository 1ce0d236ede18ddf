"""``flask audit``: what it prints and how it exits."""

from __future__ import annotations

from flask.testing import FlaskCliRunner
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.factories import make_job


def test_a_clean_ledger_exits_0_and_says_what_was_checked(
    runner: FlaskCliRunner, session: Session
) -> None:
    for status in Status:
        make_job(session, status)
    session.commit()

    result = runner.invoke(args=["audit"])

    assert result.exit_code == 0, result.output
    assert "6 jobs" in result.output
    assert "nothing found" in result.output


def test_a_row_changed_behind_the_ledgers_back_is_named_and_exits_1(
    runner: FlaskCliRunner, session: Session
) -> None:
    job = make_job(session)
    session.execute(text("UPDATE jobs SET priority = 9"))
    session.commit()

    result = runner.invoke(args=["audit"])

    assert result.exit_code == 1
    assert "1 job, " in result.output
    assert f"job {job.id}: priority: the ledger leads to 0, the row says 9" in result.output


def test_only_so_many_are_named_but_all_are_counted(
    runner: FlaskCliRunner, session: Session
) -> None:
    for _ in range(3):
        make_job(session)
    session.execute(text("UPDATE jobs SET priority = 9"))
    session.commit()

    result = runner.invoke(args=["audit", "--most", "2"])

    assert result.output.count("priority: the ledger leads to") == 2
    assert "3 problems found, the first 2 named" in result.output


def test_it_waits_for_nobody_and_keeps_nobody_waiting(
    runner: FlaskCliRunner, session: Session
) -> None:
    make_job(session)
    session.commit()
    session.execute(text("LOCK TABLE jobs, job_events IN SHARE ROW EXCLUSIVE MODE"))

    assert runner.invoke(args=["audit"]).exit_code == 0


def test_the_help_teaches_with_an_example(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["audit", "--help"])

    assert result.exit_code == 0
    assert "flask audit --most 200" in result.output


def test_an_empty_database_is_clean(runner: FlaskCliRunner, database_url: str) -> None:
    result = runner.invoke(args=["audit"])

    assert result.exit_code == 0, result.output
    assert database_url
