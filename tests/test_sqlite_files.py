"""The edges on a SQLite file: its address, its schema, and what a caller hears of a busy one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import flask_migrate
import pytest
import sqlalchemy as sa
from flask import Flask

from queueapp.database_address import database_url
from queueapp.errors import SettingError
from queueapp.jobs.sqlite import dialect
from queueapp.worker.alone import alone_on
from tests.applications import application
from tests.sqlite import migrated


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated(tmp_path / "queue.db")


@pytest.fixture
def app_on_file(url: str) -> Iterator[Flask]:
    with application(url) as app:
        yield app


def test_an_address_is_that_of_a_file_wherever_a_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert database_url("sqlite:///queue.db") == f"sqlite+queue:///{tmp_path}/queue.db"
    assert database_url("sqlite:////a/b.db") == "sqlite+queue:////a/b.db"
    assert database_url("sqlite+queue:////a/b.db") == "sqlite+queue:////a/b.db"


@pytest.mark.parametrize(
    "text", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:a?mode=memory"]
)
def test_a_database_that_processes_cannot_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a file that all processes can share"):
        database_url(text)


def test_the_models_and_the_migrated_file_agree(app_on_file: Flask) -> None:
    with app_on_file.app_context():
        flask_migrate.check()  # exits when they do not


def test_a_busy_file_is_503_and_try_again(
    monkeypatch: pytest.MonkeyPatch, app_on_file: Flask, url: str
) -> None:
    monkeypatch.setattr(dialect, "BUSY_S", 0.1)
    engine = sa.create_engine(url)
    with engine.begin() as writer:
        writer.exec_driver_sql("DELETE FROM jobs")

        answer = app_on_file.test_client().post("/api/jobs", json={"kind": "demo.echo"})
    engine.dispose()

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert b"locked" not in answer.data


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_without_tables_says_what_to_run(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "empty.db").touch()
    with application(f"sqlite:///{tmp_path}/empty.db") as app:
        answer = app.test_client().get("/api/jobs")

    assert answer.status_code == 503
    assert b"flask db upgrade" in answer.data
    assert (tmp_path / "empty.db").exists() == exists


def test_one_worker_has_the_file_until_it_ends(url: str) -> None:
    with alone_on(url), pytest.raises(SettingError, match="another flask work"), alone_on(url):
        pass
    with alone_on(url):
        pass
