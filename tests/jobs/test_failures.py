"""Failures by cause: what a look at the newest ones finds, and what it says of its bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import minute_stats, queries, transitions
from queueapp.jobs.database import run
from queueapp.jobs.failure import described
from queueapp.jobs.frames import own_frames
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.queries.failed_so import failed_so
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import NewJob
from queueapp.jobs.verdict import reading
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.jobs.plans import sequential_scans, statements_of
from tests.jobs.seeds import seed
from tests.scenes import Scene, ago


def fail(session: Session, message: str, *, verb: str = "fail", **fields: Any) -> Job:
    """A job whose first attempt raised."""
    job = make_job(session, **fields)
    failure = described("KeyError", message)
    ends = [outcome(claim_one(session, job.id), verb, failure=failure)]
    transitions.settle(session, ends, actor=HOLDER.name)
    session.expire_all()
    return session.get_one(Job, job.id)


def groups(session: Session, **limits: int) -> list[queries.Group]:
    window = queries.failure_window(session, **limits)
    line = queries.waiting_line(session)
    return queries.groups_of(session, window, line, queries.database_now(session))[0]


def test_groups_count_what_has_failed_and_what_waits_by_cause(session: Session) -> None:
    old = fail(session, "no account 1", kind="demo.echo")
    for number in (2, 3):
        fail(session, f"no account {number}", kind="demo.sleep", payload={"seconds": 1})
    waits = fail(session, "no account 4", verb="retry", delay_s=0, max_attempts=3)
    other = fail(session, "other")
    week = timedelta(days=7)
    assert old.finished_at is not None
    earlier = sa.update(Job).where(Job.id == old.id).values(finished_at=old.finished_at - week)
    session.execute(earlier)
    make_job(session, Status.SUCCEEDED)

    first, second = groups(session)

    assert (first.failed, first.all_failed, second.failed) == (3, 3, 1)
    assert (first.error_class, first.message) == ("KeyError", "no account ?")
    assert dict(first.kinds) == {"demo.echo": 2, "demo.sleep": 2}
    assert first.fingerprint == waits.error_fingerprint != other.error_fingerprint
    assert first.first_at is not None
    assert first.last_at is not None
    assert first.last_at - first.first_at >= week
    waiting = first.waiting
    assert (waiting.queued, waiting.held, waiting.ids) == (1, 0, [waits.id])
    assert (waiting.least_left, waiting.most_left) == (2, 2)
    assert (sum(first.buckets), first.buckets[0], first.buckets[-1]) == (3, 1, 2)


def test_a_cause_of_which_all_jobs_wait_is_a_group_too(session: Session) -> None:
    """A retry storm has not failed yet, and a hold on its kind does not hide it."""
    jobs = [fail(session, "down", verb="retry", kind="demo.echo") for _ in range(3)]
    transitions.hold(session, [jobs[0].id], held_for="kind", actor="housekeeping:w1")

    [group] = groups(session)

    assert (group.failed, group.all_failed, group.first_at, group.sample) == (0, 0, None, "down")
    assert (group.waiting.queued, group.waiting.held) == (2, 1)
    assert group.error_class == "KeyError"
    assert group.waiting.ids == [job.id for job in jobs]


def test_a_look_says_what_it_is_bounded_by(session: Session) -> None:
    for _ in range(3):
        fail(session, "same")
        fail(session, "waits", verb="retry")

    window, line = queries.failure_window(session, limit=2), queries.waiting_line(session, limit=2)
    whole = queries.failure_window(session, limit=3)

    assert (len(window.rows), window.is_cut, whole.is_cut) == (2, True, False)
    assert window.start == window.rows[-1].finished_at
    assert line.is_cut
    assert not queries.waiting_line(session).is_cut
    [group] = queries.groups_of(session, window, queries.Line({}, False), datetime.now(UTC))[0]
    assert (group.failed, group.all_failed) == (2, 3)


@pytest.mark.parametrize(("priorities", "each"), [(1, 2_100), (8, 300)])
def test_no_priority_and_nothing_scheduled_hides_what_another_waits_with(
    session: Session, priorities: int, each: int
) -> None:
    """Jobs that are only scheduled stand in line before retries of a lower priority."""
    for priority in range(1, priorities + 1):
        new = NewJob(kind="a.b", payload={}, priority=priority, delay_s=86_400)
        transitions.enqueue(session, [new] * each, producer="app", actor="app", via="python")
    waits = fail(session, "down", verb="retry")

    line = queries.waiting_line(session)

    assert line.is_cut
    assert [waiting.ids for waiting in line.causes.values()] == [[waits.id]]


def test_one_cause_is_found_alone(session: Session) -> None:
    wanted = fail(session, "one")
    waits = fail(session, "one", verb="retry")
    fail(session, "two")
    fingerprint = wanted.error_fingerprint or ""
    now = queries.database_now(session)

    window, line = queries.failure_window(session), queries.waiting_line(session, fingerprint)
    group = queries.group_of(session, fingerprint, window, line, now, bound=10)
    unknown = queries.group_of(session, "f" * 16, window, line, now, bound=10)

    assert (group.failed, group.all_failed, group.newest_id) == (1, 1, wanted.id)
    assert list(line.causes) == [fingerprint]
    assert group.waiting.ids == [waits.id]
    assert (unknown.all_failed, unknown.newest_id, unknown.kinds) == (0, None, {})


@pytest.mark.parametrize("verb", ["fail", "retry"])
def test_a_cause_is_as_old_as_the_first_failure_of_a_job_that_has_it(
    session: Session, verb: str
) -> None:
    """Jobs that were tried again fail anew, with what they failed with before."""
    job = fail(session, "down", verb=verb)
    session.execute(sa.update(JobEvent).values(created_at=ago(200)))
    if verb == "fail":
        transitions.requeue(session, [job.id], actor="user:ana", reason="once more")
    failure = described("KeyError", "down")
    ends = [outcome(claim_one(session, job.id), verb, failure=failure)]
    transitions.settle(session, ends, actor=HOLDER.name)
    if verb == "retry":
        transitions.hold(session, [job.id], held_for="kind", actor="user:ana")
    now = queries.database_now(session)
    window, line = queries.failure_window(session), queries.waiting_line(session)

    [listed] = groups(session)
    alone = queries.group_of(session, failure.fingerprint, window, line, now, bound=10)

    for group in (listed, alone):
        assert group.first_seen_at is not None
        assert group.last_seen_at is not None
        assert now - group.first_seen_at >= timedelta(seconds=200)
        assert now - group.last_seen_at < timedelta(seconds=200)


def test_fields_that_differ_are_told_from_those_that_do_not(session: Session) -> None:
    long = "x" * 1000
    payloads: list[Any] = [
        {"to": "a@b", "lang": "de", "body": {"text": long}, "n": 1.50},
        {"to": "c@d", "lang": "de", "body": {"text": long + "y"}, "n": 1.50, "bcc": None},
    ]
    ids = [make_job(session, payload=payload).id for payload in payloads]

    fields = {field.name: field for field in queries.fields_of(session, ids)}

    assert [name for name, field in fields.items() if field.differs(ids)] == ["bcc", "body", "to"]
    assert {len(value.text) for value in fields["body"].values.values()} == {200}
    assert all(value.cut for value in fields["body"].values.values())
    assert list(fields["bcc"].values) == [ids[1]]
    assert fields["to"].values[ids[0]].text == '"a@b"'


RELEASES: dict[str, tuple[list[tuple[str, str | None, float]], tuple[str, float] | None]] = {
    "one release": ([("a", "v1", 3)], None),
    "workers that name none": ([("a", "v1", 3), ("b", None, 2), ("c", "", 1), ("d", " ", 0)], None),
    "before one that names none": (
        [("a", "v1", 9), ("b", "v2", 5), ("c", "v2", 4), ("d", "", 1)], ("v2", 5),
    ),
    "an older one that came back": ([("a", "v1", 9), ("b", "v2", 5), ("c", "v1", 1)], ("v2", 5)),
}  # fmt: skip


@pytest.mark.parametrize("case", RELEASES)
def test_a_deploy_is_a_named_release_that_was_new_for_all_that_tell_of_it(
    session: Session, case: str
) -> None:
    seen, expected = RELEASES[case]
    scene = Scene(session)
    for worker, release, minutes in seen:
        scene.worker(worker, since=60 * minutes + 1, release=release)
    now = queries.database_now(session)

    told = queries.last_deploy(session, now)
    signs = reading.read(session, job_timeout_s=3600).signs

    assert signs is not None
    assert signs.deployed_at == (told.at if told else None)
    found = told and (told.release, round((now - told.at).total_seconds()) // 60)
    assert found == expected


TRACE = """Traceback (most recent call last):
  File "/srv/app/.venv/lib/python3.11/site-packages/queueapp/worker/executor.py", line 7, in run
    call()
  File "/srv/app/queueapp/handlers/registry.py", line 59, in invoke
    return self.function(**arguments)
  File "/srv/app/shop/mail.py", line 12, in send
    render(template)
  File "/srv/app/shop/text.py", line 3, in render
  File "/usr/lib/python3.11/json/__init__.py", line 9, in loads
    return decode(s)
  File "<frozen importlib._bootstrap>", line 1, in _find
KeyError: 'name'
"""


def test_own_frames_come_innermost_first_without_libraries() -> None:
    frames = own_frames(TRACE)

    assert [(f.path, f.line, f.name, f.source) for f in frames] == [
        ("/srv/app/shop/text.py", 3, "render", ""),
        ("/srv/app/shop/mail.py", 12, "send", "render(template)"),
    ]
    assert own_frames("Error: no frames\n    at fn (app.js:3:1)") == []


@pytest.mark.postgresql("plans and what they read")
def test_no_look_at_failures_scans_a_table(session: Session, engine: sa.Engine) -> None:
    seed(session, 50_000)
    queries.bound_reads(session, seconds=10)

    with statements_of(engine) as sent:
        now = queries.database_now(session)
        window, line = queries.failure_window(session), queries.waiting_line(session)
        found, number = queries.groups_of(session, window, line, now)
        queries.group_of(session, "f3", window, line, now, bound=10_000)
        newest = queries.newest_alike(session, "f3")
        queries.fields_of(session, newest[:3])
        failed_so(session, {"f3": newest, "f4": newest}, now)
        queries.last_deploy(session, now)
        run(session, minute_stats._NEXT_DUE, due_to=None)

    assert (window.is_cut, line.is_cut, number) == (True, False, 1)
    # A bound of the list, and one more.
    assert [(group.failed, group.all_failed) for group in found] == [(1_000, 1_001)]
    assert sequential_scans(session, sent) == []
