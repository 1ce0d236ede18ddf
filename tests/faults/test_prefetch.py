"""Jobs that wait in a worker behind others: what becomes of them when they cannot begin."""

from __future__ import annotations

import signal

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until

# So many short runs let a worker of one thread hold as many jobs again.
WARM_UP = 40
BEHIND = 10

# Writing the start of the freezing job waits for whoever has this lock.
STUCK = """
CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
CREATE TRIGGER stuck BEFORE UPDATE ON jobs FOR EACH ROW
WHEN (NEW.kind = 'journey.freeze' AND NEW.attempts = 1 AND OLD.started_at IS NULL
  AND NEW.started_at IS NOT NULL AND NEW.status = 'running') EXECUTE FUNCTION stuck();
"""


def enqueue_slow_one(
    journey: Journey, kind: str, payload: dict[str, object] | None = None
) -> tuple[list[int], int]:
    """Short jobs and one of ``kind`` after them, all before what waits already."""
    short = journey.enqueue("journey.tick", count=WARM_UP, priority=1)
    return short, journey.enqueue_one(kind, payload, priority=1)


def handed_back_behind(journey: Journey, job: int, slow: int) -> int:
    """How often ``job`` was, once ``slow`` has run so long that nothing waits behind it."""

    def look() -> list[int]:
        rows = journey.rows(
            """
            SELECT (SELECT count(*) FROM job_events
                    WHERE job_id = waiting.id AND reason = 'prefetch_unused') AS often
            FROM jobs waiting, jobs slow
            WHERE waiting.id = %(job)s AND waiting.status = 'queued' AND slow.id = %(slow)s
              AND slow.started_at < clock_timestamp() - interval '1 s'""",
            job=job,
            slow=slow,
        )
        return [row.often for row in rows]

    return until(look, "it waits in no worker")[0]


def test_job_that_kills_its_process_takes_no_attempt_from_jobs_that_never_began(
    journey: Journey,
) -> None:
    """Also when they were handed back before, as often as a lease may be lost for nothing."""
    behind = journey.enqueue("journey.tick", count=BEHIND, max_attempts=1)
    before, gate = enqueue_slow_one(journey, "journey.gate")
    doomed = journey.work("--concurrency=1", "--lease=2", ready=False)
    while handed_back_behind(journey, behind[0], gate) < 3:
        more, following = enqueue_slow_one(journey, "journey.gate")
        before += [*more, gate]
        journey.open(gate)
        gate = following
    more, _ = enqueue_slow_one(journey, "journey.exit", {"with_claims": True})
    before += [*more, gate]
    journey.open(gate)
    until(lambda: not doomed.is_running, "the job has killed its process")
    taken = journey.rows(
        "SELECT attempts, started_at FROM jobs WHERE status = 'running' AND id = ANY(%(ids)s)",
        ids=behind,
    )
    assert taken, "nothing was prefetched"
    assert set(taken) == {(1, None)}

    journey.work("--lease=2", "--kinds=journey.tick")
    journey.wait_for_end(behind)

    ends = journey.rows(
        "SELECT DISTINCT status, attempts FROM jobs WHERE id = ANY(%(ids)s)", ids=behind
    )
    assert ends == [("succeeded", 1)]
    assert all(len(journey.ledger.starts(job)) == 1 for job in behind)
    stand(journey, accepted=before + behind, every_claim_started=False)


@pytest.mark.slow
@pytest.mark.parametrize("within_s", [10.0, 0.5])
def test_jobs_behind_a_slow_one_are_handed_to_an_idle_worker(
    journey: Journey, within_s: float
) -> None:
    """It neither polls nor finds them before they are given back: it is told."""
    idle = journey.work("--kinds=journey.tick", QUEUE_POLL="10m")
    idle.send(signal.SIGSTOP)
    journey.enqueue("journey.flaky", {"fail_first": 0}, count=WARM_UP)
    slow = journey.enqueue_one("journey.gate")
    behind = journey.enqueue("journey.tick", count=BEHIND)

    busy = journey.work("--concurrency=1", QUEUE_POLL="10m", ready=False)
    # It looks while they are in the other's hands, and finds nothing.
    until(lambda: journey.job(behind[-1]).status == "running", "they are prefetched")
    idle.send(signal.SIGCONT)
    journey.wait_for_end(behind)

    assert {start.pid for job in behind for start in journey.ledger.starts(job)} == {idle.pid}
    waits = journey.rows(
        """
        SELECT job_id, extract(epoch FROM max(created_at) - min(created_at)) AS seconds
        FROM job_events WHERE event = 'claimed' AND job_id = ANY(%(ids)s)
        GROUP BY job_id HAVING count(*) > 1""",
        ids=behind,
    )
    assert waits, "nothing was prefetched"
    assert max(row.seconds for row in waits) <= within_s
    reasons = journey.rows(
        "SELECT DISTINCT reason FROM job_events WHERE event = 'released' AND job_id = ANY(%(ids)s)",
        ids=behind,
    )
    assert reasons == [("prefetch_unused",)]
    journey.open(slow)
    journey.wait_for_status(slow, "succeeded")
    assert busy.is_running
    stand(journey, accepted=behind, every_claim_started=False)


def test_worker_that_was_frozen_begins_nothing_whose_lease_ran_out_meanwhile(
    journey: Journey,
) -> None:
    """What waited in it has run elsewhere, and its pump cannot say so yet."""
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(STUCK)
    behind = journey.enqueue("journey.tick", count=BEHIND)
    before, freezing = enqueue_slow_one(journey, "journey.freeze")
    with journey.engine.connect() as lock:
        lock.exec_driver_sql("SELECT pg_advisory_xact_lock(1)")
        frozen = journey.work("--concurrency=1", "--lease=2", ready=False)
        until(frozen.is_frozen, "it is frozen")
        waiting = journey.rows(
            "SELECT id FROM jobs WHERE status = 'running' AND started_at IS NULL"
            " AND id = ANY(%(ids)s)",
            ids=behind,
        )
        assert waiting, "nothing was prefetched"
        other = journey.work("--lease=2", "--kinds=journey.tick")
        journey.wait_for_end(behind)
        other.stop()
        frozen.send(signal.SIGCONT)
        until(lambda: journey.ledger.ends(freezing), "its thread is free")
    journey.wait_for_end([freezing])
    last = journey.enqueue_one("journey.tick")
    journey.wait_for_status(last, "succeeded")

    assert {start.pid for row in waiting for start in journey.ledger.starts(row.id)} == {other.pid}
    assert journey.ledger.starts(last)[0].pid == frozen.pid
    stand(journey, accepted=before + behind, every_claim_started=False, frozen=True)
