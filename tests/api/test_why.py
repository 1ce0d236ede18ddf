"""GET /api/jobs/<id>/why: one answer for each rule, in a situation that has really come about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.connections import worker_engine
from queueapp.extensions import db
from queueapp.jobs import control, minute_stats, transitions
from queueapp.jobs.models import JobEvent
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import Keep, Progress
from queueapp.jobs.why import RULES, catalogue, facts, statement
from queueapp.worker import Terms, Worker
from tests.api.conftest import Api, body, problem
from tests.factories import claim_one, make_job, outcome
from tests.jobs.explain import Prepared
from tests.jobs.filling import analyze, fill

FIELDS = {rule.code: set(rule.fields) for rule in RULES}


class Workers:
    """Workers whose threads do not run: they sign, and claim when told to."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self.engine = worker_engine(app, app.extensions["queue_settings"], connections=10)
        self.made: list[Worker] = []

    def sign(self, **terms: Any) -> Worker:
        """A worker that has just said that it is there."""
        worker = Worker(self._app, Terms(**{"concurrency": 2, **terms}), self.engine, Keep())
        self.made.append(worker)
        worker.upkeep.sign()
        return worker


@pytest.fixture
def workers(app: Flask) -> Iterator[Workers]:
    workers = Workers(app)
    yield workers
    for worker in workers.made:
        worker.close()
    workers.engine.dispose()


class Asker:
    """Asks why, and looks at the form of each answer."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def __call__(self, job_id: int) -> dict[str, Any]:
        answer = self.api.get(f"/{job_id}/why")
        assert answer.status_code == 200, answer.text
        found = body(answer)
        assert set(found) == {
            "job_id", "status", "rule", "sentence", "next_step", "evidence", "also", "as_of",
        }  # fmt: skip
        assert set(found["evidence"]) == FIELDS[found["rule"]]
        assert not found["sentence"][0].islower()
        assert found["sentence"].endswith(".")
        assert all(one["sentence"].endswith(".") for one in found["also"])
        return found

    def rule(self, job_id: int) -> str:
        """The code alone."""
        code: str = self(job_id)["rule"]
        return code


@pytest.fixture
def why(api: Api) -> Asker:
    return Asker(api)


def also(found: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in found["also"]]


def test_a_job_that_has_ended_says_how_when_and_with_which_error(
    why: Asker, session: Session
) -> None:
    failed = make_job(session, Status.FAILED)
    done = make_job(session, Status.SUCCEEDED)
    cancelled = make_job(session, Status.CANCELLED)
    session.commit()

    found = why(failed.id)
    evidence = found["evidence"]
    assert (found["rule"], found["status"]) == ("final", "failed")
    assert "It failed 0." in found["sentence"]
    assert "the last error ValueError (no such thing)" in found["sentence"]
    assert (evidence["error_class"], evidence["by"]) == ("ValueError", "test:1:000000")
    assert evidence["ended_at"] == body(why.api.get(f"/{failed.id}"))["finished_at"]
    assert why(done.id)["sentence"].startswith("It succeeded ")
    assert why(cancelled.id)["evidence"]["by"] == "user:ana"
    assert why(cancelled.id)["evidence"]["reason"] == "test"


def test_a_job_due_later_says_which_event_moved_it(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign()
    scheduled, retried = make_job(session, delay_s=300), make_job(session)
    rescheduled = make_job(session, delay_s=50)
    claim = claim_one(session, retried.id)
    transitions.settle(session, [outcome(claim, "retry", delay_s=90)], actor="worker:w")
    transitions.reschedule(
        session, [rescheduled.id], actor="user:ana", reason="not before lunch", delay_s=7200
    )
    transitions.hold(session, [rescheduled.id], actor="user:bob")
    transitions.unhold(session, [rescheduled.id], actor="user:bob")
    session.commit()

    found = why(scheduled.id)
    assert found["rule"] == "due_later"
    assert found["sentence"].startswith("It is due in 4 min 5")
    assert found["next_step"] == "Wait until it is due."
    lost = make_job(session, delay_s=300, attempts=2, error_class="LeaseLost")
    session.commit()
    assert why(lost.id)["next_step"].startswith("Find out what became of its workers")
    assert found["evidence"]["moved_by"]["event"] == "enqueued"
    assert 290 < found["evidence"]["due_in_s"] < 300
    assert also(found) == []
    moved_by = why(retried.id)["evidence"]["moved_by"]
    assert (moved_by["event"], moved_by["by"]) == ("retry_scheduled", "worker:w")
    moved_by = why(rescheduled.id)["evidence"]["moved_by"]
    assert (moved_by["event"], moved_by["reason"]) == ("rescheduled", "not before lunch")
    said = why(rescheduled.id)["sentence"]
    assert said.endswith(" UTC: user:ana rescheduled it (not before lunch).")
    # In plain words: no event, and no reason of ours by its name.
    assert " UTC: app created it for then." in found["sentence"]
    said = why(retried.id)["sentence"]
    assert said.endswith(
        ": its last attempt failed with ValueError, and it waits to be tried again."
    )
    event = sa.update(JobEvent).where(JobEvent.event == "retry_scheduled")
    session.execute(event.values(reason="lease_lost"))
    session.commit()
    said = why(retried.id)["sentence"]
    assert said.endswith(": its worker was lost while it ran, and it waits to be tried again.")


def test_a_due_time_that_came_back_is_told_by_the_last_who_set_it(
    why: Asker, session: Session
) -> None:
    job, at = make_job(session), datetime.now(UTC) + timedelta(hours=2)
    for actor, when in (("ana", at), ("bob", at + timedelta(hours=1)), ("cleo", at)):
        transitions.reschedule(session, [job.id], actor=f"user:{actor}", available_at=when)
    session.commit()

    assert why(job.id)["evidence"]["moved_by"]["by"] == "user:cleo"


def test_a_job_on_hold_says_by_whom(why: Asker, session: Session, workers: Workers) -> None:
    workers.sign()
    job = make_job(session)
    transitions.hold(session, [job.id], actor="user:ana", reason="looks odd")
    session.commit()

    found = why(job.id)

    assert found["rule"] == "held"
    assert "put on hold by user:ana 0." in found["sentence"]
    assert "(looks odd)" in found["sentence"]
    assert (found["evidence"]["by"], found["evidence"]["reason"]) == ("user:ana", "looks odd")
    assert also(found) == []


def test_a_kind_on_hold_says_by_whom_before_and_after_its_jobs_are_moved(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker, job = workers.sign(), make_job(session)
    session.commit()
    assert why.rule(job.id) == "next_in_line"
    control.hold_kind(session, "demo.echo", actor="user:ana", reason="provider is down")
    control.hold_kind(session, "demo.sleep", actor="user:bob", reason="another kind")
    session.commit()

    waiting = why(job.id)
    worker.housekeeping.tick()
    moved = why(job.id)
    control.unhold_kind(session, "demo.echo", actor="user:ana")
    session.commit()
    lifted = why(job.id)
    worker.housekeeping.tick()

    assert (waiting["rule"], waiting["status"], waiting["evidence"]["moved"]) == (
        "kind_held", "queued", False,
    )  # fmt: skip
    assert (moved["rule"], moved["status"], moved["evidence"]["moved"]) == (
        "kind_held", "held", True,
    )  # fmt: skip
    assert (moved["evidence"]["by"], moved["evidence"]["reason"]) == (
        "user:ana", "provider is down",
    )  # fmt: skip
    assert (lifted["rule"], lifted["evidence"]["live_workers"]) == ("hold_lifted", 1)


def test_a_paused_queue_says_by_whom_and_stands_beside_other_answers(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign()
    due, later = make_job(session), make_job(session, delay_s=60)
    control.pause(session, actor="user:ana", reason="database upgrade")
    session.commit()

    found = why(due.id)
    assert found["rule"] == "queue_paused"
    assert found["sentence"].startswith("The queue was paused by user:ana 0.")
    assert "(database upgrade)" in found["sentence"]
    assert (why.rule(later.id), also(why(later.id))) == ("due_later", ["queue_paused"])
    control.resume(session, actor="user:ana")
    session.commit()
    assert why.rule(due.id) == "next_in_line"


def test_without_a_live_worker_the_last_one_is_named(
    why: Asker, session: Session, workers: Workers
) -> None:
    job = make_job(session)
    session.commit()
    never = why(job.id)
    first, second = workers.sign(), workers.sign()
    assert why.rule(job.id) == "next_in_line"
    second.upkeep.sign_off("SIGTERM")
    assert why.rule(job.id) == "next_in_line"
    first.upkeep.sign_off("SIGTERM")
    stopped = why(job.id)
    idle = workers.sign(concurrency=0)
    housekeeping_only = why(job.id)

    assert (never["rule"], never["evidence"]["last_worker"]) == ("no_live_worker", None)
    assert stopped["rule"] == "no_live_worker"
    assert stopped["evidence"]["last_worker"] == second.terms.actor
    assert stopped["evidence"]["stopped_for"] == "SIGTERM"
    assert housekeeping_only["rule"] == "no_live_worker"
    assert housekeeping_only["evidence"]["live_without_slots"] == 1
    assert housekeeping_only["evidence"]["last_worker"] == idle.terms.actor


def test_a_worker_that_fell_silent_is_not_live(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker, job = workers.sign(), make_job(session)
    session.commit()
    assert why.rule(job.id) == "next_in_line"
    age(session, Event.WORKER_SEEN, 151)

    found = why(job.id)

    assert found["rule"] == "no_live_worker"
    assert f"the last one, {worker.terms.actor}, was seen 2 min 31 s ago" in found["sentence"]


@pytest.mark.postgresql("connections")
def test_a_worker_whose_connections_are_gone_is_not_live(
    why: Asker, session: Session, workers: Workers
) -> None:
    """As the verdict has it: after a kill -9 it is known long before its lease ends."""
    worker, due = workers.sign(), make_job(session)
    running = make_job(session, Status.RUNNING, locked_by=worker.terms.actor)
    session.commit()
    assert why(running.id)["evidence"]["holder_is_live"] is True

    workers.engine.dispose()
    session.execute(
        sa.text(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'queueapp-work%'"
        )
    )
    waits, runs = why(due.id), why(running.id)

    assert waits["rule"] == "no_live_worker"
    assert f"the last one, {worker.terms.actor}, is unconnected" in waits["sentence"]
    assert runs["evidence"]["holder_is_live"] is False
    assert "that worker has no connection to the database; its lease runs out" in runs["sentence"]
    assert runs["next_step"].startswith("Start `flask work`")


def age(session: Session, event: Event, seconds: int) -> None:
    """Let so much time have passed since."""
    session.execute(
        sa.text(
            f"UPDATE job_events SET created_at = created_at - interval '{seconds} s'"
            " WHERE event = :event"
        ),
        {"event": event},
    )
    session.commit()


def test_a_kind_that_no_live_worker_runs_is_said(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign(only=("demo.sleep",))
    workers.sign(skip=("demo.echo",))
    job, other = make_job(session), make_job(session, kind="demo.sleep")
    session.commit()

    found = why(job.id)
    assert found["rule"] == "no_worker_for_kind"
    assert "of 2 live workers none takes it" in found["sentence"]
    assert "demo.sleep" in found["evidence"]["live_kinds"]
    assert "demo.echo" not in found["evidence"]["live_kinds"]
    assert why.rule(other.id) == "jobs_ahead"
    workers.sign(only=("demo.echo",))
    assert why.rule(job.id) == "next_in_line"


def test_a_kind_that_somebody_holds_a_lease_on_is_run_elsewhere(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign(only=("demo.sleep",))
    make_job(session, Status.RUNNING)
    job = make_job(session)
    session.commit()

    assert why.rule(job.id) == "next_in_line"


def test_jobs_ahead_are_counted_in_claim_order_with_an_estimate(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign()
    earlier = [make_job(session).id for _ in range(2)]
    job = make_job(session)
    make_job(session)  # behind it
    make_job(session, priority=-1)
    higher = [make_job(session, priority=5).id, make_job(session, priority=9).id]
    make_job(session, priority=5, delay_s=3600)
    session.commit()

    found = why(job.id)
    evidence = found["evidence"]
    assert (found["rule"], evidence["ahead"], evidence["ahead_is_least"]) == (
        "jobs_ahead",
        4,
        False,
    )
    assert found["sentence"].startswith("4 jobs stand before it in the line; when it starts is unk")
    assert (evidence["claims_per_s"], evidence["estimate_s"]) == (None, None)

    run_two_and_tell(session, higher)
    evidence = why(job.id)["evidence"]
    assert evidence["ahead"] == len(earlier)
    assert evidence["claims_per_s"] == pytest.approx(2 / 60, rel=0.1)
    assert evidence["estimate_s"] == pytest.approx(90, rel=0.1)
    assert "it starts in about 1 min" in why(job.id)["sentence"]


def run_two_and_tell(session: Session, ids: list[int]) -> None:
    """Two claims that count and one that was given back, in the statistics of one minute."""
    minute_stats.write(session, actor="housekeeping:w")
    session.commit()
    age(session, Event.MINUTE_STATS, 60)
    given_back = claim_one(session, ids[0])
    transitions.settle(session, [outcome(given_back, "release")], actor="worker:w")
    for job_id in ids:
        transitions.settle(session, [outcome(claim_one(session, job_id))], actor="worker:w")
    session.commit()
    minute_stats.write(session, actor="housekeeping:w")
    session.commit()


def test_beyond_the_bound_there_are_at_least_so_many_ahead(
    why: Asker, session: Session, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.sign()
    monkeypatch.setattr("queueapp.jobs.why.statement.AHEAD_LIMIT", 3)
    for priority in (0, 1, 1, 2):
        make_job(session, priority=priority)
    job = make_job(session)
    session.commit()

    found = why(job.id)

    assert (found["evidence"]["ahead"], found["evidence"]["ahead_is_least"]) == (3, True)
    assert found["sentence"].startswith("At least 3 jobs stand before it")


def test_busy_threads_are_told_with_the_longest_runner(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker = workers.sign(concurrency=2)
    running = [make_job(session).id, make_job(session).id]
    first, _ = [claim_one(session, each, worker.terms.holder) for each in running]
    job = make_job(session)
    session.commit()

    found = why(job.id)
    longest = found["evidence"]["longest"]
    assert found["rule"] == "slots_busy"
    assert (found["evidence"]["slots"], found["evidence"]["busy"]) == (2, 2)
    assert (longest["id"], longest["holder"]) == (first.id, worker.terms.actor)
    assert f"at job {first.id} (demo.echo) for 0." in found["sentence"]

    make_job(session, priority=1)
    session.commit()
    assert (why.rule(job.id), also(why(job.id))) == ("jobs_ahead", ["slots_busy"])


def test_a_start_is_not_promised_by_a_rate_that_is_over(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker = workers.sign(concurrency=2)
    run_two_and_tell(session, [make_job(session).id for _ in range(2)])
    long_runs = [claim_one(session, make_job(session).id, worker.terms.holder) for _ in range(2)]
    make_job(session)
    job = make_job(session)
    session.commit()
    promised = why(job.id)
    assert (promised["rule"], also(promised)) == ("jobs_ahead", ["slots_busy"])
    assert promised["evidence"]["estimate_s"] == pytest.approx(60, rel=0.1)

    # At two claims a minute two threads have had two jobs each in two minutes.
    for each in long_runs:
        put_back(session, each.id, 130)
    age(session, Event.CLAIMED, 130)
    stuck = why(job.id)
    assert (stuck["rule"], also(stuck)) == ("slots_busy", [])
    assert stuck["evidence"]["ahead"] == 1
    assert stuck["evidence"]["last_claim_s"] == pytest.approx(130, abs=20)
    assert "for 2 min" in stuck["sentence"]
    assert "nothing has been claimed for 2 min" in stuck["sentence"]
    assert stuck["sentence"].endswith("and 1 job stands before it.")

    # A thread is free, and still nothing is claimed.
    transitions.settle(session, [outcome(long_runs[0])], actor=worker.terms.actor)
    session.commit()
    found = why(job.id)
    assert (found["rule"], found["evidence"]["estimate_s"]) == ("jobs_ahead", None)
    assert "when it starts is unknown: nothing has been claimed for 2 min" in found["sentence"]


def test_a_running_job_tells_of_its_lease_and_its_progress(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker, job = workers.sign(lease=60.0), make_job(session)
    claim = claim_one(session, job.id, worker.terms.holder)
    transitions.write_progress(session, [Progress(claim.id, claim.token, 42, "page 3 of 7")])
    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()

    found = why(job.id)
    evidence = found["evidence"]
    assert found["rule"] == "running"
    assert "at 42 % (page 3 of 7)" in found["sentence"]
    assert "it was asked to stop 0." in found["sentence"]
    assert found["next_step"].startswith("Wait for its next check.")
    assert "stop its worker (SIGTERM)" in found["next_step"]
    assert "cancel it" not in found["next_step"]
    assert "how long its kind usually takes is not known" in found["sentence"]
    assert (evidence["holder"], evidence["holder_is_live"]) == (worker.terms.actor, True)
    assert evidence["renewed_at"][:21] == evidence["claimed_at"][:21]
    assert evidence["is_silent"] is False
    assert 50 < evidence["lease_left_s"] <= 60
    assert (evidence["usual_p95_s"], evidence["usual_runs"]) == (None, 0)


def test_a_running_job_is_measured_against_its_kinds_usual_run(
    why: Asker, session: Session, workers: Workers
) -> None:
    worker, job = workers.sign(lease=60.0), make_job(session)
    minute_stats.write(session, actor="housekeeping:w")
    session.commit()
    for run_ms in [100] * 19 + [7000]:
        claim = claim_one(session, make_job(session).id)
        done = outcome(claim, data={"run_ms": run_ms})
        transitions.settle(session, [done], actor="worker:w")
    session.commit()
    age(session, Event.MINUTE_STATS, 60)
    minute_stats.write(session, actor="housekeeping:w")
    claim_one(session, job.id, worker.terms.holder)
    put_back(session, job.id, 45)

    found = why(job.id)

    assert (found["evidence"]["usual_runs"], found["evidence"]["usual_p95_s"]) == (20, 0.128)
    assert "longer than the 0.1 s in which 95 of 100 of its kind end" in found["sentence"]
    assert found["evidence"]["is_silent"] is True
    assert "last renewed 45 s ago and runs out in 1" in found["sentence"]


def put_back(session: Session, job_id: int, seconds: int) -> None:
    """Let so much time have passed since the job was claimed, without a renewal."""
    names = ("claimed_at", "started_at", "lease_expires_at")
    sets = ", ".join(f"{name} = {name} - interval '{seconds} s'" for name in names)
    session.execute(sa.text(f"UPDATE jobs SET {sets} WHERE id = :id"), {"id": job_id})
    session.commit()


def test_a_lease_that_ran_out_waits_for_a_sweeper(
    why: Asker, session: Session, workers: Workers
) -> None:
    job = make_job(session, Status.RUNNING, timeout_s=900)
    put_back(session, job.id, 70)

    alone = why(job.id)
    workers.sign()
    swept_soon = why(job.id)
    put_back(session, job.id, 900)

    # Its holder signs and does not renew: it hangs, and takes nothing back.
    frozen = make_job(session, Status.RUNNING, locked_by=workers.made[0].terms.actor)
    put_back(session, frozen.id, 70)
    assert "no live worker is known that would take it back" in why(frozen.id)["sentence"]

    assert alone["rule"] == "lease_expired"
    assert "no live worker is known that would take it back" in alone["sentence"]
    assert "a sweeper takes it back within seconds" in swept_soon["sentence"]
    assert (swept_soon["evidence"]["holder"], swept_soon["evidence"]["timed_out"]) == (
        "test:1:000000", False,
    )  # fmt: skip
    assert 9 < swept_soon["evidence"]["overdue_s"] < 20
    assert why(job.id)["evidence"]["timed_out"] is True


def test_a_job_that_is_handed_back_again_and_again_says_so(
    why: Asker, session: Session, workers: Workers
) -> None:
    workers.sign()
    job = make_job(session)
    for _ in range(20):
        transitions.settle(session, [outcome(claim_one(session, job.id), "release")], actor="w")
    session.commit()

    found = why(job.id)

    assert found["rule"] == "next_in_line"
    assert found["sentence"].endswith("It has been handed back 20 times.")


def test_there_is_a_test_for_every_rule() -> None:
    text = Path(__file__).read_text()

    assert [code for code in FIELDS if f'"{code}"' not in text] == []
    assert {name for rule in RULES for name in rule.fields} == set(catalogue.FIELDS)


@pytest.mark.parametrize("path", ["/999999/why", "/0/why", "/x/why", f"/{2**63}/why"])
def test_a_job_that_does_not_exist_is_not_found(api: Api, path: str) -> None:
    assert problem(api.get(path)) == (404, "job_not_found")


def test_a_parameter_is_refused(api: Api) -> None:
    job = api.make()

    assert problem(api.get(f"/{job['id']}/why?verbose=1")) == (400, "bad_request")


def test_it_is_three_statements_with_the_bound(
    why: Asker, session: Session, client: FlaskClient, workers: Workers
) -> None:
    workers.sign()
    ids = [make_job(session, status).id for status in Status]
    session.commit()
    statements: list[str] = []
    with client.application.app_context():
        engine = db.engine

    def note(*args: Any) -> None:
        statements.append(args[2])

    counted = []
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        for job_id in ids:
            statements.clear()
            why(job_id)
            counted.append(len(statements))
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)

    on_sqlite = engine.dialect.name == "sqlite"
    assert counted == [3] * len(ids) or on_sqlite


@pytest.mark.postgresql("buffers")
def test_what_it_reads_follows_the_bound_and_not_the_queue(
    session: Session, workers: Workers
) -> None:
    workers.sign()
    last = make_job(session, priority=-5)
    session.commit()
    given = {
        "job_id": last.id, "events": statement.EVENTS,
        "most_workers": 100, "most_running": 100, "most_ahead": 101, "most": 100, "rate_lines": 6,
        "run_lines": 120, "tail": statement.TAIL,
        **facts.days_around(last.created_at, last.created_at),
    }  # fmt: skip
    read = []
    with workers.engine.connect() as connection:
        connection.exec_driver_sql("SET enable_seqscan = off")
        for more in (1_000, 99_000):
            fill(connection, more)
            analyze(connection)
            with Prepared(connection, "why", statement.FACTS) as prepared:
                plan = prepared.run(**given)
            read.append(plan.tree["Shared Hit Blocks"] + plan.tree["Shared Read Blocks"])
            assert plan.scans("Seq Scan") == []
            assert plan.sorted_rows <= 100

    assert read[1] <= read[0] * 1.2 + 20
