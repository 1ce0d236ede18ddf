"""Rates that are counted in a Redis: one bucket for all web processes, and none that stops them."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from queueapp.auth.tokens import entry_of
from queueapp.local_postgres import free_port
from tests.applications import application
from tests.live import needs
from tests.live.processes import until


class Redis:
    """A server on a free port of this machine, which keeps nothing."""

    def __init__(self, folder: Path) -> None:
        program = needs.program("redis-server")
        self.port = free_port()
        self._process = subprocess.Popen(
            [str(program), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        until(self._answers, "Redis listens")

    def _answers(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def processes(database_url: str, redis: Redis) -> Iterator[list[FlaskClient]]:
    """Two web processes, as far as their buckets go."""
    settings = {
        "QUEUE_TOKENS": entry_of("shop-t", "shop", "producer", ["rate=1/h", "burst=3"]),
        "QUEUE_RATE_STORE": f"redis://127.0.0.1:{redis.port}/0",
    }
    with application(database_url, **settings) as one, application(database_url, **settings) as two:
        yield [one.test_client(), two.test_client()]


def post(client: FlaskClient) -> Any:
    headers = {"Authorization": "Bearer shop-t"}
    return client.post("/api/jobs", json={"kind": "demo.echo"}, headers=headers)


def test_all_processes_take_from_one_bucket(processes: list[FlaskClient]) -> None:
    first, second = processes

    taken = [post(client).status_code for client in (first, second, first, second, first)]

    assert taken == [201, 201, 201, 429, 429]


def test_a_store_that_is_gone_holds_nobody_up(
    processes: list[FlaskClient], redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    before = [post(processes[0]).status_code for _ in range(4)]
    redis.kill()

    after = [post(client).status_code for client in processes]

    assert (before, after) == ([201, 201, 201, 429], [201, 201])
    assert "QUEUE_RATE_STORE does not answer, token:shop goes on" in caplog.text
