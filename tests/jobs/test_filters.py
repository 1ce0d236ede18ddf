"""What a filter makes a list read: a part of an index where one knows, else a bounded window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import operations, queries, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.operations import Operation, driver, walk
from queueapp.jobs.queries import (
    JobFilter,
    PayloadField,
    Span,
    View,
    candidates,
    listing,
    payload_field,
)
from queueapp.jobs.queries.candidates import find_candidates
from queueapp.jobs.status import Status
from tests.factories import make_job
from tests.jobs.explain import Prepared
from tests.jobs.plans import statements_of
from tests.jobs.seeds import seed


def around(seconds: float) -> Span:
    now = datetime.now(UTC)
    return Span(now - timedelta(seconds=seconds), now + timedelta(seconds=seconds))


def last(seconds: float) -> Span:
    return Span(datetime.now(UTC) - timedelta(seconds=seconds), None)


FAILED, QUEUED, HELD = (Status.FAILED,), (Status.QUEUED,), (Status.HELD,)


@pytest.mark.postgresql("plans and what they read")
def test_an_index_answers_for_what_it_knows(session: Session) -> None:
    """Each names a few rows of 40,000; reading an index to its end would take hundreds of pages."""
    seed(session, 40_000)
    queries.bound_reads(session, seconds=10)
    narrow: list[tuple[JobFilter, str]] = [
        # Of those that failed both indexes know the instants, and few rows are there: a sample
        # of the planner's decides for one or the other.
        (JobFilter(finished=last(20)), "ix_jobs_f"),
        (JobFilter(finished=last(20), status=FAILED), "ix_jobs_f"),
        (JobFilter(finished=last(20), status=FAILED, fingerprint="f1"), "ix_jobs_f"),
        (JobFilter(available=around(5), status=QUEUED), "ix_jobs_claim"),
        (JobFilter(available=around(5), view=View.DUE), "ix_jobs_claim"),
        (JobFilter(status=QUEUED, priority=77), "ix_jobs_claim"),
        (JobFilter(status=QUEUED, priority_min=77), "ix_jobs_claim"),
        (JobFilter(idempotency_key="key-70"), "uq_jobs_idempotency"),
        (JobFilter(worker="nobody:1:aa"), "ix_jobs_running"),
    ]

    for where, index in narrow:
        plan = _run(session, where)
        assert {name for name in plan.indexes if not name.startswith(index)} <= {"ix_jobs_claim"}
        # What runs, a thousand rows here, is read for a worker: all that the slots can hold.
        most = 1_100 if where.worker else 400
        assert plan.reading < most, (where, plan.reading)
        assert not plan.scans("Seq Scan")


def _run(session: Session, where: JobFilter) -> Any:
    statement = candidates._statement(where)
    assert statement is not None
    with Prepared(session.connection(), "filtered", statement.replace("::timestamptz", "")) as it:
        return it.run(**candidates._parameters(where))


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(created=last(3600)),
        JobFilter(available=last(3600)),
        JobFilter(priority_min=0, priority_max=0),
        JobFilter(status=(Status.QUEUED, Status.RUNNING), priority_min=0),
        JobFilter(attempts=0),
        JobFilter(attempts_min=0, priority=0),
        JobFilter(payload=(PayloadField("order.id", "42"),), priority=0),
    ],
    ids=["created", "available", "priority", "two statuses", "attempts", "or more", "payload"],
)
def test_what_no_index_knows_is_looked_for_in_a_window_at_a_time(
    session: Session, monkeypatch: pytest.MonkeyPatch, where: JobFilter
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 4)
    payload = {"order": {"id": 42}}
    wanted = make_job(session, payload=payload).id
    for _ in range(6):
        make_job(
            session,
            priority=-9,
            attempts=1,
            created_at=LONG_AGO,
            available_at=LONG_AGO,
            payload=payload,
        )
    session.expunge_all()

    first = queries.list_jobs(session, where)
    second = queries.list_jobs(session, where, before=first.older)

    assert (first.rows, first.cut, first.older) == ([], True, 4)
    assert ([job.id for job in second.rows], second.cut) == ([wanted], False)


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("id", "42", "t n"),
        ("id", '"42"', "t"),
        ("id", "42.0", "n"),
        ("id", "4", ""),
        ("id", "1e999", ""),
        ("flag", "true", "b"),
        ("flag", "True", ""),
        ("flag", "null", "0"),
        ("a.b.c", 'ü \\ "x"', "deep"),
        ("a.b", "c", ""),
        ("id", '"\\u0000"', ""),
        ("9", "1", ""),
    ],
)
def test_a_field_of_the_payload_is_found_by_its_value_however_it_is_written(
    session: Session, path: str, value: str, found: str
) -> None:
    payloads = {
        "t": {"id": "42"}, "n": {"id": 42}, "b": {"flag": True}, "0": {"flag": None},
        "deep": {"a": {"b": {"c": 'ü \\ "x"', "d": 1}}}, "list": {"a": [{"b": {"c": 1}}]},
        "not": [1, "id"],
    }  # fmt: skip
    made = {name: make_job(session, payload=payload).id for name, payload in payloads.items()}
    session.commit()
    where = JobFilter(payload=(payload_field(path, value),))

    wanted = [job for name, job in made.items() if name in found.split()]

    assert ids(session, where) == wanted[::-1]
    assert queries.count_jobs(session, where) == queries.Counted(len(wanted), capped=False)


def test_what_a_worker_holds_is_what_it_runs_now(session: Session) -> None:
    held = [make_job(session, Status.RUNNING).id for _ in range(2)]
    name = session.get_one(Job, held[0]).locked_by
    make_job(session, Status.RUNNING, locked_by="other:1:aa")
    make_job(session)
    session.commit()

    assert ids(session, JobFilter(worker=name)) == held[::-1]
    assert ids(session, JobFilter(worker=name, status=QUEUED)) == []
    assert ids(session, JobFilter(worker="nobody")) == []
    assert operate(session, "cancel", JobFilter(worker=name)).moved == 2


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def test_a_range_that_holds_too_many_is_looked_for_in_windows(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "SCAN_LIMIT", 2)
    made = [make_job(session, Status.FAILED).id for _ in range(3)]
    where = JobFilter(finished=last(3600), status=FAILED)

    found = find_candidates(session, where)

    assert found is not None
    assert found.many
    assert [job.id for job in queries.list_jobs(session, where).rows] == made[::-1]


@pytest.mark.postgresql("instants without end")
def test_a_range_without_an_end_has_whatever_comes_last(session: Session) -> None:
    job = make_job(session, Status.FAILED).id
    session.execute(sa.text("UPDATE jobs SET finished_at = 'infinity'"))

    found = find_candidates(session, JobFilter(finished=last(3600)))

    assert found is not None
    assert found.ids == [job]


@pytest.mark.postgresql("arrays")
def test_what_an_index_names_does_not_come_row_by_row(session: Session, engine: sa.Engine) -> None:
    """20,000 rows take the driver longer than all the rest of a page."""
    seed(session, 400)
    came: list[int] = []

    def note(_connection: Any, cursor: Any, *_: Any) -> None:
        came.append(cursor.rowcount)

    sa.event.listen(engine, "after_cursor_execute", note)
    try:
        page = queries.list_jobs(session, JobFilter(status=(Status.SUCCEEDED,)), limit=10)
        found = queries.count_jobs(session, JobFilter(status=(Status.SUCCEEDED,)))
    finally:
        sa.event.remove(engine, "after_cursor_execute", note)

    assert (len(page.rows), found.count) == (10, 350)
    assert max(came) == 11


@pytest.mark.parametrize("gone", [0, 2, 3], ids=["top", "middle", "last"])
@pytest.mark.parametrize("upwards", [False, True], ids=["down", "up"])
def test_a_job_that_leaves_between_two_looks_does_not_end_the_list(
    session: Session, monkeypatch: pytest.MonkeyPatch, upwards: bool, gone: int
) -> None:
    """Between the one at the index and the one at the rows."""
    made = [make_job(session).id for _ in range(10)]
    wanted = made if upwards else made[::-1]
    left = wanted[gone]

    def find(*args: Any) -> Any:
        found = find_candidates(*args)
        transitions.cancel(session, [left], actor="user:ana")
        return found

    monkeypatch.setattr(listing, "find_candidates", find)
    monkeypatch.setattr(listing, "PART", 2)

    seen = _whole(session, JobFilter(status=QUEUED), upwards, limit=3)

    assert seen == [i for i in wanted if i != left]


@pytest.mark.parametrize("upwards", [False, True], ids=["down", "up"])
def test_what_an_index_names_is_looked_up_part_by_part_until_the_page_is_full(
    session: Session, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, upwards: bool
) -> None:
    monkeypatch.setattr(listing, "PART", 2)
    made = [make_job(session, kind=("a.b", "demo.echo")[n % 2]).id for n in range(12)]
    wanted = made[::2] if upwards else made[-2::-2]
    where = JobFilter(status=QUEUED, kind="a.b")

    assert _whole(session, where, upwards, limit=2) == wanted
    session.commit()
    with statements_of(engine) as sent:
        queries.list_jobs(session, where, limit=1)
    # The index, and two of six parts.
    assert len(sent) == 3


@pytest.mark.parametrize("upwards", [False, True], ids=["down", "up"])
def test_what_is_held_one_by_one_is_found_however_old_it_is(
    session: Session, monkeypatch: pytest.MonkeyPatch, upwards: bool
) -> None:
    for module in (candidates, listing):
        monkeypatch.setattr(module, "SCAN_LIMIT", 2)
    held = []
    for held_for in ("job", "kind", "job"):
        held.append(make_job(session).id)
        transitions.hold(session, [held[-1]], actor="user:ana", held_for=held_for)
        make_job(session), make_job(session)

    seen = _whole(session, JobFilter(status=HELD), upwards, limit=2)

    assert seen == (held if upwards else held[::-1])


def _whole(session: Session, where: JobFilter, upwards: bool, *, limit: int) -> list[int]:
    """All pages of a list, read from one end to the other."""
    seen: list[int] = []
    place: int | None = 0 if upwards else 2**62
    while place is not None:
        before, after = (None, place) if upwards else (place, None)
        page = queries.list_jobs(session, where, before=before, after=after, limit=limit)
        ids = [job.id for job in page.rows]
        seen += ids[::-1] if upwards else ids
        place = page.newer if upwards else page.older
    return seen


def operate(session: Session, verb: str, where: JobFilter) -> Operation:
    """Plan ``verb`` for these jobs and go through with it."""
    found = operations.survey(session, verb, where)
    made = operations.plan(session, found, how={}, actor="user:ana", reason="because")
    session.commit()
    while not made.is_over:
        made = operations.step(session, made.id, actor="user:ana", via="api")
        session.commit()
    return made


def ids(session: Session, where: JobFilter) -> list[int]:
    return [job.id for job in queries.list_jobs(session, where).rows]


def test_what_an_operation_has_moved_is_a_list_and_the_opposite_is_one_step(
    session: Session,
) -> None:
    other = make_job(session, kind="other").id
    mine = [make_job(session, kind="mine").id for _ in range(5)]
    session.commit()
    made = operate(session, "cancel", JobFilter(kind="mine"))
    transitions.requeue(session, mine[:1], actor="user:bob")
    transitions.cancel(session, [other], actor="user:bob")
    session.commit()
    where = JobFilter(operation=made.id)

    assert ids(session, where) == mine[::-1]
    assert queries.count_jobs(session, where) == queries.Counted(5, capped=False)
    assert ids(session, JobFilter(operation=made.id, status=(Status.CANCELLED,))) == mine[:0:-1]
    assert ids(session, JobFilter(operation="0" * 16)) == []

    back = operate(session, "retry", where)

    assert (back.moved, back.counts.total, back.others.by_status) == (4, 4, {"queued": 1})
    assert ids(session, JobFilter(operation=back.id)) == mine[:0:-1]


@pytest.mark.parametrize("upwards", [False, True], ids=["down", "up"])
def test_an_operation_on_more_jobs_than_are_named_is_looked_for_where_they_are(
    session: Session, monkeypatch: pytest.MonkeyPatch, upwards: bool
) -> None:
    """Not from the top of the table, however many came later."""
    for module in (candidates, listing, walk):
        monkeypatch.setattr(module, "SCAN_LIMIT", 4)
    monkeypatch.setattr(driver, "BATCH", 2)
    [make_job(session, kind="other") for _ in range(9)]
    mine = []
    for _ in range(6):
        mine.append(make_job(session, kind="mine").id)
        make_job(session, kind="other")
    [make_job(session, kind="other") for _ in range(9)]
    session.commit()
    where = JobFilter(operation=operate(session, "cancel", JobFilter(kind="mine")).id)

    first = queries.list_jobs(session, where, limit=2)

    assert ([job.id for job in first.rows], first.newer) == (mine[:-3:-1], None)
    assert _whole(session, where, upwards, limit=2) == (mine if upwards else mine[::-1])
    assert queries.count_jobs(session, where).capped
    last = queries.list_jobs(session, where, before=mine[1])
    assert ([job.id for job in last.rows], last.older, last.cut) == (mine[:1], None, False)
    found = operations.survey(session, "retry", where)
    assert (found.start, found.upto, found.counts.total) == (mine[0] - 1, mine[-1], 6)
    back = operate(session, "retry", where)
    assert (back.moved, back.skipped, back.others.total) == (6, 0, 0)
