"""GET /api/verdict, /healthz and ``flask verdict``: one verdict, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy.orm import Session

from queueapp import create_app, judgement, local_postgres
from queueapp.errors import SettingError
from queueapp.jobs.status import Event
from queueapp.jobs.verdict import Thresholds
from queueapp.jobs.verdict.thresholds import KINDS, shown
from queueapp.local_postgres import LocalPostgresUnavailable
from tests.api.conftest import body
from tests.applications import NOWHERE, application
from tests.scenes import Scene


@pytest.fixture
def scene(session: Session) -> Scene:
    return Scene(session)


def test_everybody_is_given_the_same_verdict(
    client: FlaskClient, runner: FlaskCliRunner, scene: Scene
) -> None:
    scene.worker()
    scene.minutes(claimed=100, retries=60, succeeded=75, retry_scheduled=25, upto=70)
    job = scene.due(200)
    slow = scene.running(150)

    found = body(client.get("/api/verdict"))
    health = body(client.get("/healthz"))
    said = runner.invoke(args=["verdict"])
    as_json = runner.invoke(args=["verdict", "--json"])

    assert (found["level"], found["rule"], found["title"]) == ("red", "stalled", "Stalled")
    assert found["next_path"] == "/#longest"
    assert found["evidence"]["oldest_due_id"] == job.id
    assert found["evidence"]["longest_id"] == slow.id
    assert found["evidence"]["oldest_due_at"].endswith("Z")
    also = [(one["rule"], one["level"]) for one in found["also"]]
    assert also == [("retry_storm", "amber"), ("failing", "amber")]
    assert found["notes"] == []
    assert found["since"] < found["as_of"]
    assert (health["status"], health["verdict"], health["rule"]) == ("ok", "red", "stalled")
    assert said.exit_code == as_json.exit_code == 2
    first, since, step, storm, failing = said.output.splitlines()
    assert first.startswith(f"RED Stalled: Job {job.id} (demo.echo) is due for 3 min 2")
    assert since.startswith("Since: ")
    assert step.endswith("cancel what is stuck. /#longest")
    assert storm.startswith("Also: amber Retry storm: 60 % of 400 starts")
    assert failing.startswith("Also: amber Failing: 25 % of 900 attempts")
    for line, one in zip((storm, failing), found["also"], strict=True):
        assert f". Since {one['since']}. Next: " in line
    assert json.loads(as_json.output)["rule"] == "stalled"

    # It is over: a note, for whoever asks.
    scene.minutes(1, succeeded=60)
    [note] = body(client.get("/api/verdict"))["notes"]
    assert runner.invoke(args=["verdict"]).output.splitlines()[-1] == f"Note: {note}"
    assert note.startswith("Failing is over: ")


@pytest.mark.parametrize(
    ("make", "level", "status"),
    [
        (lambda scene: scene.worker(), "green", 0),
        (lambda scene: scene.event(Event.QUEUE_PAUSED, "queue", 9), "amber", 1),
        (lambda _: None, "red", 2),
    ],
)
def test_the_exit_status_is_the_level(
    runner: FlaskCliRunner, scene: Scene, make: Callable[[Scene], Any], level: str, status: int
) -> None:
    if level == "amber":
        scene.worker()
    make(scene)
    scene.due(30)

    done = runner.invoke(args=["verdict", "--json"])

    assert (json.loads(done.output)["level"], done.exit_code) == (level, status)


def test_the_settings_decide(database_url: str, scene: Scene) -> None:
    scene.worker("w1")
    scene.event(Event.QUEUE_PAUSED, "queue", 500)
    scene.due(300)
    settings = {"QUEUE_EXPECTED_WORKERS": "2", "QUEUE_VERDICT": "paused=2m, failing=30%"}
    with application(database_url, **settings) as app:
        found = body(app.test_client().get("/api/verdict"))

    assert (found["rule"], found["level"]) == ("paused", "red")
    assert [one["rule"] for one in found["also"]] == ["few_workers"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stalled", "name=value"), ("nothing=5s", "name=value"), ("stalled=5%", "duration"),
        ("failing=20", "such as 20%"), ("failing=120%", "such as 20%"), ("least=0", "1 to"),
    ],
)  # fmt: skip
def test_a_threshold_that_cannot_be_is_named(text: str, said: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_VERDICT") as found:
        create_app({"DATABASE_URL": "postgresql://nowhere/none", "QUEUE_VERDICT": text})
    assert said in str(found.value)


def test_the_defaults_can_be_written_as_they_are_shown() -> None:
    from queueapp.config.readers import thresholds

    text = " ".join(f"{name}={shown(name, getattr(Thresholds(), name))}" for name in KINDS)
    assert thresholds(text) == Thresholds()


def test_without_a_database_it_is_unknown_and_the_process_well(
    elsewhere: Callable[[], Flask],
) -> None:
    app = elsewhere()

    found = body(app.test_client().get("/api/verdict"))
    done = app.test_cli_runner().invoke(args=["verdict"])

    assert (found["level"], found["also"]) == ("unknown", [])
    assert "the database does not answer" in found["sentence"]
    assert done.exit_code == 3
    assert done.output.startswith("UNKNOWN Unknown: The queue could not be read")
    assert "Next: Does PostgreSQL run at 127.0.0.1:1/none," in done.output


def test_a_database_that_cannot_be_started_is_not_known_either(
    runner: FlaskCliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other exit status would say that something was seen."""

    def look(_app: Flask) -> None:
        raise LocalPostgresUnavailable("no PostgreSQL is installed here")

    monkeypatch.setattr(judgement, "look", look)

    done = runner.invoke(args=["verdict"])

    assert done.exit_code == 3
    assert "no PostgreSQL is installed here" in done.output


@pytest.fixture
def elsewhere() -> Any:
    """An application whose database is nowhere."""
    with application(NOWHERE) as app:
        yield lambda: app


@pytest.mark.parametrize(
    ("env", "said", "step"),
    [
        ("production", "DATABASE_URL is not set", "Set DATABASE_URL where this process is started"),
        ("development", "none is installed", "Do one of what it names, then start the command"),
    ],
)
def test_what_to_do_without_a_database_fits_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, env: str, said: str, step: str
) -> None:
    def start(_home: Path) -> None:
        raise LocalPostgresUnavailable("none is installed")

    monkeypatch.setattr(local_postgres, "start", start)
    monkeypatch.delenv("DYNO", raising=False)
    app = create_app({"DATABASE_URL": "", "QUEUE_ENV": env, "TESTING": True})

    done = app.test_cli_runner().invoke(args=["verdict"])

    assert done.exit_code == 3
    first, following = done.output.splitlines()
    assert said in first
    assert following.startswith(f"Next: {step}")
    # Nothing runs there that could have ended.
    assert "instance/" not in following
