"""What the README gives to be tried works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "orders" / "jobs.py"


def block(language: str, with_: str) -> str:
    """The one block of code in which something stands."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    [found] = [one for one in blocks if with_ in one]
    return str(found)


@pytest.fixture
def without_orders(engine: sa.Engine) -> Iterator[None]:
    yield
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS example_orders"))


def test_the_handler_and_the_order_are_those_of_the_example() -> None:
    assert block("python", "def place_order") in EXAMPLE.read_text()


@pytest.mark.postgresql("a shop that has its own tables beside the queue's")
@pytest.mark.usefixtures("without_orders")
def test_the_commands_place_orders_and_run_their_jobs(database_url: str, engine: sa.Engine) -> None:
    commands = block("sh", "examples.orders.place")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "lamp: ordered, job 1 mails the invoice" in said
    assert "chair: ordered, job 2 mails the invoice" in said
    assert "a mistake: taken back, and with it job 3" in said
    with engine.connect() as connection:
        orders = connection.execute(sa.text("SELECT item FROM example_orders ORDER BY id"))
        jobs = connection.execute(sa.text("SELECT status, result FROM jobs ORDER BY id"))
        assert orders.scalars().all() == ["lamp", "chair"]
        assert [tuple(row) for row in jobs] == [
            ("succeeded", "sent invoice 1"), ("succeeded", "sent invoice 2"),
        ]  # fmt: skip
    [head, *listed] = said[-3:]
    assert head.split()[:2] == ["ID", "STATUS"]
    assert [line.split()[1] for line in listed] == ["succeeded", "succeeded"]
