"""What tests of the live product may ask for: a queue with real processes, a server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.proxy import Proxy


@contextmanager
def opened(
    request: pytest.FixtureRequest,
    url: str,
    folder: Path,
    *,
    migrate: bool = False,
    **settings: str,
) -> Iterator[Journey]:
    """A queue whose processes are killed at the end. A test that passes must have called stand."""
    failed = request.session.testsfailed
    journey = Journey(url, folder, **settings)
    if migrate:
        upgrade = journey.processes.start("upgrade", "flask", "--app", "wsgi", "db", "upgrade")
        assert upgrade.wait() == 0, upgrade.said()
    yield journey
    journey.close()
    assert journey.stood or request.session.testsfailed > failed, "the standing checks are missing"


@pytest.fixture
def journey(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Journey]:
    """A queue of the test's own."""
    with opened(request, database_url, tmp_path) as journey:
        yield journey


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A durable server that the test may kill."""
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.remove()


@pytest.fixture
def cluster_journey(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> Iterator[Journey]:
    """A queue on ``cluster``, its schema made by the command."""
    with opened(request, cluster.url, tmp_path, migrate=True) as journey:
        yield journey


@pytest.fixture
def proxy(journey: Journey) -> Iterator[Proxy]:
    """A proxy before the journey's database."""
    proxy = Proxy(journey.url)
    yield proxy
    journey.processes.close()
    proxy.close()


@pytest.fixture
def slow_updates(journey: Journey) -> Iterator[Callable[[float], None]]:
    """Make each write of a job's row take so many seconds: what can collide then does."""

    def slow_down(seconds: float) -> None:
        with journey.engine.begin() as connection:
            connection.exec_driver_sql(_SLOW.format(seconds=seconds))

    yield slow_down
    journey.processes.close()
    with journey.engine.begin() as connection:
        connection.exec_driver_sql("DROP FUNCTION slow_update() CASCADE")


_SLOW = """
CREATE FUNCTION slow_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$;
CREATE TRIGGER slow_update BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow_update()
"""
