"""What the verdict says once its advice was followed: never the same advice again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Holder
from queueapp.jobs.models import Job
from queueapp.jobs.queries import blocked
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions.bereavement import Death
from queueapp.jobs.verdict import Finding, Level, reading, statements, verdict
from queueapp.jobs.why.words import moment
from tests.factories import claim_one, make_job
from tests.locks import until_a_lock_is_awaited
from tests.scenes import ECHO, Scene, ago

CAUSE: dict[str, Any] = {"kind": ECHO, "error_class": "KeyError", "error_fingerprint": "f1"}
ACTOR = "user:ana"
# The statement where no more than two jobs are looked at.
CUT = statements.GROUPS_OF.replace(f"LIMIT {statements.MOST_SOONEST}", "LIMIT 2").replace(
    f">= {statements.MOST_SOONEST}", ">= 2"
)


@pytest.fixture
def scene(session: Session) -> Scene:
    """A queue with a worker."""
    found = Scene(session)
    found.worker()
    return found


def findings(scene: Scene) -> dict[str, Finding]:
    found = verdict(scene.session, job_timeout_s=3600)
    scene.session.rollback()
    return {one.rule: one for one in found.findings}


def retrying(scene: Scene, count: int, **fields: Any) -> list[int]:
    told = {"attempts": 1, "available_at": ago(-300), **CAUSE, **fields}
    jobs = [make_job(scene.session, **told).id for _ in range(count)]
    scene.session.commit()
    return jobs


# A kind that fails: held, let go again, cancelled, retried.


def hold(scene: Scene, kind: str = ECHO) -> None:
    control.hold_kind(scene.session, kind, actor=ACTOR, reason="it is down")
    scene.session.commit()


def unhold(scene: Scene, *, spread_s: float = 0.0) -> None:
    control.unhold_kind(scene.session, ECHO, actor=ACTOR, spread_s=spread_s)
    scene.session.commit()


@pytest.mark.parametrize(
    ("rule", "advice"),
    [("retry_storm", "Hold the kind until"), ("failing", "Look at the first group")],
)
def test_a_kind_that_was_held_and_let_go_is_not_to_be_held_before_it_fails_again(
    scene: Scene, rule: str, advice: str
) -> None:
    scene.minutes(5, claimed=100, retries=60, succeeded=40, retry_scheduled=60)
    retrying(scene, 3)
    assert findings(scene)[rule].step.text.startswith(advice)

    hold(scene)
    held = findings(scene)[rule]
    assert held.sentence.endswith(": KeyError; it is on hold.")
    assert held.step.text.startswith("Unhold it when")

    unhold(scene, spread_s=600)
    found = findings(scene)[rule]
    assert found.level is Level.AMBER
    assert "; its hold was lifted by user:ana 0." in found.sentence
    assert found.sentence.endswith(
        " ago, its jobs come back within 10 min 0 s, and no attempt of it is counted since."
    )
    assert found.step.text.startswith("Wait for its first attempts, and two minutes more")
    assert found.step.paths == ("/errors/f1",)

    # Two minutes later it fails as before.
    scene.session.execute(sa.text("DELETE FROM job_events WHERE event LIKE 'kind_%'"))
    scene.event(Event.KIND_UNHELD, f"kind:{ECHO}", 150)
    again = findings(scene)[rule]
    assert "lifted" not in again.sentence
    assert again.step.text.startswith(advice)


def test_the_wait_after_a_hold_counts_from_the_first_attempts_that_ended_since(
    scene: Scene,
) -> None:
    """All threads were busy with other jobs meanwhile."""
    scene.event(Event.KIND_HELD, f"kind:{ECHO}", 500)
    scene.event(Event.KIND_UNHELD, f"kind:{ECHO}", 240)
    scene.minutes(3, upto=310, failed=60, succeeded=40)
    scene.minutes(4, upto=70, kind="demo.sleep", succeeded=1)
    retrying(scene, 3)
    waiting = findings(scene)["failing"]
    assert waiting.level is Level.AMBER
    assert waiting.sentence.endswith(", and no attempt of it is counted since.")
    assert waiting.step.text.startswith("Wait for its first attempts")

    scene.minutes(1, upto=10, failed=60)
    begun = findings(scene)["failing"]
    assert begun.level is Level.AMBER
    assert begun.sentence.endswith(" ago.")
    assert begun.step.text.startswith("Wait two minutes for what its attempts come to")


def test_it_is_to_be_held_again_once_two_minutes_of_attempts_failed(scene: Scene) -> None:
    scene.event(Event.KIND_HELD, f"kind:{ECHO}", 500)
    scene.event(Event.KIND_UNHELD, f"kind:{ECHO}", 240)
    scene.minutes(3, upto=310, failed=60, succeeded=40)
    scene.minutes(2, upto=190, kind="demo.sleep", succeeded=1)
    scene.minutes(3, upto=10, failed=60)
    retrying(scene, 3)

    found = findings(scene)["failing"]
    assert "lifted" not in found.sentence
    assert found.step.text.startswith("Look at the first group")


def test_a_storm_of_which_no_job_is_left_says_when_it_clears(scene: Scene) -> None:
    scene.minutes(5, claimed=100, retries=80, succeeded=20, retry_scheduled=80)
    jobs = retrying(scene, 5)
    transitions.cancel(scene.session, jobs, actor=ACTOR)
    scene.session.commit()

    found = findings(scene)

    for rule in ("retry_storm", "failing"):
        clears_at = found[rule].evidence["clears_at"]
        assert found[rule].level is Level.AMBER
        assert f"this clears by itself by {moment(clears_at)}, unless new ones fail." in (
            found[rule].sentence
        )
        assert found[rule].step.text.startswith("Nothing more")
    assert found["retry_storm"].evidence["clears_at"] < found["failing"].evidence["clears_at"]


def test_right_after_all_were_cancelled_it_is_said_that_nothing_is_left(scene: Scene) -> None:
    """The newest line tells of failures still, but everything that waits was looked at."""
    scene.minutes(retry_scheduled=30, succeeded=70)
    jobs = retrying(scene, 4)
    assert findings(scene)["failing"].step.text.startswith("Look at the first group")

    transitions.cancel(scene.session, jobs, actor=ACTOR)
    scene.session.commit()

    found = findings(scene)["failing"]
    assert "no job of demo.echo is failed or waits for a retry any more" in found.sentence
    assert found.step.text.startswith("Nothing more")


def test_a_hold_behind_which_nothing_failed_is_left_leads_to_where_it_is_lifted(
    scene: Scene,
) -> None:
    scene.minutes(5, claimed=100, retries=60, succeeded=40, retry_scheduled=60)
    jobs = retrying(scene, 3)
    hold(scene)
    transitions.cancel(scene.session, jobs, actor=ACTOR)
    scene.session.commit()

    for rule in ("retry_storm", "failing"):
        found = findings(scene)[rule]
        assert found.step.paths == (f"/kinds/{ECHO}",)
        assert found.step.text.startswith("Unhold it: no job of it is failed or waits")


def test_what_waits_for_attempts_is_told_to_resume_the_queue_first(scene: Scene) -> None:
    scene.minutes(5, claimed=100, retries=60, succeeded=40, retry_scheduled=60)
    hold(scene)
    unhold(scene)
    control.pause(scene.session, actor=ACTOR, reason="migration")
    scene.session.commit()

    step = findings(scene)["failing"].step.text

    assert step.startswith("Resume the queue first: nothing of it starts before. Then wait for its")


@pytest.mark.parametrize(("succeeded", "level"), [(100, Level.AMBER), (0, Level.RED)])
def test_once_nothing_is_left_to_do_for_a_kind_the_next_one_that_fails_is_named(
    scene: Scene, succeeded: int, level: Level
) -> None:
    """The level is that of what is left."""
    scene.minutes(5, upto=10, kind="a.b", failed=30)
    scene.minutes(5, upto=14, kind="c.d", succeeded=succeeded)
    scene.minutes(5, upto=12, failed=100, retry_scheduled=5)
    scene.ended(60, Status.FAILED, kind="a.b", error_class="OSError", error_fingerprint="f2")
    jobs = retrying(scene, 4)
    before = findings(scene)["failing"]
    assert (before.level, before.evidence["kind"]) == (Level.RED, ECHO)

    transitions.cancel(scene.session, jobs, actor=ACTOR)
    scene.session.commit()

    found = findings(scene)["failing"]
    assert (
        "failed, most of demo.echo; nothing is left to do for demo.echo; next is a.b, 100 % of its"
        " 150 attempts: OSError"
    ) in found.sentence
    assert found.step.text == "Look at the first group of errors of a.b."
    assert found.step.paths == ("/errors/f2",)
    assert (found.evidence["kind"], found.evidence["fingerprint"]) == ("a.b", "f2")
    assert (found.evidence["clears_at"], found.level) == (None, level)


def test_a_kind_that_has_failed_a_little_is_not_the_next_one(scene: Scene) -> None:
    scene.minutes(5, upto=10, kind="a.b", failed=1, succeeded=40)
    scene.minutes(5, upto=12, failed=100)

    found = findings(scene)["failing"]

    assert "; no job of demo.echo is failed or waits for a retry any more" in found.sentence
    assert "a.b" not in found.sentence


def test_right_after_all_were_retried_they_are_said_to_have_yet_to_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.minutes(failed=60, succeeded=40)
    ids = [scene.ended(60 + n, Status.FAILED, **CAUSE, attempts=1).id for n in range(3)]
    assert findings(scene)["failing"].level is Level.RED

    transitions.requeue(scene.session, ids[:1], actor=ACTOR)
    scene.session.commit()
    # A canary: the others wait for what it comes to.
    found = findings(scene)["failing"]
    assert (found.level, found.step.paths) == (Level.RED, ("/errors/f1",))
    assert found.sentence.endswith("; 1 job of it has not run since somebody retried it.")
    assert found.step.text.startswith("Wait for what those come to; then retry")

    transitions.requeue(scene.session, ids[1:], actor=ACTOR)
    scene.session.commit()
    found = findings(scene)["failing"]
    assert found.level is Level.AMBER
    assert found.sentence.endswith(
        ": KeyError; all of its jobs were retried, 3 jobs have not run since."
    )
    assert found.step.text.startswith("Wait for what they come to")
    assert found.step.paths == ("/errors/f1",)

    # More jobs wait than are looked at.
    monkeypatch.setattr(statements, "GROUPS_OF", CUT)
    found = findings(scene)["failing"]
    assert found.sentence.endswith(
        ": KeyError; its jobs were retried, at least 2 jobs have not run since."
    )
    monkeypatch.undo()

    # They fail again.
    scene.session.execute(sa.update(Job).values(attempts=1, available_at=ago(-60)))
    scene.session.commit()
    assert findings(scene)["failing"].step.text.startswith("Look at the first group")


# What does not move: runs that were cancelled, and locks.


def test_runs_that_were_asked_to_stop_are_not_to_be_cancelled_again(scene: Scene) -> None:
    scene.due(300)
    scene.ended(290)
    long = [scene.running(1_000, kind="report.build").id for _ in range(2)]
    scene.minutes(kind="report.build", succeeded=1, run={"13": 1})
    before = findings(scene)
    assert before["stalled"].step.text.startswith("Look at the longest runs")
    assert "falling_behind" not in before

    transitions.cancel(scene.session, long[:1], actor=ACTOR)
    scene.session.commit()
    assert findings(scene)["stalled"].step.text.startswith("Look at the longest runs")

    transitions.cancel(scene.session, long[1:], actor=ACTOR)
    scene.session.commit()
    found = findings(scene)["stalled"]
    assert "; all 2 of its kind were asked to stop 0." in found.sentence
    assert found.step.text.startswith("Wait for their next check. A handler that never checks")
    assert found.evidence["asked_to_stop"] == 2

    # Another kind keeps the threads as well.
    scene.running(800, kind="crm.sync")
    found = findings(scene)["stalled"]
    assert found.evidence["longest_kind"] == "crm.sync"
    assert found.step.text.startswith("Look at the longest runs")


def test_a_wedged_job_that_was_asked_to_stop_is_not_to_be_cancelled_again(scene: Scene) -> None:
    job = scene.running(1_000, kind="report.build")
    scene.minutes(kind="report.build", succeeded=1, run={"13": 1})
    transitions.cancel(scene.session, [job.id], actor=ACTOR)
    scene.session.commit()

    found = findings(scene)["wedged"]

    assert "; it was asked to stop 0." in found.sentence
    assert found.step.text.startswith("Wait for their next check.")


def test_a_killer_that_runs_again_is_to_be_cancelled_once(scene: Scene) -> None:
    session, job = scene.session, make_job(scene.session)
    for name in "ab":
        session.execute(sa.text("UPDATE jobs SET available_at = now() - interval '1 s'"))
        claim_one(session, job.id, Holder(f"worker:{name}", lease_s=60))
        death = Death(f"worker:{name}", "signal 9", crashed=True)
        transitions.take_back(session, death, actor="sweeper:s", backoff=Backoff(base_s=60))
        session.commit()
    found = findings(scene)["worker_killer"]
    assert "; its handler never came to report an error." in found.sentence
    assert found.step.text == "Hold or cancel the job before it takes the next worker."

    session.execute(sa.text("UPDATE jobs SET available_at = now() - interval '1 s'"))
    claim_one(session, job.id, Holder("worker:w1:1:aa", lease_s=60))
    session.commit()
    # One that runs cannot be held.
    assert findings(scene)["worker_killer"].step.text.startswith("Cancel the job before")

    transitions.cancel(session, [job.id], actor=ACTOR)
    session.commit()
    found = findings(scene)["worker_killer"]
    assert "; it was asked to stop 0." in found.sentence
    assert found.step.text.startswith("Wait for its next check")


@pytest.mark.postgresql("locks")
@pytest.mark.parametrize("mode", ["SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"])
def test_a_lock_is_named_with_its_holder(
    scene: Scene, engine: sa.Engine, database_url: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "BLOCKED_S", 0.0)
    monkeypatch.setattr(reading, "READING_S", 0.5)
    scene.minutes(kind="mail.send", enqueued=60)
    job = scene.due(300)
    with waiting_for(database_url, mode) as pid:
        until_a_lock_is_awaited(engine, "relation")
        found = verdict(scene.session, job_timeout_s=3600)
        scene.session.rollback()

    first = found.first
    assert f"for a lock that psql (pid {pid}, role " in first.sentence
    assert " holds, in a transaction open since 20" in first.sentence
    if mode == "ACCESS EXCLUSIVE":
        assert first.rule == "unknown"
        return
    assert first.sentence.startswith(f"Job {job.id} (demo.echo) is due for 5 min 0 s")
    assert first.step.paths == ("/system#reading-locks",)
    assert first.step.text.startswith("Have the owner of the lock end it")
    told = {name: first.evidence[f"lock_{name}"] for name in ("pid", "application", "waits")}
    assert told == {"pid": pid, "application": "psql", "waits": 1}
    # More workers would wait as well.
    assert found.others == ()


@contextmanager
def waiting_for(url: str, mode: str) -> Iterator[int]:
    """A connection of the queue that waits for a lock of psql, whose pid this is."""
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with (
        psycopg.connect(plain, application_name="psql") as holder,
        psycopg.connect(plain, application_name="queueapp-work w1:1:aa") as waits,
    ):
        holder.execute(f"LOCK TABLE jobs IN {mode} MODE".encode())
        thread = threading.Thread(target=_lock, args=(waits,))
        thread.start()
        try:
            yield holder.info.backend_pid
        finally:
            holder.rollback()
            thread.join()


def _lock(connection: psycopg.Connection[Any]) -> None:
    connection.execute("LOCK TABLE jobs IN ROW EXCLUSIVE MODE")
    connection.rollback()


# What is slow, and who is away.


@pytest.mark.postgresql("locks")
def test_a_pause_does_not_hide_the_lock(
    scene: Scene, engine: sa.Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "BLOCKED_S", 0.0)
    scene.due(300)
    control.pause(scene.session, actor=ACTOR, reason="to be safe")
    scene.session.commit()
    with waiting_for(database_url, "SHARE ROW EXCLUSIVE") as pid:
        until_a_lock_is_awaited(engine, "relation")
        found = findings(scene)["paused"]

    assert f"1 connection of the queue waits for a lock that psql (pid {pid}" in found.sentence


def test_a_worker_that_was_started_has_time_to_show_whether_it_is_enough(scene: Scene) -> None:
    scene.session.execute(sa.text("DELETE FROM job_events"))
    scene.worker("old", since=3600)
    scene.ended(5)
    scene.minutes(enqueued=100, claimed=60, succeeded=60, wait={"12": 60})
    scene.due(900, priority=-5)
    scene.running(3, priority=10, by="worker:old")
    before = findings(scene)
    assert before["falling_behind"].step.text.startswith("Start more workers")
    assert before["starving"].step.text.startswith("Raise its priority, or start")

    scene.worker("new", since=40)
    after = findings(scene)
    assert " A worker began 40 s ago: whether it is enough shows by " in (
        after["falling_behind"].sentence
    )
    assert after["falling_behind"].step.text.startswith("Wait for that; or hold")
    assert after["starving"].sentence.endswith(" goes on; a worker began 40 s ago.")
    assert after["starving"].step.text.startswith("Wait for what the new worker does")


def test_a_worker_in_the_place_of_another_makes_no_difference(scene: Scene) -> None:
    scene.session.execute(sa.text("DELETE FROM job_events"))
    scene.worker("old", since=3600, seen=60, stopped=50)
    scene.worker("new", since=40)
    scene.ended(5)
    scene.minutes(enqueued=100, claimed=60, succeeded=60, wait={"12": 60})
    scene.due(90)

    assert findings(scene)["falling_behind"].step.text.startswith("Start more workers")


def test_a_flood_that_was_held_is_told_so(scene: Scene) -> None:
    scene.session.execute(sa.text("DELETE FROM job_events"))
    scene.worker("old", since=3600, kinds=["a.b", ECHO])
    scene.ended(5)
    scene.minutes(enqueued=100, claimed=60, succeeded=60, wait={"12": 60})
    scene.due(90, kind="a.b")
    hold(scene)

    found = findings(scene)["falling_behind"]

    assert found.sentence.endswith(" demo.echo is on hold by now.")
    assert found.step.text.startswith("Wait: the others are worked off")
    assert found.step.paths == ("/jobs?status=due",)


def test_a_worker_that_was_asked_to_drain_is_missed_on_purpose(scene: Scene) -> None:
    scene.worker("w2", slots=0, drains=True)

    found = verdict(scene.session, job_timeout_s=3600, expected_workers=2).first

    assert found.rule == "few_workers"
    assert "; 1 worker drains, as somebody has asked." in found.sentence
    assert found.step.text.startswith("Start others in their place")


def test_when_the_last_worker_drains_it_is_said_why_nobody_works(scene: Scene) -> None:
    scene.session.execute(sa.text("DELETE FROM job_events"))
    scene.worker("w2", slots=0, drains=True)
    scene.due(30)

    found = findings(scene)["no_workers"]

    assert "1 live worker without a thread to run a job (1 asked to drain)" in found.sentence


def test_leases_that_have_ended_are_not_to_be_waited_for(scene: Scene) -> None:
    scene.worker("dead", lease_s=60, seen=100)
    scene.running(200, by="worker:dead", lease_expires_at=ago(5))

    assert findings(scene)["stale_worker"].step.text == "Wait some seconds for a sweeper."
