"""What every test may ask for: a database of its own worker, the application over it, a session.

Each test begins with two empty tables. Warnings are errors, so every engine is disposed of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy.orm import Session

from tests import postgres

_SERVER = pytest.StashKey[postgres.Server]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_configure(config: pytest.Config) -> None:
    _forget_settings()
    if not hasattr(config, "workerinput"):
        config.stash[_SERVER] = postgres.Server()


def _forget_settings() -> None:
    """The settings of the person who runs the tests are not part of the tests."""
    for name in list(os.environ):
        if name.startswith(("QUEUE_", "JOB_WORKER_")) or name in ("DATABASE_URL", "DYNO"):
            del os.environ[name]


def pytest_report_header(config: pytest.Config) -> str:
    server = config.stash.get(_SERVER, None)  # a worker of a parallel run has none
    return f"database: {server.describe()}" if server else ""


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SERVER in config.stash:
        config.stash[_SERVER].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each worker of a parallel run where the one template is."""
    node.workerinput["template_url"] = node.config.stash[_SERVER].template_url


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def _clone(request: pytest.FixtureRequest) -> str:
    config = request.config
    if hasattr(config, "workerinput"):
        return postgres.clone(config.workerinput["template_url"], config.workerinput["workerid"])
    return postgres.clone(config.stash[_SERVER].template_url, "main")


@pytest.fixture
def database_url(_clone: str) -> Iterator[str]:
    """The address of a migrated database with empty tables; emptied again after the test."""
    yield _clone
    postgres.empty(_clone)


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    from queueapp import create_app
    from queueapp.extensions import db

    app = create_app({"DATABASE_URL": database_url, "TESTING": True})
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def runner(app: Flask) -> FlaskCliRunner:
    return app.test_cli_runner()


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[Session]:
    """A session of its own; what the test does not commit is rolled back."""
    with Session(engine) as session:
        yield session
