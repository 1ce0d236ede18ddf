"""``flask system``: the readings in a terminal."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from flask.testing import FlaskCliRunner

from queueapp.jobs.system.report import READINGS


def test_all_readings_are_told_in_lines_and_as_json(runner: FlaskCliRunner) -> None:
    text, whole = runner.invoke(args=["system"]), runner.invoke(args=["system", "--json"])

    told = json.loads(whole.output)
    found = [one["code"] for one in told["readings"]]
    assert sorted(found) == sorted(one.code for one in READINGS)
    assert all(one["sentence"] and one["tone"] for one in told["readings"])
    assert [one.title in text.output for one in READINGS] == [True] * len(READINGS)
    bad = any(one["tone"] == "bad" for one in told["readings"])
    assert text.exit_code == whole.exit_code == int(bad)


@pytest.mark.postgresql("autovacuum")
def test_what_is_bad_has_its_next_step_and_fails(runner: FlaskCliRunner, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE jobs SET (autovacuum_enabled = off)"))

    done = runner.invoke(args=["system"])

    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE jobs RESET (autovacuum_enabled)"))
    assert done.exit_code == 1
    assert "bad      Dead rows: Autovacuum is turned off for jobs" in done.output
    assert "Next: Turn it on again: ALTER TABLE jobs RESET (autovacuum_enabled);" in done.output
    assert "AUTOVACUUM BEGINS AT" in done.output


@pytest.mark.postgresql("which has a page of its own")
def test_evidence_of_what_is_well_is_shown_when_asked_for(runner: FlaskCliRunner) -> None:
    assert "ix_jobs_claim" not in runner.invoke(args=["system"]).output
    assert "ix_jobs_claim" in runner.invoke(args=["system", "--all"]).output
