"""Ends, cancels and retries that meet each other: one of them counts, and the answer said which."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from tests.live.checks import stand
from tests.live.journey import Answer, Journey, Web
from tests.live.page import page
from tests.live.processes import until

THREADS = 20
RUN_S, SPREAD_S = 0.5, 0.05
STILL = """
SELECT id FROM jobs WHERE id = ANY(%(jobs)s) AND status NOT IN ('succeeded', 'cancelled')
"""
MISBEHAVING = "tests.live.kinds,tests.live.misbehaving"


# A cancel that races with the end


def cancel_all(web: Web, moments: dict[int, float]) -> dict[int, Answer]:
    """Cancel each job at its moment of the monotonic clock."""

    def cancel(job: int) -> Answer:
        time.sleep(max(0.0, moments[job] - time.monotonic()))
        return web.ask("POST", f"/api/jobs/{job}/cancel")

    with ThreadPoolExecutor(len(moments)) as pool:
        return dict(zip(moments, pool.map(cancel, moments), strict=True))


def race(journey: Journey, web: Web, kind: str) -> Counter[str]:
    """Let cancels meet ends; what became of the jobs, each checked against its answer."""
    before = len(journey.ledger.starts())
    jobs = journey.enqueue(kind, {"ms": RUN_S * 1000}, count=THREADS)
    journey.wait_for_more_starts(before + THREADS)
    ends = {line.job: line.mono + RUN_S for line in journey.ledger.starts() if line.job in jobs}
    # From a little before its end to a little after it.
    moments = {
        job: at + SPREAD_S * (2 * n / THREADS - 1.5) for n, (job, at) in enumerate(ends.items())
    }
    answers = cancel_all(web, moments)
    until(lambda: not journey.rows(STILL, jobs=jobs), "each has come to its end")
    return Counter(check(journey, job, answers[job]) for job in jobs)


def cancel_early(journey: Journey, web: Web, kind: str) -> Counter[str]:
    """Cancel while the handlers are at work for certain, then let them end."""
    jobs = journey.enqueue(kind, count=THREADS)
    until(lambda: len(journey.ledger.starts_by_job().keys() & set(jobs)) == THREADS, "all start")
    answers = cancel_all(web, dict.fromkeys(jobs, 0.0))
    assert {answer.body["status"] for answer in answers.values()} == {"running"}
    for job in jobs:
        journey.open(job)
    until(lambda: not journey.rows(STILL, jobs=jobs), "each has come to its end")
    return Counter(check(journey, job, answers[job]) for job in jobs)


def check(journey: Journey, job: int, answer: Answer) -> str:
    row, events = journey.job(job), journey.events(job)
    if answer.status == 409:
        # It had ended before, and that stands.
        assert (answer.body["job_status"], row.status) == ("succeeded", "succeeded")
        assert events == ["enqueued", "claimed", "succeeded"]
        return "too late"
    assert answer.status == 200, answer
    assert len(journey.ledger.starts(job)) == 1, "it was started again after its cancel"
    if answer.body["status"] == "cancelled":
        # It was waiting for its retry.
        assert events == ["enqueued", "claimed", "retry_scheduled", "cancelled"]
        return "instead of its retry"
    assert answer.body["cancel_requested_at"] is not None
    assert events == ["enqueued", "claimed", "cancel_requested", row.status]
    if row.status == "succeeded":
        reason = "SELECT reason FROM job_events WHERE job_id = %(id)s AND event = 'succeeded'"
        assert journey.one(reason, id=job) == "finished_before_cancel"
    return str(row.status)


def race_everything(journey: Journey, rounds: int) -> None:
    web = journey.web(workers=2, threads=8)
    journey.work(
        "--concurrency", str(THREADS), "--lease", "5",
        QUEUE_HANDLERS=MISBEHAVING, QUEUE_BACKOFF_BASE="1h",
    )  # fmt: skip
    for _ in range(rounds):
        # A deaf handler that returns all the same has succeeded; one that raises is not retried.
        assert cancel_early(journey, web, "journey.gate") == {"succeeded": THREADS}
        assert cancel_early(journey, web, "journey.fails_at_the_gate") == {"cancelled": THREADS}
        returning = race(journey, web, "journey.tick")
        assert returning.keys() <= {"succeeded", "too late"}
        raising = race(journey, web, "journey.raises_after")
        assert raising.keys() <= {"cancelled", "instead of its retry"}
    stand(journey)


def test_cancel_that_races_with_the_end_is_answered_as_it_comes_out(journey: Journey) -> None:
    race_everything(journey, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_cancel_that_races_with_the_end_five_hundred_times(journey: Journey) -> None:
    race_everything(journey, rounds=500 // THREADS)


# The word of a success meets an error

_REFUSE = """
CREATE SEQUENCE refused_ends;
CREATE FUNCTION refuse_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status = 'succeeded' AND nextval('refused_ends') <= 2 THEN {how} END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_end BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse_end()
"""
RAISES = "RAISE EXCEPTION 'not now' USING ERRCODE = '{state}';"


@contextlib.contextmanager
def ends_refused(engine: Engine, how: str) -> Iterator[None]:
    """Let the first two writes of a success fail."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_REFUSE.format(how=how))
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP FUNCTION refuse_end() CASCADE")
            connection.exec_driver_sql("DROP SEQUENCE refused_ends")


def test_success_that_the_database_refuses_for_a_moment_is_written_again(
    journey: Journey,
) -> None:
    worker = journey.work("--concurrency", "4")
    ways = [RAISES.format(state=state) for state in ("40001", "40P01", "57014", "53300", "25006")]
    ways.append("PERFORM pg_terminate_backend(pg_backend_pid());")
    jobs = []
    for how in ways:
        with ends_refused(journey.engine, how):
            job = journey.enqueue_one("journey.tick")
            journey.wait_for_status(job, "succeeded")
            assert journey.one("SELECT last_value FROM refused_ends") >= 3, how
        jobs.append(job)

    for job in jobs:
        row = journey.job(job)
        assert (row.attempts, row.error_class, row.error_message) == (1, None, None)
        assert row.result == {"attempt": 1, "pid": worker.pid}
        assert journey.events(job) == ["enqueued", "claimed", "succeeded"]
        assert len(journey.ledger.starts(job)) == 1
    stand(journey)


# Retry and cancel from the API and the console

RETRIED = ("failed", "cancelled")
Send = Callable[[int], tuple[int, str]]


def senders(web: Web, verb: str) -> dict[str, Send]:
    """How a person and a program ask for ``verb``: the status of the answer, and its words."""

    def api(job: int) -> tuple[int, str]:
        answer = web.ask("POST", f"/api/jobs/{job}/{verb}")
        return answer.status, str(answer.body)

    def console(job: int) -> tuple[int, str]:
        answer = page(web, "POST", f"/jobs/{job}/{verb}", {"reason": ""})
        return answer.status, answer.text

    return {"api": api, "console": console}


def one_of_each(journey: Journey) -> dict[str, int]:
    """A job in every status."""
    jobs = {
        "succeeded": journey.enqueue_one("journey.tick"),
        "failed": journey.enqueue_one("journey.flaky", {"fail_first": 1}, max_attempts=1),
        "running": journey.enqueue_one("journey.gate"),
        "cancelled": journey.enqueue_one("journey.tick", delay_s=3600),
        "queued": journey.enqueue_one("journey.tick", delay_s=3600),
    }
    for status in ("succeeded", "failed", "running"):
        journey.wait_for_status(jobs[status], status)
    journey.wait_for_start(jobs["running"])
    return jobs


def test_retry_is_refused_where_the_job_is_not_at_an_end_or_has_succeeded(
    journey: Journey,
) -> None:
    web = journey.web()
    journey.work()
    for surface, retry in senders(web, "retry").items():
        jobs = one_of_each(journey)
        senders(web, "cancel")["api"](jobs["cancelled"])
        starts = journey.ledger.starts_by_job()
        for status, job in jobs.items():
            shown = page(web, "GET", f"/jobs/{job}").text
            assert ('data-verb="retry"' in shown) == (status in RETRIED), status
            code, words = retry(job)
            if status in RETRIED:
                assert code == (200 if surface == "api" else 303), status
                journey.wait_for_status(job, "succeeded" if status == "cancelled" else "failed")
                assert journey.ledger.starts_by_job()[job] == starts[job] + 1
            else:
                assert code == 409, status
                assert f"ob {job} is {status}" in words
                assert "requeued" not in journey.events(job)
        # And just after the end of the run that was going on.
        running = jobs["running"]
        journey.open(running)
        journey.wait_for_status(running, "succeeded")
        assert retry(running)[0] == 409
        assert len(journey.ledger.starts(running)) == 1
    stand(journey)


def all_at_once(send: Send, job: int, count: int = 50) -> Counter[int]:
    """Send it from as many threads in the same moment; how often each status was answered."""
    line = threading.Barrier(count)

    def click(_: int) -> int:
        line.wait()
        return send(job)[0]

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(click, range(count)))


def test_fifty_retries_or_cancels_at_once_act_once(journey: Journey) -> None:
    web = journey.web(workers=2, threads=8)
    journey.work(QUEUE_HANDLERS=MISBEHAVING)
    failing = journey.enqueue_one("journey.fails_at_the_gate", max_attempts=1)
    waiting = journey.enqueue_one("journey.tick", delay_s=3600)
    running = journey.enqueue_one("journey.gate")
    journey.wait_for_start(running)

    retries = senders(web, "retry")
    for life, (surface, accepted) in enumerate([("api", 200), ("console", 303)], start=2):
        fail_now(journey, failing)
        assert all_at_once(retries[surface], failing) == {accepted: 1, 409: 49}
        journey.wait_for_more_starts(life + 1)
    fail_now(journey, failing)
    cancel = senders(web, "cancel")["api"]
    assert all_at_once(cancel, waiting) == {200: 1, 409: 49}
    assert all_at_once(cancel, running) == {200: 1, 409: 49}
    journey.open(running)
    journey.wait_for_status(running, "succeeded")

    assert journey.events(failing).count("requeued") == 2
    assert len(journey.ledger.starts(failing)) == 3
    assert journey.events(waiting) == ["enqueued", "cancelled"]
    assert journey.events(running) == ["enqueued", "claimed", "cancel_requested", "succeeded"]
    stand(journey)


def fail_now(journey: Journey, job: int) -> None:
    """Let the run end that is going on, and have the next one wait again."""
    journey.open(job)
    journey.wait_for_status(job, "failed")
    (journey.gates / f"{job}-1").unlink()
