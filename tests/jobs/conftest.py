"""Connections as the worker has them: autocommit, with the settings of its sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from queueapp.connections import WORKER_SESSION


@pytest.fixture
def worker_engine(database_url: str) -> Iterator[sa.Engine]:
    session = {"options": WORKER_SESSION, "prepare_threshold": 1}
    engine = sa.create_engine(
        database_url,
        isolation_level="AUTOCOMMIT",
        connect_args={} if database_url.startswith("sqlite") else session,
    )
    yield engine
    engine.dispose()


@pytest.fixture
def worker(worker_engine: sa.Engine) -> Iterator[sa.Connection]:
    with worker_engine.connect() as connection:
        yield connection
