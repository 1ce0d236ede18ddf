"""A snapshot held elsewhere: nothing dead can be removed, and the queue goes on; it is seen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from queueapp.jobs.queries import oldest
from tests.live.checks import stand
from tests.live.journey import Journey

BATCH = 5_000
ROUNDS = 4


@contextmanager
def held_snapshot(engine: sa.Engine) -> Iterator[None]:
    """What a forgotten psql, a long report or a backup does."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(sa.text("SELECT count(*) FROM jobs"))
        yield
        connection.rollback()


def test_the_oldest_transaction_is_told_and_warned_of(
    client: FlaskClient, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oldest, "OLD_S", 0.001)
    assert client.get("/api/stats").get_json()["oldest_transaction_s"] is None
    assert client.get("/readyz").get_json()["warnings"] == []

    with held_snapshot(engine):
        age = client.get("/api/stats").get_json()["oldest_transaction_s"]
        [warning] = client.get("/readyz").get_json()["warnings"]

    assert 0 < age < 60
    assert "a transaction on this server has been open for 0 min" in warning
    assert client.get("/api/stats").get_json()["oldest_transaction_s"] is None


class Meter:
    """How fast a batch of jobs is done, and how many pages the whole database reads for each."""

    def __init__(self, journey: Journey) -> None:
        self._journey = journey
        self.read: dict[str, float] = {}

    def run(self, when: str) -> None:
        began, pages = time.monotonic(), self._pages()
        self._journey.enqueue("journey.tick", {"ms": 0}, count=BATCH)
        # Asking for one row costs little; asking for all of them would be what is measured.
        last = self._journey.enqueue_one("journey.tick", priority=-1)
        self._journey.wait_for_status(last, "succeeded", within=200)
        rate = BATCH / (time.monotonic() - began)
        self.read[when] = (self._pages() - pages) / BATCH
        sys.stdout.write(f"{when}: {rate:.0f} jobs/s, {self.read[when]:.0f} pages a job\n")

    def _pages(self) -> int:
        self._journey.one("SELECT pg_stat_clear_snapshot() IS NULL")
        count = "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)"
        # Backends tell what they have read when they come to rest, or after a second.
        time.sleep(2)
        return int(self._journey.one(f"{count} FROM pg_statio_user_tables"))


def must_find_one_behind_the_claims(journey: Journey) -> None:
    """Looks at everything are dear now and so come seldom: within seconds all the same."""
    long_ago = journey.one("SELECT clock_timestamp() - interval '365 days'")
    backlog = journey.enqueue("journey.tick", {"ms": 50}, count=4_000)
    journey.wait_for_start(backlog[0])
    behind = journey.enqueue_one("journey.tick", available_at=long_ago)
    journey.wait_for_status(behind, "succeeded", within=10)
    assert journey.job(backlog[-1]).status == "queued", "it was found when nothing else was left"
    journey.wait_for_end(backlog, within=120)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_jobs_under_a_held_snapshot_cost_no_more_than_before(
    journey: Journey,
) -> None:
    worker = journey.work("--concurrency", "8")
    meter = Meter(journey)
    meter.run("before")
    meter.run("before, again")
    with held_snapshot(journey.engine):
        for number in range(1, ROUNDS + 1):
            meter.run(f"held, after {number * BATCH} jobs")
        must_find_one_behind_the_claims(journey)
    with journey.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM jobs"))
    meter.run("released")

    held = [pages for when, pages in meter.read.items() if when.startswith("held")]
    plain = [pages for when, pages in meter.read.items() if not when.startswith("held")]
    # What cannot be removed is not walked again. How many jobs a turn has on a busy machine moves
    # the pages of a job by half; walking dead entries would double them with each round.
    assert max(held) < 2 * max(plain)
    assert max(held[-2:]) < 1.5 * max(held[:2])
    assert plain[-1] < 2 * plain[0]
    assert worker.is_running
    stand(journey)
