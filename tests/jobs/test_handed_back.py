"""Jobs of a kind that no live worker runs: they are handed back, and so never due for long."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import backoff, control, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.verdict import Finding, Level, Verdict, verdict
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.scenes import Scene, ago

KIND = "invoice.mail"


@pytest.fixture
def scene(session: Session) -> Scene:
    """A worker that does not know the kind, and minutes in which something was put off."""
    found = Scene(session)
    found.worker()
    found.minutes(deferred=1)
    return found


def judged(scene: Scene) -> Verdict:
    found = verdict(scene.session, job_timeout_s=3600)
    scene.session.rollback()
    return found


def lonely(scene: Scene) -> list[Finding]:
    return [one for one in judged(scene).findings if one.rule == "no_worker_for_kind"]


def hand_back(scene: Scene, job_id: int, *seconds_ago: float) -> None:
    """A worker took it and knew no handler for it, so long ago each time."""
    for times, seconds in enumerate(seconds_ago):
        claim = claim_one(scene.session, job_id)
        decision = backoff.unknown_kind(times)
        given_back = outcome(claim, decision.verb, delay_s=decision.delay_s, reason=decision.reason)
        transitions.exchange(scene.session, [given_back], HOLDER, slots=0)
        move_newest(scene, job_id, seconds)
    scene.session.execute(
        sa.update(Job).where(Job.id == job_id)
        .values(available_at=ago(-200))
    )  # fmt: skip
    scene.session.commit()


def move_newest(scene: Scene, job_id: int, seconds: float) -> None:
    newest = sa.select(sa.func.max(JobEvent.id)).where(JobEvent.job_id == job_id)
    scene.session.execute(
        sa.update(JobEvent).where(JobEvent.id == newest.scalar_subquery())
        .values(created_at=ago(seconds))
    )  # fmt: skip


def job_of(scene: Scene, kind: str = KIND) -> int:
    return make_job(scene.session, kind=kind).id


def test_what_live_workers_hand_back_again_and_again_is_no_green(scene: Scene) -> None:
    job_id = job_of(scene)
    hand_back(scene, job_id, 1_320, 1_000, 600, 100)

    found = judged(scene)

    assert (found.level, found.first.rule) == (Level.AMBER, "no_worker_for_kind")
    assert found.first.sentence.startswith(
        f"Job {job_id} ({KIND}) was handed back 4 times in 22 min "
    )
    assert found.first.sentence.endswith("and no live worker runs its kind.")
    assert found.first.step.text.startswith("Start a worker whose `QUEUE_HANDLERS`")
    assert found.first.step.paths == (f"/jobs/{job_id}",)
    assert (found.first.evidence["kind"], found.first.evidence["handbacks"]) == (KIND, 4)
    assert found.first.since is not None
    assert 1_319 <= (found.as_of - found.first.since).total_seconds() <= 1_340


def test_it_is_no_matter_before_the_threshold_or_once_somebody_runs_the_kind(scene: Scene) -> None:
    hand_back(scene, job_of(scene), 500, 100)
    assert lonely(scene) == []

    hand_back(scene, job_of(scene), 900, 100)
    assert len(lonely(scene)) == 1
    scene.worker("w2:1:bb", kinds=[KIND])
    assert lonely(scene) == []


def test_a_kind_on_hold_and_a_job_that_was_retried_are_other_stories(scene: Scene) -> None:
    job_id = job_of(scene)
    hand_back(scene, job_id, 900, 300)
    transitions.cancel(scene.session, [job_id], actor="user:ana")
    transitions.requeue(scene.session, [job_id], actor="user:ana")
    hand_back(scene, job_id, 60)
    assert lonely(scene) == []

    hand_back(scene, job_of(scene), 900, 100)
    assert len(lonely(scene)) == 1
    control.hold_kind(scene.session, KIND, actor="user:ana", reason="no handler")
    scene.session.commit()
    assert lonely(scene) == []


def test_what_a_handler_puts_off_itself_is_not_handed_back(scene: Scene) -> None:
    job_id = job_of(scene)
    claim = claim_one(scene.session, job_id)
    put_off = outcome(claim, "defer", delay_s=60.0)
    transitions.exchange(scene.session, [put_off], HOLDER, slots=0)
    move_newest(scene, job_id, 900)
    scene.session.commit()

    assert lonely(scene) == []
