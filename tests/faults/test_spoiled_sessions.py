"""What a handler leaves behind in a session, a connection or a thread: no other job meets it."""

from __future__ import annotations

from tests.live.checks import stand
from tests.live.journey import Journey

MISBEHAVING = "tests.live.kinds,tests.live.misbehaving"

SPOILERS = (
    "swallow", "write, raise", "write, return", "write, close", "lock, raise", "lock, return",
    "set, commit", "set, commit, raise",
)  # fmt: skip
# In the job's own session what was written is committed with its success, or neither is: a
# transaction that has failed cannot be committed.
SPOILED_OWN = ("swallow", *(name for name in SPOILERS if "raise" in name))
SPOILED_SHARED = tuple(name for name in SPOILERS if "raise" in name)
WRITTEN = "SELECT reason FROM job_events WHERE scope = 'op:test'"


def test_spoiled_session_spoils_nothing_else(journey: Journey) -> None:
    journey.work("--concurrency", "1", QUEUE_HANDLERS=MISBEHAVING)
    first = journey.enqueue_one("journey.uses")
    spoilers: dict[tuple[str, bool], int] = {}
    good: list[int] = []
    for own in (False, True):
        for name in SPOILERS:
            wanted = {"what": name, "own": own}
            spoilers[name, own] = journey.enqueue_one("journey.spoils", wanted, max_attempts=1)
            good += journey.enqueue("journey.uses", count=10)
    journey.wait_for_end([first, *good])

    for (name, own), job in spoilers.items():
        failing = name in (SPOILED_OWN if own else SPOILED_SHARED)
        row = journey.job(job)
        assert row.status == ("failed" if failing else "succeeded"), (name, own, row.error_message)
        assert len(journey.ledger.starts(job)) == 1
    rows = journey.rows("SELECT status, result FROM jobs WHERE kind = 'journey.uses'")
    assert {row.status for row in rows} == {"succeeded"}
    # Time-out, search path, temporary tables and locks are those of a fresh session.
    fresh = journey.job(first).result
    assert fresh[0][2:] == [None, 0]
    assert all(row.result == fresh for row in rows)
    assert {row.reason for row in journey.rows(WRITTEN)} == {"write, return, own"}
    stand(journey)


def test_context_that_a_handler_leaves_behind_ends_with_its_job(journey: Journey) -> None:
    journey.work("--concurrency", "1", QUEUE_HANDLERS=MISBEHAVING)
    # More often than there are connections in the application's pool.
    leaks = [
        journey.enqueue_one("journey.leaks", {"what": what}, max_attempts=1)
        for what in ("application", "request", "popped") * 6
    ]
    good = journey.enqueue("journey.uses", count=10)
    journey.wait_for_end([*leaks, *good])

    assert {journey.job(job).status for job in [*leaks, *good]} == {"succeeded"}
    assert journey.rows(WRITTEN) == []
    stand(journey)
