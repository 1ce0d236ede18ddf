"""What every test may ask for: a database, the application over it, a session.

Each test begins with two empty tables. Warnings are errors, so every engine is disposed of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from sqlalchemy.orm import Session

from tests import order, postgres, sqlite

pytest_plugins = ("tests.live.fixtures",)

_SERVER = pytest.StashKey[postgres.Server | sqlite.File]()
_APP = pytest.StashKey[Flask]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_configure(config: pytest.Config) -> None:
    _forget_settings()
    config.stash[_SERVER] = sqlite.File() if sqlite.is_chosen() else postgres.Server()


def _forget_settings() -> None:
    """The settings of the person who runs the tests are not part of the tests."""
    for name in list(os.environ):
        if name.startswith(("QUEUE_", "JOB_WORKER_")) or name in ("DATABASE_URL", "DYNO"):
            del os.environ[name]


def pytest_report_header(config: pytest.Config) -> str:
    return f"database: {config.stash[_SERVER].describe()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if _APP in config.stash:
        _dispose(config.stash[_APP])
    if _SERVER in config.stash:
        config.stash[_SERVER].close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if sqlite.is_chosen():
        sqlite.skip_what_is_about_postgresql(items)
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = order.mixed(items)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a migrated database with empty tables; emptied again after the test."""
    server = request.config.stash[_SERVER]
    yield server.database_url
    server.empty(server.database_url)


@pytest.fixture
def app(request: pytest.FixtureRequest, database_url: str) -> Flask:
    """The application over the empty database: one for all tests that do not change it."""
    from queueapp.handlers import Policy, configure

    stash = request.config.stash
    if _APP not in stash:
        stash[_APP] = _make_app(database_url)
    # The policy is the process's: an application with other settings has put its own into force.
    configure(Policy())
    return stash[_APP]


@pytest.fixture
def fresh_app(database_url: str) -> Iterator[Flask]:
    """An application of the test's own, which may add routes and break things."""
    app = _make_app(database_url)
    yield app
    _dispose(app)


def _make_app(database_url: str) -> Flask:
    from queueapp import create_app

    return create_app({"DATABASE_URL": database_url, "TESTING": True})


def _dispose(app: Flask) -> None:
    from queueapp.extensions import db

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
