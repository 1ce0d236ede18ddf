"""``flask demo fill``: a made history that agrees with itself, and every read over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import Result
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy.orm import Session

from queueapp.commands.demo.filling.content import CONTENT, HELD_KIND, LIVE
from queueapp.extensions import db
from queueapp.handlers import EnqueueRequest
from queueapp.handlers.request import request_problems
from queueapp.jobs import audit, control, partitions, queries
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from tests.auth.test_access import API, CONSOLE
from tests.factories import make_job
from tests.jobs.plans import sequential_scans, statements_of
from tests.scenes import Scene

pytestmark = pytest.mark.postgresql("a long history is made there only")

JOBS, EVENTS = 1_500, 3_000
# They need to be told something. Files are pages of the lists, one after the other.
NOT_READ = ("/go", "/jobs/bulk")
OF_A_WORKER = ("/workers/release", "/workers/drain")


def run(runner: FlaskCliRunner, *words: str) -> Result:
    return runner.invoke(args=["demo", "fill", *words, "--into-database-url"])


@pytest.fixture
def filled(runner: FlaskCliRunner, session: Session) -> Iterator[int]:
    """An installation with a history; the id of a job that is somebody's own."""
    mine = make_job(session, kind="a.b").id
    days = set(partitions.days(session))
    session.commit()
    made = run(runner, "--jobs", str(JOBS), "--events", str(EVENTS))
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith(f"Wrote {JOBS} jobs and 2")
    yield mine
    session.rollback()
    for day in sorted(set(partitions.days(session)) - days):
        session.execute(sa.text(f"DROP TABLE job_events_{day:%Y%m%d}"))
    session.commit()


def counts(session: Session, column: Any) -> dict[str, int]:
    return dict(session.execute(sa.select(column, sa.func.count()).group_by(column)).all())


def test_it_agrees_with_itself_and_goes_away(
    filled: int, runner: FlaskCliRunner, session: Session
) -> None:
    *_, (_, report) = audit.check(session)
    assert report.offenders == []
    # The oldest have no line any more.
    assert JOBS / 4 < report.truncated < JOBS / 2
    assert abs(report.events - EVENTS) < EVENTS / 20
    statuses = counts(session, Job.status)
    assert statuses.keys() == set(Status)
    assert statuses["succeeded"] > 0.9 * JOBS
    assert counts(session, Job.kind).keys() == {*CONTENT.kinds, HELD_KIND, "a.b"}
    # A day of minutes, each told from the ledger.
    assert counts(session, JobEvent.event)[Event.MINUTE_STATS] > 50
    assert control.in_force(session).held_kinds == (HELD_KIND,)
    # What a real worker can run it also takes.
    echoes = session.scalars(sa.select(Job.payload).where(Job.kind == "demo.echo")).all()
    assert echoes
    for payload in echoes:
        assert request_problems(EnqueueRequest(kind="demo.echo", payload=payload)) == []
    running = set(session.scalars(sa.select(Job.locked_by).where(Job.locked_by.is_not(None))))
    assert running <= {f"worker:{name}" for name in LIVE}

    # Its vacuum waits for readers before it gives space back.
    session.rollback()
    gone = run(runner, "--clear")
    assert gone.stdout.startswith(f"Removed {JOBS} jobs")
    assert session.scalars(sa.select(Job.id)).all() == [filled]
    assert session.scalars(sa.select(JobEvent.job_id)).all() == [filled]


@pytest.mark.slow
def test_no_page_and_no_list_scans_a_table(
    filled: int, app: Flask, client: FlaskClient, session: Session
) -> None:
    with app.app_context():
        engine = db.engine
    with statements_of(engine) as sent:
        for path in paths(session, filled):
            answer = client.get(path)
            nowhere = path == "/go?q=x"
            assert answer.status_code == (404 if nowhere else 200), f"{path}: {answer.text[:500]}"
    queries.bound_reads(session)
    asked = {text: given for text, given in sent if "job" in text and not text.startswith("SET")}
    assert len(asked) > 60
    assert sequential_scans(session, list(asked.items())) == []


def paths(session: Session, mine: int) -> Iterator[str]:
    """Every page, list and answer that is read, and each list as it can be narrowed."""
    failed = session.scalars(sa.select(Job).where(Job.status == Status.FAILED)).first()
    running = session.scalars(sa.select(Job).where(Job.status == Status.RUNNING)).first()
    planned = session.scalar(sa.select(JobEvent.scope).where(JobEvent.event == Event.OP_PLANNED))
    assert failed
    assert running
    assert running.locked_by
    assert planned
    alike = failed.error_fingerprint or ""
    places = {
        "<int:job_id>": failed.id, "<job_id>": failed.id, "<fingerprint>": alike,
        "<path:name>": running.locked_by, "<operation_id>": planned.removeprefix("op:"),
        "<kind>": "demo.echo",
    }  # fmt: skip
    for method, rule in {**API, **CONSOLE}:
        is_file = rule.endswith((".csv", ".ndjson"))
        if method == "GET" and not is_file and "<verb>" not in rule and rule not in NOT_READ:
            path = rule
            for name, value in places.items():
                path = path.replace(name, str(value))
            yield path + (f"?worker={running.locked_by}" if path in OF_A_WORKER else "")
    for one in (*Status, "due", "scheduled", "retrying"):
        yield f"/jobs?status={one}"
        yield f"/jobs?status={one}&kind=demo.echo&before={failed.id}"
    yield from (
        "/jobs?kind=no.such", "/jobs?producer=x", "/jobs?priority=5", "/jobs?key=x",
        f"/jobs?before={failed.id}", f"/jobs?fingerprint={alike}", f"/jobs/{mine}",
        f"/jobs/{failed.id}/retry",
        f"/jobs/{running.id}", "/operations/new?status=failed", "/api/jobs?count=true&due=true",
        "/events?kind=no.such", "/events?actor=x", f"/events?job={mine}", "/events?event=failed",
        "/audit?verb=queue", "/audit?verb=cancel", "/audit?actor=user:made-ana&since=2h", "/go?q=x",
    )  # fmt: skip


def test_beside_a_live_worker_it_asks_first(runner: FlaskCliRunner, session: Session) -> None:
    Scene(session).worker("web-1:7:aa")
    before = session.scalar(sa.select(sa.func.count()).select_from(Job))
    session.rollback()
    refused = run(runner, "--jobs", "100")

    assert refused.exit_code == 1
    assert "worker:web-1:7:aa works on this database" in refused.stderr
    assert "--yes" in refused.stderr
    assert session.scalar(sa.select(sa.func.count()).select_from(Job)) == before
    # Removing is never refused.
    assert run(runner, "--clear").exit_code == 0


def test_it_is_for_play(runner: FlaskCliRunner) -> None:
    refused = runner.invoke(args=["demo", "fill", "--jobs", "100"])

    assert refused.exit_code == 1
    assert "--into-database-url" in refused.stderr
