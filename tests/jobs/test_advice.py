"""What the verdict says once its advice was followed: never the same advice again."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.status import Event, Status
from queueapp.jobs.verdict import Finding, Level, verdict
from queueapp.jobs.why.words import moment
from tests.factories import make_job
from tests.scenes import ECHO, Scene, ago

CAUSE: dict[str, Any] = {"kind": ECHO, "error_class": "KeyError", "error_fingerprint": "f1"}
ACTOR = "user:ana"


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
    assert found.sentence.endswith(" ago, its jobs come back within 10 min 0 s.")
    assert found.step.text.startswith("Wait two minutes for what its attempts come to")
    assert found.step.paths == ("/errors/f1",)

    # Two minutes later it fails as before.
    scene.session.execute(sa.text("DELETE FROM job_events WHERE event LIKE 'kind_%'"))
    scene.event(Event.KIND_UNHELD, f"kind:{ECHO}", 150)
    again = findings(scene)[rule]
    assert "lifted" not in again.sentence
    assert again.step.text.startswith(advice)


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
    assert "no job of it is failed or waits for a retry any more" in found.sentence
    assert found.step.text.startswith("Nothing more")


def test_right_after_all_were_retried_they_are_said_to_have_yet_to_run(scene: Scene) -> None:
    scene.minutes(failed=60, succeeded=40)
    ids = [scene.ended(60 + n, Status.FAILED, **CAUSE, attempts=1).id for n in range(3)]
    assert findings(scene)["failing"].level is Level.RED

    transitions.requeue(scene.session, ids[:1], actor=ACTOR)
    scene.session.commit()
    # A canary: the others are to be looked at still.
    assert findings(scene)["failing"].step.text.startswith("Look at the first group")

    transitions.requeue(scene.session, ids[1:], actor=ACTOR)
    scene.session.commit()
    found = findings(scene)["failing"]
    assert found.level is Level.AMBER
    assert found.sentence.endswith(
        ": KeyError; all of its jobs were retried, 3 jobs have not run since."
    )
    assert found.step.text.startswith("Wait for what they come to")
    assert found.step.paths == ("/errors/f1",)

    # They fail again.
    scene.session.execute(sa.update(Job).values(attempts=1, available_at=ago(-60)))
    scene.session.commit()
    assert findings(scene)["failing"].step.text.startswith("Look at the first group")
