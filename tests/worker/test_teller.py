"""The lines about settled jobs: told beside the pump, in order, and few of them waiting."""

from __future__ import annotations

import datetime as dt
import logging
from functools import partial
from uuid import uuid4

import pytest

from queueapp.jobs.claim import Claim
from queueapp.jobs.transitions import Outcome
from queueapp.worker.story import Settled
from queueapp.worker.teller import MOST_TURNS, Teller
from tests.live.processes import until

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def settled(job: int) -> list[Settled]:
    """What a turn says of one job."""
    claim = Claim(job, "test.echo", "{}", 0, NOW, NOW, NOW, 1, 5, 0, None, uuid4(), True)
    return [(claim, Outcome(job, claim.token, "succeed", NOW, ran_s=0.001), "succeeded")]


def told(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The jobs told of."""
    return [int(record.message.split()[1]) for record in caplog.records]


def is_told(caplog: pytest.LogCaptureFixture, last: int) -> bool:
    """Whether all jobs up to ``last`` are told of, in order."""
    return told(caplog) == list(range(1, last + 1))


@pytest.fixture
def teller(caplog: pytest.LogCaptureFixture) -> Teller:
    """One that is not running yet."""
    caplog.set_level(logging.INFO, "queueapp.worker")
    return Teller(lambda name: pytest.fail(f"{name} gave up"))


def test_turns_are_told_in_order_by_a_thread_of_its_own(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for them as long as there are none."""
    teller.start()
    for job in range(1, 4):
        teller.settled(settled(job))
        until(partial(is_told, caplog, job), "it is told")
    teller.stop()
    teller.join()
    assert {record.threadName for record in caplog.records} == {"log"}


def test_slow_reader_of_the_log_slows_the_pump(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    """No more wait than a few turns: then the pump tells them itself."""
    for job in range(1, MOST_TURNS + 1):
        teller.settled(settled(job))
    assert told(caplog) == []
    teller.settled(settled(MOST_TURNS + 1))
    assert told(caplog) == list(range(1, MOST_TURNS + 2))


def test_turn_that_settled_nothing_wakes_nobody(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    """An idle worker's turns cost no thread a look."""
    for _ in range(MOST_TURNS + 1):
        teller.settled([])
    assert teller.tell() > 1
    assert told(caplog) == []
