"""``flask audit``: what it prints and how it exits."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp import create_app
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


# What the transactions of a busier server were numbered.
FAR_AHEAD = "UPDATE job_events SET xid = '900000000000'"


@pytest.mark.postgresql("numbers of transactions")
def test_lines_of_another_server_come_first_in_the_feed(
    runner: FlaskCliRunner, client: FlaskClient, session: Session
) -> None:
    for status in Status:
        make_job(session, status)
    session.execute(text(FAR_AHEAD))
    session.commit()
    job = make_job(session)
    session.commit()
    assert lines_of(client) == [job.id]

    result = runner.invoke(args=["audit", "--restored"])

    assert result.exit_code == 0, result.output
    assert "now count as older than this server" in result.output
    ids = session.scalars(text("SELECT job_id FROM job_events ORDER BY id")).all()
    assert lines_of(client) == list(ids)
    assert "0 lines now" in runner.invoke(args=["audit", "--restored"]).output


def lines_of(client: FlaskClient) -> list[int | None]:
    page = client.get("/api/events?limit=200").get_json()
    return [line["job_id"] for line in page["items"]]


def test_sqlite_needs_no_such_thing(tmp_path: Path) -> None:
    app = create_app({"DATABASE_URL": f"sqlite:///{tmp_path}/queue.db", "TESTING": True})

    result = app.test_cli_runner().invoke(args=["audit", "--restored"])

    assert result.exit_code == 2
    assert "on SQLite there is nothing to do" in result.output


def test_the_help_teaches_with_an_example(runner: FlaskCliRunner) -> None:
    result = runner.invoke(args=["audit", "--help"])

    assert result.exit_code == 0
    assert "flask audit --most 200" in result.output


def test_an_empty_database_is_clean(runner: FlaskCliRunner, database_url: str) -> None:
    result = runner.invoke(args=["audit"])

    assert result.exit_code == 0, result.output
    assert database_url
