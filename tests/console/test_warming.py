"""A web process makes ready what its first page needs, and starts all the same where it cannot."""

from __future__ import annotations

import logging
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, template_rendered
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.console import warming
from queueapp.extensions import db
from queueapp.jobs.status import Status
from tests.factories import make_job
from tests.jobs.plans import statements_of

ROOT = Path(__file__).parents[2]
CONF = ROOT / "gunicorn.conf.py"


def make_ready(app: Any) -> None:
    thread = warming.begin(app)
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()


def compiled(app: Flask) -> set[str]:
    assert app.jinja_env.cache is not None
    return {name for _, name in app.jinja_env.cache}


@pytest.mark.postgresql("statements")
def test_the_first_page_compiles_and_reads_nothing(fresh_app: Flask, session: Session) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    for name in ("queue_look", "queue_overview", "queue_counts", "queue_kinds", "queue_causes"):
        fresh_app.extensions[name].life_s = 600.0
    with fresh_app.app_context():
        engine = db.engine

    make_ready(fresh_app)

    known, used = compiled(fresh_app), set[str]()
    with (
        template_rendered.connected_to(lambda _, template, **__: used.add(template.name)),
        statements_of(engine) as sent,
    ):
        for path in ("/", "/kinds"):
            assert fresh_app.test_client().get(path).status_code == 200
    assert sent == []
    assert {"pages/now.html", "pages/kinds.html"} == used
    assert compiled(fresh_app) == known


def test_without_the_database_nothing_is_waited_for_or_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app({"DATABASE_URL": "postgresql://127.0.0.1:1/none", "TESTING": True})

    with caplog.at_level(logging.WARNING):
        make_ready(app)

    assert caplog.messages == []
    assert "pages/now.html" in compiled(app)
    # Whoever asks is told of now.
    assert app.test_client().get("/").status_code == 503
    with app.app_context():
        db.engine.dispose()


@pytest.mark.parametrize("address", ["", "sqlite:///{home}/queue.db"])
def test_no_database_is_made_before_it_is_needed(tmp_path: Path, address: str) -> None:
    url = address.format(home=tmp_path)
    app = create_app({"DATABASE_URL": url, "INSTANCE_PATH": tmp_path / "home", "TESTING": True})

    make_ready(app)

    assert list(tmp_path.rglob("*")) == []
    assert "pages/now.html" in compiled(app)


def test_what_goes_wrong_is_told_and_keeps_nobody_from_being_served(
    fresh_app: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_name: str) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(fresh_app.jinja_env, "get_template", fail)
    make_ready(fresh_app)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "could not be made ready" in caplog.text


def test_a_process_of_gunicorn_is_made_ready_and_its_master_loads_nothing(
    fresh_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(warming, "begin", begun.append)

    runpy.run_path(str(CONF))["post_worker_init"](SimpleNamespace(wsgi=fresh_app))

    assert begun == [fresh_app]
    loads = f"import runpy, sys; runpy.run_path({str(CONF)!r}); print('queueapp' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", loads], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert said.stdout == "False\n"


def test_another_application_is_left_alone() -> None:
    assert warming.begin(Flask("host")) is None
    assert warming.begin(lambda *_: []) is None
