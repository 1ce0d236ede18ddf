"""A worker whose loops fail goes on, or ends in a way that its platform sees. It never lives on
without working."""

from __future__ import annotations

import pytest

from tests.live import broken_loops
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

HANDLERS = "tests.live.kinds,tests.live.broken_loops"

# The odd errors of the first claims, counted in a sequence: a rollback does not undo it.
ODD_CLAIMS = """
CREATE SEQUENCE odd_claims;
CREATE FUNCTION odd_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('odd_claims') <= 3 THEN
    RAISE EXCEPTION 'odd' USING ERRCODE = (ARRAY['XX000', '0A000', '23514'])[
      currval('odd_claims')];
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER odd_claim BEFORE UPDATE ON jobs FOR EACH ROW
  WHEN (NEW.status = 'running' AND OLD.status = 'queued') EXECUTE FUNCTION odd_claim();
"""
NO_ODD_CLAIMS = "DROP FUNCTION odd_claim() CASCADE; DROP SEQUENCE odd_claims"


def broken(journey: Journey, loops: str, *, ready: bool = True) -> Process:
    settings = {"QUEUE_HANDLERS": HANDLERS, broken_loops.VARIABLE: loops}
    return journey.work("--lease=1", "--concurrency=2", ready=ready, **settings)


def test_every_loop_survives_a_fault_an_odd_error_and_a_row_that_nobody_can_read(
    journey: Journey,
) -> None:
    once = "MemoryError*1,lease keeper=SystemExit*1,housekeeping=RecursionError*1"
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(ODD_CLAIMS)
    try:
        odd = journey.enqueue_one("journey.tick", max_attempts=2)
        # What the driver cannot turn into an instant, in a column that every claim returns.
        journey.rows(
            "UPDATE jobs SET created_at = 'infinity' WHERE id = %(id)s RETURNING 1", id=odd
        )
        worker = broken(journey, f"pump={once},retention=KeyError*1,instants=unread")
        last = journey.enqueue("journey.tick", count=5)[-1]

        journey.wait_for_status(last, "succeeded", within=60)
        until(lambda: _status(journey, odd) == "failed", "the odd row ends")
    finally:
        worker.stop()
        with journey.engine.begin() as connection:
            connection.exec_driver_sql(NO_ODD_CLAIMS)
    readable = "UPDATE jobs SET created_at = available_at WHERE id = %(id)s RETURNING 1"
    journey.rows(readable, id=odd)

    for loop in ("pump", "lease keeper", "housekeeping"):
        assert f"{loop} failed (1 in a row)" in worker.said()
    assert journey.ledger.starts(odd) == []
    journey.work()
    stand(journey, every_claim_started=False, edited=[odd])


def _status(journey: Journey, job: int) -> str:
    status: str = journey.one("SELECT status FROM jobs WHERE id = %(id)s", id=job)
    return status


@pytest.mark.slow
def test_worker_whose_loop_only_fails_or_hangs_ends_with_an_error(journey: Journey) -> None:
    ends = {
        "pump=MemoryError": "pump died",
        "lease keeper=SystemExit": "lease keeper died",
        "housekeeping=RuntimeError": "housekeeping died",
        "pump=hang": "pump hangs",
    }
    workers = {how: broken(journey, how, ready=False) for how in ends}

    for how, end in ends.items():
        assert workers[how].wait(within=90) == 1
        assert f"stopped: {end}" in workers[how].said()

    # The platform starts another one.
    job = journey.enqueue_one("journey.tick")
    journey.work()
    journey.wait_for_status(job, "succeeded")
    stand(journey)


@pytest.mark.slow
def test_worker_whose_end_is_stuck_ends_all_the_same_and_says_where(journey: Journey) -> None:
    """As when the driver turns for ever on a connection whose descriptor a handler has closed."""
    worker = broken(journey, "shutdown=spin")

    assert worker.stop() == 1

    assert "_spin" in worker.said()
    job = journey.enqueue_one("journey.tick")
    journey.work()
    journey.wait_for_status(job, "succeeded")
    stand(journey)
