"""``flask demo incident``: each one leads to its verdict, goes on as it should, and goes away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click import ClickException
from click.testing import Result
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.commands.demo.incidents import apart, clear, make
from queueapp.commands.demo.incidents.cast import Cast
from queueapp.commands.demo.incidents.catalogue import INCIDENTS
from queueapp.commands.demo.incidents.lock import only_one, workers_wait
from queueapp.commands.demo.incidents.place import printed, told_if_gone, written_down
from queueapp.commands.demo.incidents.stage import CREW, IMPORT, MAIL, SYNC, NotOurs
from queueapp.extensions import db
from queueapp.jobs import audit, control, minute_stats, transitions
from queueapp.jobs.models import Job, JobEvent
from tests.console.conftest import words
from tests.factories import make_job
from tests.live.processes import until
from tests.scenes import Scene, ago

ROOT = Path(__file__).parents[2]


def verdict(client: FlaskClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/verdict").get_json()
    return found


def count(session: Session, *where: Any) -> int:
    session.rollback()
    return session.scalar(sa.select(sa.func.count()).select_from(Job).where(*where)) or 0


def run(runner: FlaskCliRunner, *words: str) -> Result:
    return runner.invoke(args=["demo", "incident", *words, "--into-database-url"])


@pytest.mark.parametrize("name", INCIDENTS)
def test_it_leads_to_its_verdict_and_goes_away_without_a_trace(
    name: str, client: FlaskClient, session: Session
) -> None:
    told = INCIDENTS[name]
    mine = make_job(session, kind="a.b")
    transitions.cancel(session, [mine.id], actor="user:ana")
    session.commit()

    make(session, name, jobs=600)
    found = verdict(client)

    assert (found["rule"], found["level"]) == (told.rule, told.level), found["sentence"]
    assert found["next_path"]
    # The ledger leads to the rows, as it would if all of it had happened.
    *_, (_, report) = audit.check(session)
    assert report.offenders == []

    clear(session)
    left = verdict(client)
    assert (left["rule"], left["also"]) == ("healthy", [])
    assert session.scalars(sa.select(Job.id)).all() == [mine.id]
    assert set(session.scalars(sa.select(JobEvent.job_id))) == {mine.id}


def test_it_has_a_database_of_its_own_that_nothing_else_can_hide_it_in(
    app: Flask, session: Session, engine: sa.Engine
) -> None:
    """After a demo jobs have ended a moment ago, and failures of it are to be tried again."""
    Scene(session).ended(1)
    try:
        place = apart(app)
        assert apart(app).extensions["queue_settings"] == place.extensions["queue_settings"]
        with place.app_context():
            name = db.session.scalar(sa.text("SELECT current_database()"))
            there = sa.text("SELECT count(*) FROM pg_tables WHERE tablename = 'jobs'")
            tables = db.session.scalar(there)
            db.session.close()
            db.engine.dispose()
        assert (name, tables) == ("queue_drill", 0)
    finally:
        outside = engine.execution_options(isolation_level="AUTOCOMMIT")
        with outside.connect() as connection:
            connection.execute(sa.text("DROP DATABASE IF EXISTS queue_drill WITH (FORCE)"))


def test_after_a_roll_back_retried_jobs_end_it(
    client: FlaskClient, session: Session, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.commands.demo.incidents.cast._LINE_S", 0.0)
    stage = make(session, "bad-deploy")
    with Cast(stage, database_url) as played:
        played.tick()
        assert verdict(client)["rule"] == "failing"
        # Its next step leads to jobs, for as long as there are some.
        group = client.get(verdict(client)["next_path"])
        assert "Retry all 840 failed" in words(group.text)

        ids = session.scalars(sa.select(Job.id).where(Job.status == "failed")).all()
        transitions.requeue(session, ids, actor="user:ana")
        session.commit()
        for _ in range(40):
            played.tick()
        found = verdict(client)

    assert (found["level"], found["rule"]) == ("green", "healthy")
    assert found["notes"][0].startswith("Failing is over: ")


def test_a_worker_beside_it_counts_what_happens_from_then_on(
    session: Session, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines go on from those of a worker that was there before."""
    monkeypatch.setattr("queueapp.commands.demo.incidents.cast._LINE_S", 0.0)

    def line() -> dict[str, Any]:
        """What the next line of a worker counts."""
        is_line = (JobEvent.event == "minute_stats") & JobEvent.data["drill"].is_(None)
        session.execute(sa.update(JobEvent).where(is_line).values(created_at=ago(90)))
        session.commit()
        minute_stats.write(session, actor="housekeeping:w1")
        session.commit()
        newest = sa.select(JobEvent.data).where(is_line).order_by(JobEvent.id.desc()).limit(1)
        found = session.scalars(newest).one()
        return {kind: dict(one["events"]) for kind, one in found["kinds"].items()}

    minute_stats.write(session, actor="housekeeping:w1")
    session.commit()
    make_job(session, kind="a.b")
    session.commit()
    assert line() == {"a.b": {"enqueued": 1}}

    stage = make(session, "bad-deploy")
    assert line() == {}
    [retried] = session.scalars(sa.select(Job.id).where(Job.status == "failed").limit(1))
    transitions.requeue(session, [retried], actor="user:ana")
    session.commit()
    with Cast(stage, database_url) as played:
        played.tick()
        played.tick()
    assert line()[MAIL] == {"requeued": 1, "claimed": 1, "succeeded": 1}
    # It is counted once.
    drilled = sa.select(JobEvent.data).where(JobEvent.data["drill"].is_not(None))
    lines = session.scalars(drilled.order_by(JobEvent.id.desc()).limit(2)).all()
    assert all(MAIL not in told["kinds"] for told in lines if "kinds" in told)

    clear(session)
    left = session.scalars(sa.select(JobEvent.data).where(JobEvent.event == "minute_stats")).all()
    assert not any({"drill", "after_drill"} & {*told} for told in left)


def test_right_after_what_the_banner_advises_it_advises_something_else(
    client: FlaskClient, session: Session, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And minutes after it the drill goes well."""
    monkeypatch.setattr("queueapp.commands.demo.incidents.cast._LINE_S", 0.0)
    stage = make(session, "poison")
    with Cast(stage, database_url) as played:
        ids = session.scalars(sa.select(Job.id).where(Job.error_class == "TemplateError")).all()
        assert len(transitions.cancel(session, ids, actor="user:ana")) == 212
        session.commit()
        after = verdict(client)
        for _ in range(20):
            played.tick()
        later = verdict(client)

    assert "no job of mail.send is failed or waits for a retry any more" in after["sentence"]
    assert "this clears by itself by " in after["sentence"]
    assert after["next_step"].startswith("Nothing more")
    assert (later["level"], later["rule"]) == ("green", "healthy")
    clear(session)

    stage = make(session, "retry-storm")
    with Cast(stage, database_url) as played:
        control.hold_kind(session, MAIL, actor="user:ana", reason="it is down")
        session.commit()
        played.tick()
        held = verdict(client)
        control.unhold_kind(session, MAIL, actor="user:ana", spread_s=600)
        session.commit()
        after = verdict(client)

    assert held["next_step"].startswith("Unhold it when")
    assert "its hold was lifted by user:ana 0." in after["sentence"]
    assert after["next_step"].startswith("Wait for its first attempts")
    clear(session)

    make(session, "bad-deploy")
    ids = session.scalars(sa.select(Job.id).where(Job.status == "failed")).all()
    transitions.requeue(session, ids, actor="user:ana")
    session.commit()
    after = verdict(client)
    assert "its jobs were retried, at least 300 jobs have not run" in after["sentence"]
    assert after["next_step"].startswith("Wait for what they come to")


def test_an_incident_is_left_and_removed_by_command(
    runner: FlaskCliRunner, client: FlaskClient, session: Session
) -> None:
    left = run(runner, "paused", "--leave")

    assert left.exit_code == 0, left.output
    assert "It says   RED Paused: The queue was paused by user:ana 14 h" in left.output
    assert "Expected" not in left.output
    assert verdict(client)["rule"] == "paused"

    # What is put on hold in an incident ends with it, and what was lifted was never there.
    control.hold_kind(session, MAIL, actor="user:ana", reason="drill")
    control.resume(session, actor="user:ana")
    session.commit()
    gone = run(runner, "--clear")
    assert (gone.exit_code, gone.output) == (0, "Removed 231 jobs.\n")
    assert verdict(client)["rule"] == "healthy"
    assert control.in_force(session).latest == {}
    assert run(runner, "--clear").output == "There was no incident.\n"


def test_the_list_says_what_to_see_and_to_do(runner: FlaskCliRunner) -> None:
    said = runner.invoke(args=["demo", "incident", "--list"]).output

    for name, told in INCIDENTS.items():
        assert f"{name}\n  verdict   {told.rule} ({told.level})\n" in said
    assert said.count("you see") == said.count("you do") == said.count("clicks") == len(INCIDENTS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one incident"),
        (("paused", "--clear"), "name one incident"),
        (("locked", "--leave"), "a lock ends with its process"),
        (("meteor",), "Invalid value for '[INCIDENT]': 'meteor' is not one of"),
    ],
)
def test_what_makes_no_sense_is_refused(
    runner: FlaskCliRunner, words: tuple[str, ...], said: str
) -> None:
    refused = run(runner, *words)

    assert refused.exit_code == 2
    assert said in refused.stderr


def test_options_before_its_name_are_refused(runner: FlaskCliRunner) -> None:
    refused = runner.invoke(args=["demo", "--port", "8080", "incident", "--list"])

    assert refused.exit_code == 2
    assert "put the options behind incident" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"QUEUE_ENV": "production"}, "does not run in production"),
        ({}, "DATABASE_URL is set"),
    ],
)
def test_it_is_made_for_play_only(
    database_url: str, session: Session, settings: dict[str, str], said: str
) -> None:
    runner = create_app({"DATABASE_URL": database_url, **settings}).test_cli_runner()

    refused = runner.invoke(args=["demo", "incident", "paused", "--leave"])

    assert refused.exit_code == 1
    assert said in refused.stderr
    assert count(session) == 0


def test_it_keeps_away_from_real_workers_and_from_jobs_that_are_somebodys(
    runner: FlaskCliRunner, session: Session
) -> None:
    make_job(session, kind=MAIL)
    session.commit()
    refused = run(runner, "poison", "--leave")
    assert refused.exit_code == 1
    assert "are due that are no drill's" in refused.stderr
    # Nothing was touched, and of what was made nothing is left.
    assert (count(session), count(session, Job.status == "queued")) == (1, 1)

    Scene(session).worker("web-1:7:aa")
    refused = run(runner, "paused", "--leave")
    assert "worker:web-1:7:aa works on this database" in refused.stderr


def test_one_incident_at_a_time_is_made_in_a_database(
    runner: FlaskCliRunner, session: Session, database_url: str
) -> None:
    with only_one(database_url, "no-workers"):
        for asked in (("paused", "--leave"), ("--clear",)):
            refused = run(runner, *asked)
            assert refused.exit_code == 1
            assert "an incident runs already (no-workers, since " in refused.stderr
            assert "end it with Ctrl-C first" in refused.stderr
    assert count(session) == 0
    assert run(runner, "--clear").exit_code == 0


def test_what_is_printed_has_no_password_and_yet_leads_to_the_database(tmp_path: Path) -> None:
    url = "postgresql+psycopg://ana:s3cret@127.0.0.1:5433/queue_drill"
    with written_down(url, tmp_path / "a b") as path:
        said = printed(url, path)
        assert "postgresql://ana:***@127.0.0.1:5433/queue_drill" in said
        assert "s3cret" not in said
        [worker] = re.findall(r"Worker    (.*) flask work", said)
        shell = ["sh", "-c", f"{worker} printenv DATABASE_URL"]
        got = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
        assert got.strip() == "postgresql://ana:s3cret@127.0.0.1:5433/queue_drill"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_the_console_of_a_drill_offers_no_command_that_works_elsewhere(
    app: Flask, client: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(session, "no-workers")
    paths = ("/", "/workers", f"/jobs/{session.scalar(sa.select(Job.id))}")
    assert all('data-copy="flask work"' in client.get(path).text for path in paths)

    settings = replace(app.extensions["queue_settings"], drill=True)
    monkeypatch.setitem(app.extensions, "queue_settings", settings)
    for page in (client.get(path).text for path in paths):
        assert 'data-copy="flask work"' not in page
        assert "is in the terminal of the drill" in page


def test_nobody_counts_in_a_drill_in_which_no_worker_lives(
    client: FlaskClient, session: Session, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.commands.demo.incidents.cast._LINE_S", 0.0)
    stage = make(session, "no-workers")

    with Cast(stage, database_url) as played:
        played.tick()

    pages = words(client.get("/").text)
    assert "came and ended per minute – not counted since" in pages
    assert "attempts that failed, 10 min – not counted since" in pages


def test_an_incident_whose_database_goes_away_says_so(engine: sa.Engine, session: Session) -> None:
    pid = session.scalar(sa.text("SELECT pg_backend_pid()"))
    with engine.connect() as other:
        other.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    with pytest.raises(ClickException, match="went away while it ran") as raised, told_if_gone():
        session.execute(sa.text("SELECT 1"))
    session.rollback()
    assert "DATABASE_URL, with --clear" in raised.value.message
    # What is wrong with a statement is no news of the database.
    with pytest.raises(sa.exc.ProgrammingError), told_if_gone():
        session.execute(sa.text("SELECT nonsense"))
    session.rollback()


def test_what_was_cancelled_ends_and_the_rest_is_worked_off(
    app: Flask, client: FlaskClient, session: Session, database_url: str
) -> None:
    stage = make(session, "slots-held")
    long = [claim.id for claim, _ in stage.leases]
    with Cast(stage, database_url) as cast:
        cast.tick()
        assert count(session, Job.status == "running", Job.id.in_(long)) == 3
        # For as long as it is played, nobody misses its workers.
        seen = words(client.get("/workers").text)

        transitions.cancel(session, long, actor="user:ana")
        session.commit()
        cast.tick()

    assert "3 live workers , 3 of 3 slots busy." in seen
    assert count(session, Job.status == "cancelled", Job.id.in_(long)) == 3
    assert count(session, Job.status == "succeeded", Job.kind == MAIL) > 2
    # What waits is worked off from here on.
    assert verdict(client)["rule"] == "falling_behind"


def test_holds_are_carried_out_and_lifted(session: Session, database_url: str) -> None:
    stage = make(session, "retry-storm")
    with Cast(stage, database_url) as cast:
        control.hold_kind(session, MAIL, actor="user:ana", reason="the provider is down")
        session.commit()
        cast.tick()
        assert count(session, Job.status == "held") == 240

        control.unhold_kind(session, MAIL, actor="user:ana")
        session.commit()
        cast.tick()
    assert count(session, Job.status == "held") == 0


def test_leases_of_a_dead_worker_end_by_themselves(session: Session, database_url: str) -> None:
    stage = make(session, "dead-worker")
    with Cast(stage, database_url) as cast:
        cast.tick()
        assert count(session, Job.status == "running") == 4

        session.execute(sa.update(Job).values(lease_expires_at=ago(1)).where(Job.kind == SYNC))
        session.commit()
        cast.tick()
    assert count(session, Job.status == "running") == 0


def test_the_page_of_a_job_that_takes_workers_down_says_so(
    client: FlaskClient, session: Session
) -> None:
    """It is where the banner leads, and nothing beside it says to wait."""
    make(session, "killer")
    job_id = session.scalar(sa.select(Job.id).where(Job.kind == IMPORT))

    page = words(client.get(f"/jobs/{job_id}").text)

    assert f"Worker killer. Job {job_id} ({IMPORT}) was running when 3 workers vanished" in page
    assert "Hold or cancel the job before it takes the next worker." in page
    assert "its handler never came to report an error" in page
    assert "How its worker was lost" in page
    assert "its worker was lost while it ran, and it waits to be tried again" in page
    assert "lease_lost" not in page.partition("Attempts")[0]
    assert "Last error" not in page
    assert "Wait until it is due" not in page
    assert "Find out what became of its workers" not in page


def test_a_pause_and_jobs_of_others_are_left_alone(session: Session, database_url: str) -> None:
    stage = make(session, "paused")
    with Cast(stage, database_url) as cast:
        cast.tick()
        assert count(session, Job.status != "queued") == 0

        control.resume(session, actor="user:ana")
        session.commit()
        cast.tick()
        assert count(session, Job.status == "succeeded") == 9

        make_job(session, kind=MAIL, priority=9)
        session.commit()
        with pytest.raises(NotOurs):
            cast.tick()
    assert count(session, Job.status == "running") == 0


def test_the_lock_keeps_everybody_from_claiming_and_is_seen(
    client: FlaskClient, session: Session, database_url: str
) -> None:
    stage = make(session, "locked")
    with workers_wait(database_url, CREW) as waits:
        locks = _reading(client, "locks")
        while "No connection" in locks["sentence"]:
            locks = _reading(client, "locks")

        assert "(psql, " in locks["sentence"]
        # What the verdict blames is bad there, and nothing else is said to be the cause.
        found = until(lambda: _of_lock(client), "the lock is named")
        assert re.search(
            r"3 connections of the queue wait for a lock that psql \(pid \d+, role \w+\) holds, in"
            r" a transaction open since 20.* UTC, for \d",
            found["sentence"],
        )
        assert (found["rule"], found["also"]) == ("stalled", [])
        assert found["next_path"] == "/system#reading-locks"
        assert _reading(client, "locks")["tone"] == "bad"
        # As the page says; then workers go on by themselves.
        end = locks["command"].rstrip(";")
        with Cast(stage, database_url, is_blocked=waits) as cast:
            cast.tick()
            assert count(session, Job.status == "succeeded") == 2
            session.execute(sa.text(end))
            session.commit()
            while waits():
                pass
            cast.tick()
    assert count(session, Job.status == "succeeded") == 11
    assert "No connection" in _reading(client, "locks")["sentence"]


def _of_lock(client: FlaskClient) -> dict[str, Any] | None:
    found = verdict(client)
    return found if found["evidence"]["lock_waits"] == 3 else None


def _reading(client: FlaskClient, code: str) -> dict[str, Any]:
    readings: list[dict[str, Any]] = client.get("/api/system").get_json()["readings"]
    return next(one for one in readings if one["code"] == code)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_is_played_with_a_console_of_its_own_until_it_ends(
    database_url: str, session: Session
) -> None:
    words = ["demo", "incident", "slots-held", "--into-database-url", "--duration", "3s"]
    done = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", *words],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "(whole, with its password, in /" in done.stdout
    assert re.search(r"Open      http://127\.0\.0\.1:\d+/\n  It says   RED Stalled: ", done.stdout)
    assert re.search(r"\d\d:\d\d:\d\d  RED Stalled\n", done.stdout)
    assert done.stdout.endswith("The incident is over and removed.\n")
    assert count(session) == 0
