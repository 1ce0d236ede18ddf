"""Verbs that let jobs run, while a pause or a hold keeps them from it: said before and after."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.console.conftest import DIALOG, Console, words
from tests.factories import make_job
from tests.scenes import ECHO, Scene

PAUSED = (
    "The queue is paused by user:ana 0 s ago: “migration” . Nothing starts before it is resumed."
)
HELD = f"{ECHO} is on hold by user:ana 0 s ago: “provider down” . What is of this kind waits, held,"


def pause(session: Session) -> None:
    control.pause(session, actor="user:ana", reason="migration")
    session.commit()


def hold(session: Session) -> None:
    control.hold_kind(session, ECHO, actor="user:ana", reason="provider down")
    session.commit()


def told(page: str) -> str:
    return re.sub(r"ana \d s ago", "ana 0 s ago", words(page))


def failed(session: Session, jobs: int = 1, kind: str = ECHO) -> list[int]:
    ids = [make_job(session, Status.FAILED, kind=kind).id for _ in range(jobs)]
    session.commit()
    return ids


def planned(session: Session, where: JobFilter) -> str:
    found = operations.survey(session, "retry", where)
    made = operations.plan(
        session, found, how={}, actor="user:ana", reason="it is back", canary=operations.Terms()
    )
    session.commit()
    return made.id


@pytest.mark.parametrize(
    ("verb", "status"),
    [("retry", Status.FAILED), ("run-now", Status.QUEUED), ("unhold", Status.HELD),
     ("clone", Status.FAILED)],
)  # fmt: skip
def test_a_question_says_what_keeps_the_job_from_starting(
    console: Console, session: Session, verb: str, status: Status
) -> None:
    later = timedelta(hours=1 if verb == "run-now" else 0)
    job = make_job(session, status, kind=ECHO, available_at=datetime.now(UTC) + later)
    session.commit()
    path = f"/jobs/{job.id}/{verb}"
    free = told(console.get(path))
    assert "on hold" not in free
    assert "paused" not in free

    hold(session)
    pause(session)
    control.hold_kind(session, "demo.sleep", actor="user:ana", reason="another one")
    session.commit()

    dialog = console.client.get(path, headers=DIALOG).text
    for page in (console.get(path), dialog):
        assert PAUSED in told(page)
        assert HELD in told(page)
        assert "demo.sleep" not in told(page)
        assert 'href="/resume">Resume the queue</a>' in page
        assert f'href="/kinds/{ECHO}">To the kind</a>' in page


def test_no_verb_promises_a_start_that_a_hold_prevents(console: Console, session: Session) -> None:
    [ours, other] = [*failed(session), *failed(session, kind="demo.sleep")]
    hold(session)

    ticked = told(console.get(f"/jobs/bulk?verb=retry&id={ours}&id={other}"))
    assert HELD in ticked
    assert "They are due again at once" in ticked
    assert "on hold" not in told(console.get(f"/jobs/{other}/retry"))
    # A verb after which nothing starts has no need of it.
    waits = make_job(session, kind=ECHO).id
    session.commit()
    assert "on hold" not in told(console.get(f"/jobs/{waits}/cancel"))
    matching = told(console.get(f"/operations/new?status=failed&kind={ECHO}"))
    assert HELD in matching


def test_whoever_releases_jobs_is_told_that_they_will_wait(
    console: Console, session: Session
) -> None:
    make_job(session, Status.RUNNING, kind=ECHO, locked_by="gone-1")
    session.commit()
    path = "/workers/release?worker=gone-1"
    assert "on hold" not in told(console.get(path))
    hold(session)

    page = console.get(path)

    assert HELD in told(page)
    [claim] = re.findall(r'name="claim" value="([^"]+)"', page)
    answer = console.click("/workers/release", worker="gone-1", claim=claim, alive="yes")
    assert "Released 1 job. It waits: the queue is paused, or the kind" in told(answer.text)


def test_the_notice_says_how_many_of_them_wait(console: Console, session: Session) -> None:
    ids = [*failed(session, 2), *failed(session, kind="demo.sleep")]
    hold(session)

    some = console.click("/jobs/bulk", verb="retry", id=ids).text
    assert "Retrying 3 jobs. 2 of them wait: the queue is paused, or the kind is on hold" in told(
        some
    )
    assert 'data-tone="careful"' in some
    assert 'href="/#switches"' in some

    [job] = failed(session)
    pause(session)
    answer = console.post(f"/jobs/{job}/retry", next="/jobs")
    assert answer.location == "/jobs?done=retry.1.0.0.w1"
    assert "Retrying 1 job. It waits: the queue is paused" in told(console.get(answer.location))


def test_a_trial_says_what_keeps_it_from_going_on(console: Console, session: Session) -> None:
    failed(session, 12)
    made = planned(session, JobFilter(status=(Status.FAILED,)))
    plain = planned(session, JobFilter(status=(Status.FAILED,), kind=ECHO))
    free = f"/operations/{plain}"
    tag = console.panel(free).headers["HX-PTag"]
    assert "on hold" not in told(console.get(free))

    hold(session)
    pause(session)

    seen = console.panel(free, tag)
    assert seen.status_code == 200
    for page in (seen.text, console.get(free)):
        assert PAUSED in told(page)
        assert HELD in told(page)
        assert "The time of the trial runs on meanwhile." in told(page)
    # Of what kinds its jobs are is not known before they are looked at.
    assert HELD in told(console.get(f"/operations/{made}"))

    console.post(f"{free}/apply")
    on_trial = told(console.get(free))
    assert "Trying 5 jobs first, of 12 jobs" in on_trial
    assert PAUSED in on_trial
    assert HELD in on_trial

    control.unhold_kind(session, ECHO, actor="user:ana")
    control.resume(session, actor="user:ana")
    session.commit()
    assert "on hold" not in told(console.get(free))
    assert "paused" not in told(console.get(free))


def test_a_job_that_workers_vanished_with_is_not_let_run_again_unwarned(
    console: Console, session: Session
) -> None:
    lost = [*failed(session, 2), *failed(session)]
    killer, slow, unlucky = lost
    expired = [(killer, "gone-1"), (killer, "gone-2"), (slow, "gone-3"), (slow, "worker:w1:1:aa"),
               (unlucky, "gone-1"), (unlucky, "gone-1")]  # fmt: skip
    for job, holder in expired:
        line = {"job_id": job, "kind": ECHO, "event": "lease_expired", "actor": "sweeper"}
        session.add(JobEvent(**line, data={"holder": holder}))
        # A retry begins another life, and the verdict looks at that one alone.
        session.add(JobEvent(**{**line, "event": "requeued"}))
    session.execute(sa.update(Job).values(error_class="LeaseLost"))
    Scene(session).worker()

    for path in (f"/jobs/{killer}/retry", f"/jobs/{killer}/clone"):
        page = words(console.get(path))
        assert re.search(
            rf"{killer} was running when 2 workers vanished, the last one \d s ago\. Find out", page
        )
    # One that still lives was only slow, and one alone may have had other reasons.
    for job in (slow, unlucky):
        assert "vanished" not in words(console.get(f"/jobs/{job}/retry"))
    ticked = words(console.get(f"/jobs/bulk?verb=retry&id={killer}&id={slow}&id={unlucky}"))
    assert f"{killer} was running when 2 workers vanished" in ticked
    assert ticked.count("vanished") == 1
