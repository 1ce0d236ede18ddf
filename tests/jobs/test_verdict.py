"""The verdict: each rule in a state that is really in the database, and in the one beside it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, minute_stats, partitions, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Holder
from queueapp.jobs.connection_names import connection_name
from queueapp.jobs.failure import described
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.presence import Connections
from queueapp.jobs.queries import priorities
from queueapp.jobs.queries.oldest import Transactions
from queueapp.jobs.queries.oldest import transactions as transactions_of
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import NewJob
from queueapp.jobs.verdict import (
    RULES,
    Level,
    Numbers,
    Thresholds,
    Verdict,
    reading,
    statements,
    suspects,
    verdict,
)
from queueapp.jobs.verdict.catalogue import ENDS
from queueapp.jobs.verdict.evidence import FIELDS
from queueapp.jobs.verdict.facts import System
from queueapp.jobs.verdict.minutes import read_minutes
from queueapp.jobs.why import statement as why_statement
from queueapp.jobs.why.words import moment
from tests.factories import claim_one, make_job, outcome
from tests.jobs.filling import FINISHED, analyze, fill
from tests.jobs.plans import sequential_scans, statements_of
from tests.jobs.seeds import seed
from tests.scenes import ECHO, Scene, ago

EVIDENCE = {rule.code: set(rule.fields) for rule in RULES}
LEVELS = {rule.code: set(rule.levels) for rule in RULES}


@pytest.fixture
def scene(session: Session) -> Scene:
    return Scene(session)


def judged(scene: Scene, **given: Any) -> Verdict:
    """The verdict, after a look at its form."""
    found = verdict(scene.session, **{"job_timeout_s": 3600, **given})
    scene.session.rollback()
    for one in found.findings:
        assert one.title
        assert not one.sentence[0].islower() or one.sentence.startswith(ECHO)
        assert one.sentence.endswith(".")
        assert one.step.text.endswith(".")
        if one.rule in EVIDENCE:
            assert set(one.evidence) == EVIDENCE[one.rule]
            assert one.level in LEVELS[one.rule]
        assert set(one.evidence) <= set(FIELDS)
    order = [rule.code for rule in RULES]
    told = [one for one in found.findings if one.rule in order]
    assert told == sorted(told, key=lambda one: (one.level is not Level.RED, order.index(one.rule)))
    return found


def rules(found: Verdict) -> list[str]:
    return [one.rule for one in found.findings]


def seconds_since(found: Verdict) -> float:
    assert found.first.since is not None
    return (found.as_of - found.first.since).total_seconds()


# Healthy


def test_an_empty_queue_without_workers_is_healthy_and_says_its_zeros(scene: Scene) -> None:
    found = judged(scene)

    assert (found.level, found.first.rule, found.others) == (Level.GREEN, "healthy", ())
    assert found.first.sentence == "Nothing is due · no worker is alive."
    assert found.first.evidence["due"] == found.first.evidence["running"] == 0


def test_a_queue_at_work_is_healthy_with_its_pace(scene: Scene) -> None:
    scene.worker()
    scene.minutes(enqueued=200, claimed=200, succeeded=212)
    scene.due(0.5)
    scene.running(30)
    scene.ended(1)

    found = judged(scene, expected_workers=1)

    assert rules(found) == ["healthy"]
    assert "212/min ended · 1 of 1 workers is alive." in found.first.sentence
    assert found.first.evidence["live_workers"] == 1


def test_what_no_minute_counts_yet_is_not_said_to_be_nothing(scene: Scene) -> None:
    """A pause was lifted a moment ago, and all that waited has ended since."""
    scene.worker()
    scene.minutes(enqueued=1)
    assert "0/min ended · 1" in judged(scene).first.sentence

    scene.ended(1)
    assert "0/min ended in the last whole minutes · 1" in judged(scene).first.sentence


# No workers


def test_due_jobs_and_nobody_alive_are_red_since_the_last_sign(scene: Scene) -> None:
    scene.worker(seen=400)
    scene.due(30)

    found = judged(scene, expected_workers=3)

    assert rules(found) == ["no_workers"]
    assert found.level is Level.RED
    assert found.first.sentence.startswith(
        "0 of 3 workers are alive; the last one, w1:1:aa, was seen 6 min 40 s ago; 1 job is due"
    )
    assert found.first.step.text == "Start `flask work`."
    assert 399 <= seconds_since(found) <= 410


def test_a_worker_without_threads_is_none_and_one_that_stopped_says_why(scene: Scene) -> None:
    scene.due(30)
    scene.worker("w1", stopped=20)
    assert "stopped 20 s ago (SIGTERM)" in judged(scene).first.sentence

    scene.worker("w2", slots=0)
    assert "1 live worker without a thread" in judged(scene).first.sentence
    scene.worker("w3")
    assert rules(judged(scene)) == ["healthy"]


def test_a_program_elsewhere_lives_as_long_as_it_renews(scene: Scene) -> None:
    """At a long job it asks for no other, and so does not sign."""
    scene.worker("token:gpu:1a", seen=400, since=500, via="api")
    scene.due(5)
    scene.running(390, by="token:gpu", lease_expires_at=ago(-50))
    assert "no_workers" not in rules(judged(scene))

    scene.session.execute(
        sa.text(
            "UPDATE jobs SET lease_expires_at = now() + interval '15 s' WHERE status = 'running'"
        )
    )
    scene.session.commit()
    assert "no_workers" in rules(judged(scene))


def test_leases_that_ran_out_and_nobody_to_sweep_them_are_red(scene: Scene) -> None:
    scene.running(90, lease_expires_at=ago(30))

    assert "1 job of workers that are gone wait" in judged(scene).first.sentence
    scene.worker("w2")
    assert "no_workers" not in rules(judged(scene))


def test_workers_that_are_gone_with_what_they_ran_are_red_before_their_leases_end(
    scene: Scene,
) -> None:
    """Nothing is due, and nobody is there to take the jobs back."""
    scene.worker(stopped=5)
    scene.running(90)

    found = judged(scene)

    assert rules(found) == ["no_workers", "stale_worker"]
    assert "1 job is held by workers that are gone; the first lease ends in 5" in (
        found.first.sentence
    )
    assert found.others[0].sentence.endswith("and no other worker is alive to take them back.")
    assert found.others[0].step.text.startswith("Start `flask work`")
    scene.worker("w2")
    assert rules(judged(scene)) == ["stale_worker"]


def test_a_worker_that_lost_its_leases_since_it_signed_hangs(scene: Scene) -> None:
    """Its process was stopped: it is connected and signed a minute ago, and works no more."""
    scene.worker(seen=70, lease_s=60)
    lost = scene.running(90, lease_expires_at=ago(5), max_attempts=1)
    kept = scene.running(90, lease_expires_at=ago(-60))
    scene.due(20)
    transitions.expire(scene.session, actor="sweeper:2", backoff=Backoff())
    scene.session.commit()
    assert "no_workers" not in rules(judged(scene)), "it still renews another"

    scene.session.execute(sa.delete(Job).where(Job.id == kept.id))
    scene.session.commit()
    found = judged(scene)

    assert scene.session.get_one(Job, lost.id).status == Status.FAILED
    assert rules(found)[0] == "no_workers"
    assert "w1:1:aa hangs: it renewed its leases 1 min 5 s ago" in found.first.sentence
    assert 64 < seconds_since(found) < 75
    scene.worker(seen=1)
    assert "no_workers" not in rules(judged(scene))


@pytest.mark.parametrize("alive", [False, True])
def test_however_many_names_have_signed_the_living_are_known(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    """Short-lived workers, as a cron job starts them: not all of them are read."""
    monkeypatch.setattr(why_statement, "MOST_WORKERS", 2)
    for name in ("a", "b", "c"):
        scene.worker(name, seen=4000, since=5000)
    scene.due(30)
    if alive:
        scene.worker("z", since=250)

    found = judged(scene, expected_workers=1)

    assert rules(found) == (["healthy"] if alive else ["no_workers"])


def test_signs_that_nobody_can_look_through_make_it_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_statement, "MOST_WORKERS", 2)
    monkeypatch.setattr(why_statement, "MOST_SIGNS", 1)
    for name in ("a", "b", "c"):
        scene.worker(name, seen=20)

    assert "workers: more have signed lately" in judged(scene).first.sentence


# Paused


def test_a_pause_is_amber_with_jobs_behind_it_and_red_after_a_while(scene: Scene) -> None:
    scene.worker()
    scene.event(Event.QUEUE_PAUSED, "queue", 50_000, reason="migration")
    assert rules(judged(scene)) == ["healthy"]

    scene.due(300)
    found = judged(scene)
    # On purpose: neither stalled nor starving, though the first job waits and nothing ends.
    assert rules(found) == ["paused"]
    assert found.level is Level.AMBER
    assert "paused by user:ana 13 h 53 min ago (migration): 1 job is due" in found.first.sentence
    assert found.first.step.text.startswith("Resume")
    assert found.first.title == "Paused"

    assert judged(scene, thresholds=Thresholds(paused=200)).level is Level.RED
    control.resume(scene.session, actor="user:ana")
    scene.session.commit()
    # What waited behind it has its time to start.
    assert rules(judged(scene)) == ["healthy"]


def test_held_kinds_count_by_their_due_jobs(scene: Scene) -> None:
    scene.worker()
    control.hold_kind(scene.session, ECHO, actor="user:bo", reason="provider down")
    for _ in range(2):
        scene.due(5000, kind=ECHO)
    scene.session.execute(sa.text("UPDATE jobs SET status = 'held', held_for = 'kind'"))
    scene.due(4000, kind=ECHO)  # not moved yet
    make_job(scene.session, Status.HELD, kind="a.b", available_at=ago(-60))
    scene.session.commit()

    found = judged(scene)

    assert rules(found) == ["paused"]
    assert found.level is Level.RED
    assert "demo.echo was put on hold by user:bo" in found.first.sentence
    assert "(provider down): 3 of its jobs are due. The oldest of" in found.first.sentence
    assert found.first.title == "On hold"
    assert found.first.step.paths[0] == "/kinds/demo.echo"


def test_a_hold_does_not_hide_that_nobody_is_there_to_run_its_jobs(scene: Scene) -> None:
    scene.worker(stopped=20)
    control.hold_kind(scene.session, ECHO, actor="user:bo", reason="provider down")
    make_job(scene.session, Status.HELD, available_at=ago(500), held_for="kind")
    scene.session.commit()

    found = judged(scene)

    assert rules(found) == ["paused"]
    assert "1 of its jobs is due; no worker is alive to run them." in found.first.sentence


def test_a_hold_whose_jobs_nobody_has_moved_yet_is_no_health(scene: Scene) -> None:
    scene.worker()
    for _ in range(3):
        scene.due(700)
    control.hold_kind(scene.session, ECHO, actor="user:bo", reason="provider down")
    scene.session.commit()

    found = judged(scene)

    assert rules(found) == ["paused"]
    assert "3 of its jobs are due. The oldest of them has waited 11 min 40 s" in (
        found.first.sentence
    )


def test_a_hold_that_nobody_lifts_in_time_says_so(scene: Scene) -> None:
    scene.worker()
    scene.due(5000)
    control.hold_kind(scene.session, ECHO, actor="user:bo", reason="provider down", for_s=0)
    scene.session.commit()

    assert re.search(
        r"its time is over since \S+ s, and a worker lifts", judged(scene).first.sentence
    )
    scene.worker(stopped=1)
    [_, held] = judged(scene).findings
    assert "and no worker is alive to lift it: 1 of its jobs is due" in held.sentence


def test_a_hold_behind_many_others_is_found(scene: Scene) -> None:
    scene.worker()
    kinds = [f"{ECHO}{n:02}" for n in range(25)]
    for kind in kinds:
        control.hold_kind(scene.session, kind, actor="user:bo", reason="later")
    make_job(scene.session, Status.HELD, kind=kinds[-1], available_at=ago(500), held_for="kind")
    scene.session.commit()

    found = judged(scene)

    assert rules(found) == ["paused"]
    assert found.first.evidence["held_kinds"] == kinds[-1:]


# Stalled and wedged


def test_an_old_head_of_the_line_and_no_ends_are_a_stall(scene: Scene) -> None:
    scene.worker()
    job = scene.due(200)
    scene.ended(150)
    slow = scene.running(100, kind="report.build")

    found = judged(scene)

    assert rules(found) == ["stalled"]
    assert found.level is Level.RED
    assert f"Job {job.id} (demo.echo) is due for 3 min 20 s" in found.first.sentence
    assert "no attempt has ended for 2 min 30 s" in found.first.sentence
    assert f"1 of 2 threads are busy, the longest with job {slow.id}" in found.first.sentence
    assert found.first.step.paths == ("/#longest",)
    assert 149 <= seconds_since(found) <= 160


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_waiting_behind_busy_workers_is_no_stall(scene: Scene, status: Status) -> None:
    scene.worker()
    scene.due(200)
    scene.ended(20, status, started_at=ago(30))

    found = judged(scene)
    assert rules(found) == ["healthy"]
    assert "has waited 3 min 20 s: the line moves, an attempt ended 20 s ago" in (
        found.first.sentence
    )


def test_cancelling_what_waits_moves_nothing_on(scene: Scene) -> None:
    scene.worker()
    scene.due(200)
    scene.ended(20, Status.CANCELLED)

    assert rules(judged(scene)) == ["stalled"]


def test_attempts_that_are_to_be_tried_again_are_ends_as_well(
    scene: Scene, session: Session
) -> None:
    scene.worker()
    scene.due(200)
    assert rules(judged(scene)) == ["stalled"]

    from queueapp.jobs import transitions

    job = make_job(session)
    claim = claim_one(session, job.id)
    transitions.settle(session, [outcome(claim, "retry", delay_s=600.0)], actor="worker:w1:1:aa")
    session.commit()
    assert rules(judged(scene)) == ["healthy"]


def test_a_worker_that_has_just_started_may_take_a_moment(scene: Scene) -> None:
    scene.due(20_000)
    scene.worker(since=30)
    found = judged(scene)
    assert rules(found) == ["healthy"]
    assert ": the workers began 30 s ago" in found.first.sentence


@pytest.mark.parametrize(
    "stopped", [[300, 200, 100], [None, None, None]], ids=["by themselves", "without a word"]
)
def test_workers_that_end_and_begin_again_and_again_do_not_hide_a_stall(
    scene: Scene, stopped: list[float | None]
) -> None:
    for name, since, end in zip("abc", (390, 280, 180), stopped, strict=True):
        scene.worker(name, since=since, seen=since - 70, stopped=end)
    scene.worker("d", since=80)
    scene.due(500)

    assert rules(judged(scene)) == ["stalled"]


@pytest.mark.parametrize(
    ("minutes", "running", "found"),
    [
        ({"run": {"18": 20}}, [500, 700], "healthy"),  # 262 s as a rule
        ({"run": {"18": 20}}, [500, 800], "stalled"),  # three times that are 13 min
        ({"run": {"18": 20}}, [500], "stalled"),  # there is a thread to take it
        ({}, [500, 600], "stalled"),  # nobody knows what is usual
        # Up to their time-out, for all that is known.
        ({"run": {"18": 20}, "failed": 2}, [500, 700], "stalled"),
    ],
)
def test_a_line_behind_runs_that_take_as_long_as_ever_is_no_stall(
    scene: Scene, minutes: dict[str, Any], running: list[float], found: str
) -> None:
    scene.worker()
    scene.minutes(**{"succeeded": 1, **minutes})
    scene.due(400)
    scene.ended(280)
    for seconds in running:
        scene.running(seconds)

    first = judged(scene).first

    assert first.rule == found
    assert first.evidence.get("waits_for") == ("full" if found == "healthy" else None)


def test_a_job_that_came_late_for_its_own_time_has_not_waited(scene: Scene) -> None:
    scene.worker()
    scene.due(5000, created_at=ago(10))

    assert rules(judged(scene)) == ["healthy"]


def test_nothing_running_and_nothing_starting_points_at_locks(scene: Scene) -> None:
    scene.worker()
    scene.due(200)

    found = judged(scene)

    assert "no attempt has ended yet; none of 2 threads is busy" in found.first.sentence
    assert found.first.step.paths[0] == "/system"


def test_runs_beyond_three_times_their_p95_are_wedged(scene: Scene) -> None:
    scene.worker()
    scene.minutes(succeeded=1, run={"15": 20})  # 33 s
    job = scene.running(400)
    scene.ended(390)

    found = judged(scene)

    assert rules(found) == ["wedged"]
    assert found.level is Level.RED
    assert f"job {job.id} (demo.echo), for 6 min 40 s (95 of 100 end within 32 s)" in (
        found.first.sentence
    )
    assert 389 <= seconds_since(found) <= 400


@pytest.mark.parametrize(
    ("history", "run_s", "level"),
    [
        ({"run": {"18": 20}}, 700, Level.GREEN),  # 262 s: three times that are 13 min
        ({"run": {"18": 20}}, 800, Level.RED),
        ({}, 400, Level.AMBER),  # nobody knows what is usual
        ({}, 200, Level.GREEN),
    ],
)
def test_how_long_is_too_long_depends_on_the_kind(
    scene: Scene, history: dict[str, Any], run_s: float, level: Level
) -> None:
    scene.worker()
    scene.minutes(succeeded=1, **history)
    scene.running(run_s)

    assert judged(scene).level is level


def test_one_run_that_has_just_begun_shows_that_threads_come_free(scene: Scene) -> None:
    scene.worker()
    scene.minutes(succeeded=1, run={"10": 20})
    scene.running(4000)
    scene.running(2)

    assert rules(judged(scene)) == ["healthy"]


# What goes wrong


def lose(session: Session, job_id: int, holder: str, verb: str = "retry") -> None:
    """The job's next worker vanishes."""
    from queueapp.jobs import transitions
    from queueapp.jobs.backoff import Backoff
    from queueapp.jobs.claim import Holder
    from queueapp.jobs.transitions.bereavement import Death

    session.execute(sa.text("UPDATE jobs SET available_at = now() - interval '1 s'"))
    claim_one(session, job_id, Holder(holder, lease_s=60))
    death = Death(holder, "signal 9", crashed=True)
    transitions.take_back(session, death, actor="sweeper:s", backoff=Backoff(base_s=60, cap_s=600))
    session.commit()


def test_a_job_that_two_workers_vanished_with_kills_them(scene: Scene, session: Session) -> None:
    scene.worker()
    scene.minutes()
    job = make_job(session)
    lose(session, job.id, "worker:a")
    assert rules(judged(scene)) == ["healthy"]
    lose(session, job.id, "worker:b")

    found = judged(scene)

    assert found.first.rule == "worker_killer"
    assert f"Job {job.id} (demo.echo) was running when 2 workers vanished" in found.first.sentence
    assert found.first.step.paths == (f"/jobs/{job.id}",)
    # A worker that is still there was only slow.
    scene.worker("b")
    assert rules(judged(scene)) == ["healthy"]


def test_a_worker_that_said_why_it_ended_has_not_vanished(scene: Scene, session: Session) -> None:
    scene.worker()
    job = make_job(session)
    lose(session, job.id, "worker:a")
    lose(session, job.id, "worker:b")
    scene.worker("b", stopped=2)

    assert rules(judged(scene)) == ["healthy"]


def test_one_worker_that_was_cut_off_twice_is_not_two(scene: Scene, session: Session) -> None:
    scene.worker()
    job = make_job(session)
    lose(session, job.id, "worker:a")
    lose(session, job.id, "worker:a")

    assert rules(judged(scene)) == ["healthy"]


def test_a_run_that_goes_well_after_all_is_forgiven(scene: Scene, session: Session) -> None:
    scene.worker()
    scene.minutes()
    job = make_job(session)
    lose(session, job.id, "worker:a")
    lose(session, job.id, "worker:b")
    session.execute(sa.text("UPDATE jobs SET available_at = now() - interval '1 s'"))
    claim_one(session, job.id, Holder("worker:w1:1:aa", lease_s=60))
    session.commit()
    assert judged(scene).first.rule == "worker_killer"

    lost = sa.update(JobEvent).where(JobEvent.event == "lease_expired")
    session.execute(lost.values(created_at=ago(4000)))
    session.commit()
    assert rules(judged(scene)) == ["healthy"]


def test_the_third_death_ends_it_and_is_told_still(scene: Scene, session: Session) -> None:
    scene.worker()
    job = make_job(session)
    for name in "abc":
        lose(session, job.id, f"worker:{name}")

    found = judged(scene)

    assert "3 workers vanished" in found.first.sentence
    assert "ended failed" in found.first.sentence
    assert found.level is Level.AMBER, "it takes no worker any more"
    session.execute(sa.text("UPDATE jobs SET finished_at = now() - interval '2 hours'"))
    session.commit()
    assert "worker_killer" not in rules(judged(scene))


def test_an_error_beside_the_lost_leases_is_another_story(scene: Scene, session: Session) -> None:
    from queueapp.jobs import transitions

    scene.worker()
    job = make_job(session)
    claim = claim_one(session, job.id)
    transitions.settle(session, [outcome(claim, "retry", delay_s=1.0)], actor="worker:x")
    session.commit()
    lose(session, job.id, "worker:a")
    lose(session, job.id, "worker:b")

    assert rules(judged(scene)) == ["healthy"]


@pytest.mark.parametrize(
    ("starts", "retries", "level"),
    [
        (100, 71, Level.AMBER),
        (100, 80, Level.RED),
        (100, 50, Level.GREEN),
        (3, 3, Level.GREEN),  # too few to say
    ],
)
def test_a_storm_is_when_most_starts_are_retries(
    scene: Scene, starts: int, retries: int, level: Level
) -> None:
    scene.worker()
    failed = starts // 4
    scene.minutes(
        claimed=starts, retries=retries, succeeded=starts - failed, retry_scheduled=failed
    )
    make_job(
        scene.session, kind=ECHO, available_at=ago(-60), attempts=1, error_class="ConnectionError",
        error_fingerprint="f1",
    )  # fmt: skip
    scene.session.commit()

    found = judged(scene)

    if level is Level.GREEN:
        assert "retry_storm" not in rules(found)
    else:
        assert found.level is level
        assert f"{retries} % of {starts * 5} starts in 5 minutes are retries" in (
            found.first.sentence
        )
        assert "most of demo.echo: ConnectionError" in found.first.sentence
        assert found.first.step.paths == ("/errors/f1",)
        # Since the first line of the twelve.
        assert 700 <= seconds_since(found) <= 760


def test_retries_that_go_well_again_are_no_storm(scene: Scene) -> None:
    """The provider is back: what was on hold is worked off."""
    scene.worker()
    scene.minutes(claimed=100, retries=80, retry_scheduled=80, succeeded=20)
    scene.minutes(1, upto=9, claimed=30, retries=30, succeeded=10, retry_scheduled=20)
    assert rules(judged(scene)) == ["retry_storm", "failing"]

    scene.minutes(1, upto=8, claimed=100, retries=100, succeeded=100)
    found = judged(scene)

    assert rules(found) == ["healthy"]
    assert "failed, most of demo.echo; of its 100 attempts since " in found.notes[0]


def test_what_is_put_off_again_and_again_is_no_storm(scene: Scene) -> None:
    """Jobs that have failed once, and ask to wait each time that they are looked at."""
    scene.worker()
    scene.minutes(claimed=300, deferred=200, retries=200, succeeded=70, retry_scheduled=30)

    assert rules(judged(scene)) == ["failing"]


def test_the_error_of_another_kind_is_not_blamed(scene: Scene) -> None:
    scene.worker()
    scene.minutes(failed=60)
    scene.ended(60, Status.FAILED, kind="a.b", error_fingerprint="f1", error_class="KeyError")
    found = judged(scene)
    assert "failed, most of demo.echo; no job of demo.echo is failed or" in found.first.sentence
    # No list of jobs would have one that failed so.
    assert found.first.step.paths == ("/events?event=failed&kind=demo.echo",)

    # One cause, and another kind was hit last.
    scene.ended(70, Status.FAILED, error_fingerprint="f1", error_class="KeyError")
    assert judged(scene).first.sentence.endswith("failed, most of demo.echo: KeyError.")


@pytest.mark.parametrize(
    ("failed", "level"), [(30, Level.AMBER), (60, Level.RED), (20, Level.GREEN)]
)
def test_failures_are_told_by_their_share(scene: Scene, failed: int, level: Level) -> None:
    scene.worker()
    scene.minutes(succeeded=100 - failed, failed=failed - 10, retry_scheduled=10)
    scene.ended(60, Status.FAILED, error_fingerprint="f1", error_class="KeyError")

    found = judged(scene)

    assert found.level is level
    if level is not Level.GREEN:
        assert (
            f"{failed} % of 1,000 attempts in 10 minutes failed, most of demo.echo: KeyError."
            in (found.first.sentence)
        )
        assert found.first.step.paths[0] == "/errors/f1"


def test_that_failing_is_over_hides_no_kind_that_fails_still(scene: Scene) -> None:
    scene.worker()
    scene.minutes(4, failed=100, upto=200)
    scene.minutes(2, succeeded=100, upto=20)
    assert judged(scene).notes[0].endswith("none failed.")

    scene.minutes(1, kind="a.b", failed=30, upto=15)

    found = judged(scene)
    assert rules(found) == ["healthy"]
    assert found.notes[0].endswith("; but 100 % of the 30 attempts of a.b failed.")


@pytest.mark.parametrize(
    ("since", "level"),
    [
        # As bad as before.
        ({"failed": 14, "succeeded": 6}, Level.RED),
        # Not enough to say that it is over; a quarter of it is a sign.
        ({"succeeded": 4}, Level.RED),
        ({"succeeded": 5}, Level.AMBER),
        ({"succeeded": 19}, Level.AMBER),
        ({"succeeded": 20}, Level.GREEN),
        ({"succeeded": 17, "failed": 3}, Level.GREEN),
    ],
)
def test_failures_are_over_when_the_newest_attempts_go_well(
    scene: Scene, since: dict[str, Any], level: Level
) -> None:
    """A bad deploy was rolled back, and what had failed was retried: no row is failed any more."""
    scene.worker()
    scene.minutes(failed=70, succeeded=30, upto=70)
    scene.minutes(1, **since)
    if level is Level.RED:  # Not all were retried.
        scene.ended(60, Status.FAILED, error_fingerprint="f1", error_class="KeyError")

    found = judged(scene)

    assert found.level is level
    ended = sum(since.values())
    cause = ": KeyError" if level is Level.RED else ""
    said = f"most of demo.echo{cause}; of its {ended} attempts since "
    if level is Level.GREEN:
        assert rules(found) == ["healthy"]
        [note] = found.notes
        assert note.startswith("Failing is over: 6")
        assert said in note
        assert note.endswith(f" UTC {since.get('failed', 'none')} failed.")
    else:
        assert found.notes == ()
        log = "/events?event=failed&kind=demo.echo"
        assert found.first.step.paths == ("/errors/f1" if cause else log,)
        assert (said in found.first.sentence) is ("failed" not in since)
        assert found.first.evidence["attempts_since"] == (0 if "failed" in since else ended)


@pytest.mark.parametrize(
    ("ended_s", "is_left"),
    # One of hours ago is another story of the same kind.
    [
        pytest.param(None, False, marks=pytest.mark.postgresql("how much of the line is read")),
        pytest.param(7000, False, marks=pytest.mark.postgresql("how much of the line is read")),
        (300, True),
    ],
)
def test_failing_of_which_no_job_is_left_says_so_and_when_it_clears(
    scene: Scene, ended_s: float | None, is_left: bool
) -> None:
    """A poison was found, and its jobs were cancelled."""
    scene.worker()
    scene.minutes(retry_scheduled=60, succeeded=30, upto=70)
    if ended_s:
        fields = {"error_fingerprint": "f1", "error_class": "KeyError"}
        scene.ended(ended_s, Status.FAILED, kind=ECHO, **fields)
    # Perhaps some wait for a retry that is too far off to be seen.
    for _ in range(statements.HEAD):
        make_job(scene.session, kind="a.b", available_at=ago(-60))
    scene.session.commit()
    bad = judged(scene).first
    scene.minutes(1, succeeded=1)
    found = judged(scene).first

    assert (bad.level, bad.evidence["clears_at"]) == (Level.RED, None)
    clears_at = found.evidence["clears_at"]
    if is_left:
        assert (found.level, clears_at) == (Level.RED, None)
        return
    assert found.level is Level.AMBER
    assert (
        f"nothing is left to do for it: this clears by itself by {moment(clears_at)}, unless"
        in (found.sentence)
    )
    assert found.step.text.startswith("Nothing more")
    # The last bad line ended 70 s ago; it counts for ten minutes.
    assert 300 <= (clears_at - judged(scene).as_of).total_seconds() <= 530


@pytest.mark.postgresql("how much of the line is read")
def test_what_is_scheduled_for_tomorrow_hides_no_retry_of_now(scene: Scene) -> None:
    """All that failed was cancelled; a great deal is scheduled, which was never tried."""
    scene.worker()
    scene.minutes(retry_scheduled=60, succeeded=30, upto=70)
    new = NewJob(kind="a.b", payload={}, priority=9, delay_s=86_400)
    transitions.enqueue(
        scene.session, [new] * statements.HEAD, producer="app", actor="app", via="python"
    )
    scene.session.commit()

    found = judged(scene).first

    assert found.level is Level.AMBER
    assert "nothing is left to do for it: this clears by itself by" in found.sentence


def test_a_good_minute_of_chance_ends_no_failing(scene: Scene) -> None:
    scene.worker()
    scene.minutes(failed=25, succeeded=75, upto=70)
    scene.minutes(1, failed=3, succeeded=17)

    found = judged(scene)

    assert (found.first.rule, found.level) == ("failing", Level.AMBER)
    assert "; of its 20 attempts since " in found.first.sentence


def test_other_kinds_that_go_well_do_not_make_up_for_one_that_fails(scene: Scene) -> None:
    scene.worker()
    scene.minutes(failed=70, upto=70)
    scene.minutes(1, kind="a.b", succeeded=60)
    scene.ended(60, Status.FAILED, error_fingerprint="f1", error_class="KeyError")
    assert judged(scene).level is Level.RED

    # Somebody has seen to it, and may come back to it from the same place.
    control.hold_kind(scene.session, ECHO, actor="user:ana", reason="provider down")
    scene.session.commit()
    found = judged(scene)
    assert (found.first.rule, found.level) == ("failing", Level.AMBER)
    assert found.first.sentence.endswith("failed, most of demo.echo: KeyError; it is on hold.")
    assert found.first.step.text.startswith("Unhold it when")


def test_the_group_of_now_is_blamed_and_not_the_largest_that_is_left(scene: Scene) -> None:
    scene.worker()
    scene.minutes(failed=60)
    for n in range(3):
        scene.ended(7000 + n, Status.FAILED, error_fingerprint="old", error_class="KeyError")
    make_job(
        scene.session, Status.HELD, held_for="kind", attempts=1, error_class="OSError",
        error_fingerprint="new",
    )  # fmt: skip
    scene.session.commit()

    assert judged(scene).first.step.paths == ("/errors/new",)


def test_a_group_that_came_with_the_deploy_is_called_new(scene: Scene) -> None:
    scene.worker("old", seen=700, since=7000, release="r1")
    scene.worker("new", since=300, release="r2")
    scene.minutes(failed=60)
    scene.ended(60, Status.FAILED, error_fingerprint="f1")
    assert ", new since the deploy of " in judged(scene).first.sentence

    scene.ended(5000, Status.FAILED, error_fingerprint="f1")
    found = judged(scene)
    assert "new since" not in found.first.sentence
    assert found.first.evidence["new_since_deploy"] is False


def test_what_a_deploy_did_not_bring_is_not_new_because_it_was_retried(scene: Scene) -> None:
    """All of the cause were retried after the deploy, and all have failed again."""
    scene.worker("old", seen=700, since=7000, release="r1")
    failure = described("KeyError", "down")
    job = make_job(scene.session)
    ends = [outcome(claim_one(scene.session, job.id), "fail", failure=failure)]
    transitions.settle(scene.session, ends, actor="worker:old")
    lines = sa.update(JobEvent).where(JobEvent.job_id == job.id)
    scene.session.execute(lines.values(created_at=ago(900)))
    transitions.requeue(scene.session, [job.id], actor="user:ana", reason="once more")
    ends = [outcome(claim_one(scene.session, job.id), "fail", failure=failure)]
    transitions.settle(scene.session, ends, actor="worker:new")
    scene.worker("new", since=300, release="r2")
    scene.minutes(failed=60)

    found = judged(scene).first

    assert "new since" not in found.sentence
    assert found.evidence["new_since_deploy"] is False


# What is slow


def test_a_low_priority_that_waits_behind_a_flow_starves(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    job = scene.due(900, priority=-5)
    assert rules(judged(scene)) == ["healthy"]

    scene.running(3, priority=10)
    found = judged(scene)

    assert rules(found) == ["starving"]
    assert f"Priority -5 waits: job {job.id}" in found.first.sentence
    assert "while priority 10 goes on" in found.first.sentence
    assert rules(judged(scene, thresholds=Thresholds(starving=1000))) == ["healthy"]


def test_a_low_priority_starves_below_however_many_others(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    for priority in range(1, 151):
        make_job(scene.session, priority=priority)
    job = scene.due(900)

    found = judged(scene)

    assert rules(found) == ["starving"]
    assert f"Priority 0 waits: job {job.id}" in found.first.sentence


def test_priorities_that_were_not_looked_at_are_no_health(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", 3)
    scene.worker()
    scene.ended(5)
    for priority in range(3):
        scene.due(1, priority=priority)
    assert rules(judged(scene)) == ["healthy"]

    scene.due(1, priority=-1)
    found = judged(scene)
    control.pause(scene.session, actor="user:ana", reason="migration")
    scene.session.commit()
    paused = judged(scene)

    assert (rules(found), found.level) == (["unknown"], Level.UNKNOWN)
    assert "(line: jobs wait at more than the 3 highest priorities" in found.first.sentence
    assert rules(paused) == ["unknown", "paused"]
    assert "(migration): at least 4 jobs are due. The oldest looked at has waited" in (
        paused.findings[1].sentence
    )


def test_what_nobody_alive_can_run_is_not_starving_but_lonely(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    scene.running(3, priority=10)
    job = scene.due(900, kind="crm.sync", priority=-5)

    found = judged(scene)

    assert rules(found) == ["no_worker_for_kind"]
    assert f"Job {job.id} (crm.sync) is due for 15 min 0 s" in found.first.sentence
    scene.worker("elsewhere", kinds=["crm.sync"], via="api")
    assert "no_worker_for_kind" not in rules(judged(scene))


def test_a_high_priority_that_nobody_can_run_does_not_flow(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    scene.due(900)
    scene.due(930, kind="crm.sync", priority=10)

    found = judged(scene, thresholds=Thresholds(starving=920, stalled=5))
    assert rules(found) == ["no_worker_for_kind"]
    found = judged(scene, thresholds=Thresholds(starving=940))
    assert rules(found) == ["healthy"]
    assert ": no live worker runs its kind crm.sync" in found.first.sentence


def test_a_kind_on_hold_on_purpose_does_not_starve(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    scene.running(3, priority=10)
    scene.due(900, kind=ECHO, priority=-5)
    control.hold_kind(scene.session, ECHO, actor="user:ana", reason="later")
    scene.session.commit()

    assert rules(judged(scene)) == ["paused"]


def test_more_coming_than_ending_with_growing_waits_is_falling_behind(scene: Scene) -> None:
    scene.worker(since=3600)
    scene.ended(5)
    scene.minutes(enqueued=100, claimed=60, succeeded=60, wait={"12": 60})  # 4 s
    scene.due(90)

    found = judged(scene)

    assert rules(found) == ["falling_behind"]
    assert (
        "In 10 minutes 1,000 jobs came, most of demo.echo, and 600 ended; 1 job is due, the oldest"
        " for 1 min 30 s" in found.first.sentence
    )
    assert found.first.step.paths == ("/jobs?status=due&kind=demo.echo",)
    assert found.first.sentence.endswith("At these rates the line never empties.")
    assert found.first.step.text == (
        "Start more workers; or find out who creates so many of demo.echo, and hold that kind or"
        " cancel what came."
    )


def test_no_kind_is_to_be_held_where_none_is_most_of_what_came(scene: Scene) -> None:
    scene.worker(since=3600)
    scene.ended(5)
    for kind in (ECHO, "demo.fail", "demo.sleep"):
        scene.minutes(kind=kind, enqueued=100, claimed=60, succeeded=60, wait={"12": 60})
    scene.due(90)

    found = judged(scene)

    assert rules(found) == ["falling_behind"]
    assert "creates so many, and hold or cancel" in found.first.step.text


@pytest.mark.parametrize(("lasted_s", "is_excused"), [(700, True), (300, True), (5, False)])
def test_a_hold_is_an_excuse_for_no_longer_than_it_lasted(
    scene: Scene, lasted_s: int, is_excused: bool
) -> None:
    scene.worker(since=3600)
    scene.ended(5)
    scene.minutes(enqueued=100, claimed=60, succeeded=60, wait={"12": 60})
    scene.due(900)
    control.hold_kind(scene.session, "a.b", actor="user:ana", reason="to see")
    aged = "UPDATE job_events SET created_at = created_at - make_interval(secs => :s)"
    scene.session.execute(sa.text(f"{aged} WHERE event = 'kind_held'"), {"s": lasted_s + 90})
    control.unhold_kind(scene.session, "a.b", actor="user:ana")
    scene.session.execute(sa.text(f"{aged} WHERE event = 'kind_unheld'"), {"s": 90})
    scene.session.commit()

    found = judged(scene)

    assert rules(found) == (["healthy"] if is_excused else ["falling_behind"])
    assert ("the hold of a.b ended" in found.first.sentence) is is_excused


def test_what_is_scheduled_has_not_come_before_it_is_due(scene: Scene) -> None:
    session, minute = scene.session, timedelta(minutes=1)

    def count_and_wait() -> int:
        minute_stats.write(session, actor="housekeeping:w1")
        for line in session.scalars(sa.select(JobEvent)):
            line.created_at -= minute
            if line.data and "due_to" in line.data:
                due_to = datetime.fromisoformat(line.data["due_to"]) - minute
                line.data = {**line.data, "due_to": due_to.isoformat()}
        for job in session.scalars(sa.select(Job)):
            job.created_at, job.available_at = job.created_at - minute, job.available_at - minute
        session.commit()
        hour = reading.read(session, job_timeout_s=60).hour
        session.rollback()
        assert hour is not None
        assert sum(one.arrived for one in hour.minutes) == sum(one.arrived for one in hour.recent)
        return sum(one.arrived for one in hour.minutes)

    long_ago: dict[str, Any] = {"created_at": ago(7200), "available_at": ago(-7200)}
    for attempts in (0, 0, 1):
        make_job(session, kind=ECHO, attempts=attempts, **long_ago)
    session.commit()
    count_and_wait()
    new = [NewJob(kind=ECHO, payload={"message": ""}, delay_s=s) for s in (0, 30, 3600, 9000)]
    transitions.enqueue(session, new, producer="p", actor="token:p", via="api")
    session.commit()
    assert count_and_wait() == 2

    # The hour of those that were created long ago comes; a retry has come before.
    soon = sa.update(Job).where(Job.available_at.between(ago(-7000), ago(-7200)))
    session.execute(soon.values(available_at=ago(-50)))
    session.commit()
    assert count_and_wait() == 4
    # Each comes once.
    assert count_and_wait() == 4


def test_what_waited_behind_a_pause_may_take_its_time(scene: Scene) -> None:
    scene.worker()
    scene.ended(5)
    scene.minutes(enqueued=100)
    scene.event(Event.QUEUE_PAUSED, "queue", 1200)
    scene.event(Event.QUEUE_RESUMED, "queue", 60)
    scene.due(1100)
    scene.running(3, priority=10)

    found = judged(scene)

    assert rules(found) == ["healthy"]
    # Green stands over a line that waits: it says why.
    assert found.first.sentence.startswith(
        "The oldest due job has waited 18 min 20 s: the pause ended 1 min 0 s ago · "
    )
    assert found.first.evidence["waits_for"] == "lifted"


@pytest.mark.parametrize(
    "told",
    [
        {"enqueued": 60, "succeeded": 60},
        # The wait does not grow: they waited as long before.
        {"enqueued": 100, "succeeded": 60, "wait": {"17": 60}},
        # Only for some minutes yet.
        {"enqueued": 100, "succeeded": 60, "count": 6},
    ],
)
def test_a_backlog_that_does_not_grow_is_not_falling_behind(
    scene: Scene, told: dict[str, Any]
) -> None:
    scene.worker()
    scene.ended(5)
    scene.minutes(**told)
    scene.due(90)

    assert rules(judged(scene)) == ["healthy"]


def test_a_silent_holder_is_stale_and_says_when_its_leases_end(scene: Scene) -> None:
    scene.worker("w1", lease_s=300, seen=100)
    scene.worker("w2")
    scene.running(250, by="worker:w1", lease_expires_at=ago(-90))
    scene.running(2, by="worker:w2")

    found = judged(scene)

    assert rules(found) == ["stale_worker"]
    said = r"Worker w1 has been silent for 3 min 3\d s and holds 1 job"
    assert re.search(said, found.first.sentence)
    assert "end by themselves within 1 min" in found.first.sentence
    assert found.first.step.paths[0] == "/workers/worker%3Aw1"
    assert found.first.evidence["other_workers"] == 1


def test_a_lease_that_the_time_out_cuts_short_is_no_silence(scene: Scene) -> None:
    scene.worker("w1", lease_s=300)
    scene.running(250, by="worker:w1", timeout_s=260, lease_expires_at=ago(-10))

    assert rules(judged(scene)) == ["healthy"]


def test_fewer_workers_than_expected_are_missed(scene: Scene) -> None:
    scene.worker("w1")
    scene.worker("w2", seen=400)
    assert rules(judged(scene)) == ["healthy"]

    found = judged(scene, expected_workers=2)

    assert rules(found) == ["few_workers"]
    assert found.first.sentence.startswith("1 of 2 workers is alive; w2 was heard of last")


# What will become a problem


@pytest.mark.parametrize(
    ("system", "found"),
    [
        (System(2, None), ["ledger_ends"]),
        (System(-1, 1900.0), ["ledger_ends", "old_transaction"]),
        (System(14, 60.0, hidden=2, role="queue"), ["healthy"]),
    ],
)
def test_the_database_is_looked_after(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, system: System, found: list[str]
) -> None:
    monkeypatch.setattr(partitions, "days_ahead", lambda _database: system.days_ahead)
    open_ = Transactions(system.oldest_transaction_s, system.hidden, system.role)
    monkeypatch.setattr(reading, "transactions", lambda _database: open_)

    verdict = judged(scene)

    assert rules(verdict) == found
    told = [
        "How long transactions of other roles have been open cannot be seen: 2 connections of"
        " theirs are hidden from queue (GRANT pg_read_all_stats TO queue)."
    ]
    assert list(verdict.notes) == (told if system.hidden else [])


@pytest.mark.postgresql("roles")
def test_what_may_not_be_seen_of_others_is_no_green(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE ROLE blind_one"))
        connection.execute(sa.text("SET LOCAL ROLE blind_one"))
        with engine.begin() as rival:
            rival.execute(sa.text("SELECT pg_current_xact_id()"))
            blind = transactions_of(connection)
        connection.rollback()

    assert blind.oldest_s is None
    assert blind.hidden >= 1
    assert blind.role == "blind_one"


def test_a_worker_whose_connections_are_gone_lives_no_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page of the workers has it: it signed a moment ago, and is unconnected."""
    known: dict[str, int] = {}
    monkeypatch.setattr(reading, "connections", lambda *_a, **_k: Connections(known))
    scene.worker(nameless=False)
    scene.running(20, by="worker:w1:1:aa")
    scene.due(5)

    found = judged(scene, expected_workers=1)

    assert rules(found) == ["no_workers", "stale_worker"]
    seen = r"w1:1:aa is unconnected, it was seen \d\.\d s ago"
    assert re.search(f"; {seen}; 1 job is due", found.first.sentence)
    assert re.search(f"Worker {seen} and holds 1 job", found.others[0].sentence)
    known[connection_name("work", "w1:1:aa")] = 2
    assert rules(judged(scene, expected_workers=1)) == ["healthy"]


# Order, and what is not known


def test_the_first_rule_that_applies_is_the_verdict_and_the_others_stand_below(
    scene: Scene,
) -> None:
    scene.minutes(claimed=100, retries=80, failed=80, succeeded=20)
    scene.due(200)
    scene.running(100, lease_expires_at=ago(30))

    found = judged(scene, expected_workers=2)

    assert rules(found) == ["no_workers", "retry_storm", "failing"]


def test_the_verdict_is_never_milder_than_what_stands_below_it(scene: Scene) -> None:
    """Most attempts fail, and not so many of the starts are retries that it would be red."""
    scene.worker()
    scene.minutes(claimed=100, retries=60, failed=10, retry_scheduled=60, succeeded=30)
    make_job(scene.session, available_at=ago(-60), attempts=1, error_fingerprint="f1")
    scene.session.commit()

    found = judged(scene)

    assert [(one.rule, one.level) for one in found.findings] == [
        ("failing", Level.RED),
        ("retry_storm", Level.AMBER),
    ]
    assert found.level is Level.RED


def broken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A reading takes longer than it may."""
    monkeypatch.setattr(reading, "READING_S", 0.3)
    owners = (statements, suspects, why_statement)
    owner = next(one for one in owners if hasattr(one, name))
    monkeypatch.setattr(owner, name, "SELECT pg_sleep(2)")


@pytest.mark.postgresql("statement_timeout")
@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SWITCHES", "switches"), ("WORKERS", "workers"), ("LINE", "line"), ("MINUTES", "minutes"),
        ("SUSPECTS", "suspects"), ("GROUPS_OF", "failures"),
    ],
)  # fmt: skip
def test_a_reading_that_takes_too_long_makes_it_unknown_never_green(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, statement: str, part: str
) -> None:
    scene.worker()
    broken(monkeypatch, statement)

    found = judged(scene)

    assert (found.level, found.first.rule) == (Level.UNKNOWN, "unknown")
    assert part in {one.reading for one in found.unread}
    assert f"{part}: the query took longer than 0.3 s" in found.first.sentence


@pytest.mark.postgresql("statement_timeout")
def test_red_that_is_certain_stays_red_and_amber_does_not_hide_what_is_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, "MINUTES")
    scene.worker()
    scene.event(Event.QUEUE_PAUSED, "queue", 500)
    scene.due(200)
    assert rules(judged(scene)) == ["unknown", "paused"]

    control.resume(scene.session, actor="user:ana")
    scene.session.execute(sa.text("UPDATE job_events SET created_at = now() - interval '9 min'"))
    scene.session.commit()
    assert rules(judged(scene)) == ["no_workers", "unknown"]


def test_workers_that_write_no_minutes_are_not_believed(scene: Scene) -> None:
    scene.worker(since=3600)
    scene.minutes(upto=130)

    found = judged(scene)

    assert found.first.rule == "unknown"
    assert "for 2 minutes" in found.first.sentence


def test_without_a_flask_work_nobody_counts(scene: Scene) -> None:
    scene.worker("token:gpu:1a", since=3600, via="api")

    found = judged(scene)

    assert found.first.rule == "unknown"
    assert "no `flask work` is alive" in found.first.sentence


@pytest.mark.postgresql("a transaction that stays open")
def test_a_transaction_that_stays_open_leaves_every_number_known(
    scene: Scene, session: Session, engine: sa.Engine
) -> None:
    scene.worker(since=3600)
    older = sa.update(JobEvent).where(JobEvent.event == "minute_stats").values(created_at=ago(400))
    with engine.connect() as rival:
        minute_stats.write(session, actor="housekeeping:w1")
        session.execute(older)
        session.commit()
        rival.execute(sa.text("SELECT pg_current_xact_id()"))
        new = [NewJob(kind=ECHO, payload={"message": ""})] * 3
        transitions.enqueue(session, new, producer="p", actor="token:p", via="api")
        session.commit()
        minute_stats.write(session, actor="housekeeping:w1")
        session.commit()

        facts = reading.read(session, job_timeout_s=60)
        session.rollback()

    assert facts.unread == ()
    assert facts.hour
    assert sum(one.arrived for one in facts.hour.minutes) == 3
    assert Numbers.of(facts).blind_since is None


@pytest.mark.postgresql("where the statistics have come to")
def test_what_the_lines_do_not_reach_yet_is_not_known(scene: Scene, session: Session) -> None:
    """As when workers begin again after hours in which jobs came."""
    scene.worker(since=3600)
    scene.ended(5)
    sa_event = {"scope": None, "job_id": 1, "kind": ECHO, "actor": "token:p"}
    session.add(JobEvent(event="enqueued", created_at=ago(400), **sa_event))
    full = {"xid": "3", "id": 0, "since": ago(500).isoformat(), "full": True, "kinds": {}}
    session.add(JobEvent(event="minute_stats", scope="queue", actor="hk", data=full))
    session.commit()

    facts = reading.read(session, job_timeout_s=60)
    session.rollback()
    found = judged(scene)

    assert found.first.rule == "unknown"
    assert "what has happened for 6 min 4" in found.first.sentence
    assert "the workers cannot keep up" in found.first.sentence
    assert Numbers.of(facts).ended is None


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_pace_is_told_of_now_or_not_at_all(scene: Scene, is_alive: bool) -> None:
    """What ended minutes ago is none, where nobody has counted since."""
    scene.worker(since=3600, stopped=None if is_alive else 130)
    scene.minutes(enqueued=62, succeeded=50, failed=12, upto=130)
    scene.ended(131)

    facts = reading.read(scene.session, job_timeout_s=60)
    scene.session.rollback()
    numbers = Numbers.of(facts)
    found = judged(scene)

    told = numbers.arrived, numbers.ended, numbers.attempts, numbers.failures
    assert told == (None, None, None, None)
    assert numbers.blind_since is not None
    assert 125 < facts.age_s(numbers.blind_since) < 140
    assert found.first.rule == ("unknown" if is_alive else "healthy")
    assert "/min" not in found.first.sentence


def test_failures_of_a_long_line_count_as_long_as_it_ends_within_the_window(scene: Scene) -> None:
    """It is told for how long it counts."""
    scene.worker()
    session, events = scene.session, {"succeeded": 300, "failed": 700}
    for ended_s, began_s, counts in ((200, 760, events), (10, 200, {"succeeded": 9})):
        kinds = {ECHO: {"events": counts, "retries": 0, "wait": {}, "run": {}}}
        data = {"since": ago(began_s).isoformat(), "full": False, "kinds": kinds}
        at = ago(ended_s)
        session.add(
            JobEvent(event="minute_stats", scope="queue", actor="a", data=data, created_at=at)
        )
    session.commit()

    found = judged(scene)
    facts = reading.read(session, job_timeout_s=60)
    session.rollback()

    assert found.first.rule == "failing"
    assert "69 % of 1,009 attempts in 13 minutes failed" in found.first.sentence
    numbers = Numbers.of(facts)
    assert (numbers.failures, numbers.attempts, numbers.minutes) == (700, 1009, 13)


def test_a_line_that_makes_up_for_others_is_told_as_long_as_what_it_counts() -> None:
    def line(back: int, since: int, ended: int) -> dict[str, Any]:
        at, begun = (ago(60 * minutes) for minutes in (back, since))
        events = {"succeeded": ended}
        return {"at": at, "since": begun.isoformat(), "events": events, "retries": 0, "waits": {}}

    told = [line(11, 12, 7), *(line(back, back, 0) for back in range(10, 2, -1)), line(2, 11, 900)]
    told.append(line(1, 2, 8))

    minutes = read_minutes(told)

    assert [minute.count("succeeded") for minute in minutes] == [7, 900, 8]
    assert [round((m.at - m.since).total_seconds() / 60) for m in minutes] == [1, 9, 1]

    # As a drill writes them: behind those that ended later.
    written_late = [line(1, 2, 8), line(3, 4, 5), line(2, 3, 6)]
    assert [m.count("succeeded") for m in read_minutes(written_late)] == [5, 6, 8]


# What it costs


@pytest.mark.postgresql("plans")
def test_every_reading_is_one_statement_without_a_sequential_scan(
    scene: Scene, session: Session, engine: sa.Engine
) -> None:
    seed(session, 8_000)
    scene.worker()
    scene.minutes(succeeded=1, deferred=1)
    session.commit()
    with engine.connect() as connection, statements_of(engine) as sent:
        found = verdict(connection, job_timeout_s=60)

    assert found.unread == ()
    # The bound on time, seven readings, who is connected, and the database itself.
    assert len(sent) <= 12
    session.execute(sa.text("SET LOCAL enable_seqscan = off"))
    assert sequential_scans(session, sent) == []


@pytest.mark.postgresql("buffers")
def test_what_it_reads_follows_its_bounds_and_not_the_tables(
    scene: Scene, engine: sa.Engine
) -> None:
    scene.worker()
    scene.minutes(succeeded=1, deferred=1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(2):
            fill(connection, 40_000, **FINISHED)
            fill(connection, 30_000, available_at="now() + n * interval '1 s'", attempts="1")
        analyze(connection)
        with engine.connect() as asking, statements_of(engine) as sent:
            verdict(asking, job_timeout_s=60)
        read = sum(buffers(connection, *one) for one in sent[1:])

    assert read <= 3_500


def buffers(connection: sa.Connection, statement: str, parameters: Any) -> int:
    connection.exec_driver_sql("SET enable_seqscan = off")
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
    [[plan]] = connection.exec_driver_sql(explain, parameters).all()
    tree = plan[0]["Plan"]
    return int(tree["Shared Hit Blocks"] + tree["Shared Read Blocks"])


def test_every_rule_and_field_is_told_once() -> None:
    assert len({rule.code for rule in RULES} | set(ENDS)) == len(RULES) + 2
    assert {name for rule in RULES for name in rule.fields} <= set(FIELDS)
