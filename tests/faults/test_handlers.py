"""Handlers that misbehave: the job's own record is right, and its thread takes the next job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.page import page
from tests.live.processes import Process, until

MISBEHAVING = "tests.live.kinds,tests.live.misbehaving"
THREADS = 4
MB = 1024 * 1024

# What is raised: the class that is stored, and what the message must be.
BEYOND_EXCEPTION = {
    "exit 0": ("SystemExit", "0"),
    "exit x": ("SystemExit", "x"),
    "interrupt": ("KeyboardInterrupt", ""),
    "generator": ("GeneratorExit", ""),
    "odd": ("Odd", "odd"),
    "cancelled": ("CancelledError", ""),
    "group": ("BaseExceptionGroup", "several (2 sub-exceptions)"),
}
UNPRINTABLE = {
    "nul message": ("ValueError", r"a\x00b"),
    "nul note": ("ValueError", "see the note"),
    "odd class": (r"Odd\x00ly\ud800Named", "named oddly"),
    "nul line": ("ValueError", "in a line"),
    "surrogate message": ("ValueError", r"a\ud800b"),
    "surrogate note": ("ValueError", "see the note"),
    "surrogate line": ("ValueError", "in a line"),
    "speechless": ("Speechless", "<the text of Speechless cannot be had>"),
    "leaving": ("Leaving", "<the text of Leaving cannot be had>"),
    "bottomless": ("Bottomless", "<the text of Bottomless cannot be had>"),
}
LIKE_A_PLAIN_ERROR = ["enqueued", "claimed", "retry_scheduled", "claimed", "failed"]


def work(journey: Journey, *options: str) -> Process:
    return journey.work("--concurrency", str(THREADS), *options, QUEUE_HANDLERS=MISBEHAVING)


def enqueue_all(journey: Journey, kind: str, names: Any, **fields: Any) -> dict[str, int]:
    return {name: journey.enqueue_one(kind, {"what": name}, **fields) for name in names}


def traceback_of(journey: Journey, job: int) -> str:
    found = journey.one(
        "SELECT data->>'traceback' FROM job_events"
        " WHERE job_id = %(id)s AND event IN ('failed', 'retry_scheduled') ORDER BY id LIMIT 1",
        id=job,
    )
    return str(found)


def test_whatever_a_handler_raises_is_a_failure_like_any_other(journey: Journey) -> None:
    worker = work(journey)
    raised = {**BEYOND_EXCEPTION, **UNPRINTABLE}
    jobs = enqueue_all(journey, "journey.raises", raised, max_attempts=2)
    # Were one of them to end a thread, these would end all of them.
    many = journey.enqueue(
        "journey.raises", {"what": "exit 0"}, count=2 * THREADS, max_attempts=1, priority=1
    )
    journey.wait_for_end([*jobs.values(), *many])
    good = journey.enqueue("journey.tick", {"ms": 20}, count=50)
    journey.wait_for_end(good)

    for name, job in jobs.items():
        row = journey.job(job)
        assert (row.status, row.attempts) == ("failed", 2), name
        assert (row.error_class, row.error_message) == raised[name], name
        assert journey.events(job) == LIKE_A_PLAIN_ERROR, name
        assert len(journey.ledger.starts(job)) == 2, name
    for name in ("nul message", "nul note", "nul line"):
        assert r"a\x00b" in traceback_of(journey, jobs[name]), name
    for name in ("surrogate message", "surrogate note"):
        assert r"a\ud800b" in traceback_of(journey, jobs[name]), name
    # Its source cannot be shown; where and what can.
    bare = traceback_of(journey, jobs["surrogate line"])
    assert "in _in_a_line" in bare
    assert bare.endswith("ValueError: in a line\n")
    assert {journey.job(job).status for job in many} == {"failed"}
    assert {journey.job(job).status for job in good} == {"succeeded"}
    assert len({line.thread for line in journey.ledger.starts() if line.job in good}) == THREADS
    assert worker.is_running
    stand(journey)


NOT_JSON = {
    "set": "set", "bytes": "bytes", "decimal": "Decimal", "datetime": "datetime",
    "file": "_io.", "coroutine": "coroutine", "generator": "generator", "loop": "dict",
    "tuple keys": "dict", "nan": "float", "object": "object", "nested": "list",
    "deep": "list",
}  # fmt: skip
AS_IT_CAN_BE = {
    "plain": {"ok": [1, None, "żółć"]},
    "nul": {r"a\x00b": [r"a\x00b"]},
    "surrogate": {r"a\ud800b": [r"a\ud800b"]},
}


def test_result_that_cannot_be_stored_is_left_out_and_the_job_succeeds(journey: Journey) -> None:
    worker = work(journey)
    names = [*NOT_JSON, *AS_IT_CAN_BE, "huge"]
    jobs = enqueue_all(journey, "journey.returns", names)
    journey.wait_for_end(list(jobs.values()))

    rows = {name: journey.job(job) for name, job in jobs.items()}
    assert {(row.status, row.attempts) for row in rows.values()} == {("succeeded", 1)}
    for name, type_name in NOT_JSON.items():
        [reason] = rows[name].result.values()
        assert list(rows[name].result) == ["$omitted"], name
        assert reason.startswith("not JSON: "), name
        assert type_name.removeprefix("_io.") in reason or name == "file", name
    assert rows["huge"].result == {"$omitted": f"{MB + 2} bytes of JSON, the limit is 262144"}
    assert {name: rows[name].result for name in AS_IT_CAN_BE} == AS_IT_CAN_BE
    assert len(journey.ledger.starts()) == len(names)
    assert "never awaited" not in worker.said()
    stand(journey)


# Copies of the process


def test_a_copy_that_a_handler_forks_ends_when_it_comes_back(journey: Journey) -> None:
    """It has the worker's connections and claims, and must use neither."""
    work(journey)
    plain = journey.enqueue_one("journey.forks")
    raising = journey.enqueue_one("journey.forks", {"raises": True})
    journey.wait_for_end([plain, raising])

    statuses = [journey.job(job).result["status"] for job in (plain, raising)]
    assert statuses == [0, 1]
    assert {journey.job(job).attempts for job in (plain, raising)} == {1}
    stand(journey)


# Enormous errors


def resident(process: Process) -> int:
    """Bytes of memory that a process holds."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096


ENORMOUS = ("huge", "recursion", "deep", "chain", "note")


def fail_enormously(journey: Journey, web: Any, rounds: int) -> None:
    worker = work(journey)
    # The libraries that a failure needs are loaded, the allocator has its arenas.
    warm = enqueue_all(journey, "journey.raises", ENORMOUS, max_attempts=1)
    journey.wait_for_end(list(warm.values()))
    before = resident(worker)

    for name in ENORMOUS:
        journey.enqueue("journey.raises", {"what": name}, count=rounds, max_attempts=1)
    open_ = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"
    until(lambda: not journey.one(open_), "all fail", within=100)

    assert journey.rows("SELECT status, count(*) FROM jobs GROUP BY 1") == [
        ("failed", (rounds + 1) * len(ENORMOUS))
    ]
    until(lambda: resident(worker) < before + 40 * MB, "memory returns to normal")
    for name, job in warm.items():
        row, trace = journey.job(job), traceback_of(journey, job)
        assert len(row.error_message) <= 8 * 1024 + 40, name
        assert 100 < len(trace) <= 64 * 1024 + 40, name
    huge = journey.job(warm["huge"])
    assert huge.error_message.startswith("headxxx")
    assert huge.error_message.endswith("xxxtail")
    # The message takes nothing from the frames.
    assert "in raises" in traceback_of(journey, warm["huge"])
    assert "at the bottom" in traceback_of(journey, warm["deep"])
    chain = traceback_of(journey, warm["chain"])
    assert "cause 0" in chain
    assert "cause 999" in chain
    for path in ("/jobs?status=failed", f"/jobs/{warm['huge']}", "/", "/api/jobs?status=failed"):
        began = time.monotonic()
        answer = page(web, "GET", path)
        # On a busy machine; a page of 50 MB would not come in that time, nor be that small.
        assert time.monotonic() - began < 3, path
        assert (answer.status, len(answer.text) < MB) == (200, True), path
    stand(journey)


def test_enormous_errors_are_cut_and_memory_returns_to_normal(journey: Journey) -> None:
    fail_enormously(journey, journey.web(), rounds=6)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_hundred_enormous_errors_in_a_row_leave_no_memory_behind(journey: Journey) -> None:
    fail_enormously(journey, journey.web(), rounds=40)


# Kinds of tomorrow

HALF_THERE = """
from queueapp import handler

@handler("journey.half")
def half() -> None: ...

raise RuntimeError("the other half is missing")
"""


def test_kind_that_no_worker_knows_waits_for_one_that_does(
    journey: Journey, tmp_path: Path
) -> None:
    (tmp_path / "half_there.py").write_text(HALF_THERE)
    job = journey.enqueue_one("journey.returns", {"what": "plain"}, max_attempts=1)
    old = journey.work()
    until(lambda: "deferred" in journey.events(job), "the worker puts it back")
    broken = journey.work(
        ready=False, QUEUE_HANDLERS="tests.live.kinds,half_there", PYTHONPATH=str(tmp_path)
    )

    assert broken.wait() != 0
    assert "QUEUE_HANDLERS: cannot import 'half_there'" in broken.said()
    row = journey.job(job)
    assert (row.status, row.attempts, row.error_class) == ("queued", 0, None)
    reasons = journey.rows("SELECT DISTINCT reason FROM job_events WHERE event = 'deferred'")
    assert reasons == [("unknown_kind",)]
    assert old.stop() == 0
    journey.work(QUEUE_HANDLERS=MISBEHAVING)
    row = journey.wait_for_status(job, "succeeded")
    assert (row.attempts, row.result) == (1, AS_IT_CAN_BE["plain"])
    stand(journey, every_claim_started=False)
