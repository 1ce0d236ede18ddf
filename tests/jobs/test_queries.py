"""Shared reads: right on small tables, bounded and by index on large ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import JobNotFound
from queueapp.jobs import kinds, operations, queries, transitions
from queueapp.jobs.database import run
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.queries import (
    SCAN_LIMIT,
    ActFilter,
    Counted,
    EventFilter,
    JobFilter,
    PayloadField,
    Span,
    View,
    candidates,
    ledger,
    listing,
    priorities,
)
from queueapp.jobs.queries import depth as depths_of
from queueapp.jobs.queries.acts import TO_QUEUE
from queueapp.jobs.queries.ledger import Cursor
from queueapp.jobs.status import Event, Status
from queueapp.jobs.verdict.statements import LINE
from queueapp.jobs.why import why
from tests.factories import claim_one, make_job, outcome
from tests.jobs.explain import Prepared
from tests.jobs.filling import fill
from tests.jobs.plans import sequential_scans, statements_of
from tests.jobs.seeds import OPERATION, seed, seed_operation

SOON = timedelta(hours=1)


def ids(page: Any) -> list[int]:
    return [row.id for row in page.rows]


def later() -> datetime:
    return datetime.now(UTC) + SOON


@pytest.fixture
def one_of_each(session: Session) -> dict[str, int]:
    made = {status.value: make_job(session, status).id for status in Status}
    made["scheduled"] = make_job(session, available_at=later()).id
    made["retrying"] = make_job(session, available_at=later(), attempts=2).id
    session.commit()
    return made


@pytest.mark.parametrize("job_id", [0, -1, 1, 2**63, 10**30])
def test_get_job_of_an_unknown_id_raises_job_not_found(session: Session, job_id: int) -> None:
    with pytest.raises(JobNotFound):
        queries.get_job(session, job_id)


@pytest.mark.parametrize("status", Status)
def test_list_jobs_of_a_status_finds_exactly_those(
    session: Session, one_of_each: dict[str, int], status: Status
) -> None:
    found = set(ids(queries.list_jobs(session, JobFilter(status=(status,)))))

    expected = {one_of_each[status]}
    if status is Status.QUEUED:
        expected |= {one_of_each["scheduled"], one_of_each["retrying"]}
    assert found == expected


def test_list_jobs_of_two_statuses_finds_both(
    session: Session, one_of_each: dict[str, int]
) -> None:
    found = ids(queries.list_jobs(session, JobFilter(status=(Status.FAILED, Status.HELD))))

    assert set(found) == {one_of_each["failed"], one_of_each["held"]}


@pytest.mark.parametrize(
    ("view", "names"),
    [
        (View.DUE, {"queued"}),
        (View.SCHEDULED, {"scheduled", "retrying"}),
        (View.RETRYING, {"retrying"}),
    ],
)
def test_list_jobs_of_a_view_finds_that_part_of_the_queued(
    session: Session, one_of_each: dict[str, int], view: View, names: set[str]
) -> None:
    assert set(ids(queries.list_jobs(session, JobFilter(view=view)))) == {
        one_of_each[name] for name in names
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "mail.send"},
        {"producer": "shop"},
        {"priority": 7},
        {"fingerprint": "abc"},
        {"idempotency_key": "order-1"},
        {"idempotency_key": "order-1", "producer": "shop"},
        {"fingerprint": "abc", "status": (Status.FAILED,)},
    ],
)
def test_list_jobs_narrowed_by_a_field_finds_the_job_that_has_it(
    session: Session, fields: dict[str, Any]
) -> None:
    make_job(session, Status.FAILED)
    wanted = make_job(
        session,
        Status.FAILED,
        kind="mail.send",
        producer="shop",
        priority=7,
        key="order-1",
        request_hash="x",
        error_fingerprint="abc",
    )
    make_job(session, Status.FAILED, producer="zoo", key="order-2", request_hash="x")

    assert ids(queries.list_jobs(session, JobFilter(**fields))) == [wanted.id]


@pytest.mark.parametrize("where", [JobFilter(), JobFilter(kind="demo.echo")])
@pytest.mark.parametrize("status", [(), (Status.QUEUED,)])
def test_list_jobs_pages_show_every_job_once_in_both_directions(
    session: Session, where: JobFilter, status: tuple[Status, ...]
) -> None:
    where = JobFilter(status=status, kind=where.kind)
    made = [make_job(session).id for _ in range(16)]

    down, page = [], queries.list_jobs(session, where, limit=7)
    assert page.newer is None
    while True:
        down += ids(page)
        if page.older is None:
            break
        page = queries.list_jobs(session, where, before=page.older, limit=7)
    up = ids(page)
    while page.newer is not None:
        page = queries.list_jobs(session, where, after=page.newer, limit=7)
        up = ids(page) + up

    assert down == sorted(made, reverse=True)
    assert up == down


def test_list_jobs_loads_no_bodies(session: Session) -> None:
    make_job(session)
    session.expunge_all()

    [job] = queries.list_jobs(session, JobFilter()).rows

    with pytest.raises(sa.exc.InvalidRequestError):
        _ = job.payload


def test_a_filter_without_an_index_says_where_it_stopped_and_goes_on_there(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 5)
    wanted = make_job(session, kind="rare.kind").id
    others = [make_job(session).id for _ in range(8)]

    first = queries.list_jobs(session, JobFilter(kind="rare.kind"))
    second = queries.list_jobs(session, JobFilter(kind="rare.kind"), before=first.older)

    assert (ids(first), first.cut, first.older) == ([], True, others[-5])
    assert (ids(second), second.cut, second.older) == ([wanted], False, None)


def test_a_status_with_more_rows_than_the_bound_is_listed_by_the_newest(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "SCAN_LIMIT", 3)
    made = [make_job(session).id for _ in range(5)]

    page = queries.list_jobs(session, JobFilter(status=(Status.QUEUED,)))

    assert ids(page) == made[::-1]


def test_status_counts_count_each_status(session: Session, one_of_each: dict[str, int]) -> None:
    assert queries.status_counts(session) == {
        Status.QUEUED: 3,
        Status.RUNNING: 1,
        Status.SUCCEEDED: 1,
        Status.FAILED: 1,
        Status.CANCELLED: 1,
        Status.HELD: 1,
    }


def test_jobs_held_by_themselves_are_all_counted_and_listed_however_many_are_newer(
    session: Session,
) -> None:
    held = [make_job(session, Status.HELD).id for _ in range(3)]
    new = [{"kind": "demo.echo", "payload": {}, "status": "queued", "producer": "app"}]
    session.execute(sa.insert(Job), new * (SCAN_LIMIT + 1))
    newest = make_job(session, Status.HELD, held_for="kind").id
    where = JobFilter(status=(Status.HELD,))

    page = queries.list_jobs(session, where)

    assert queries.status_counts(session)[Status.HELD] == 4
    assert queries.count_jobs(session, where) == Counted(4, capped=False)
    assert (ids(page), page.cut) == ([newest, *held[::-1]], False)


def test_what_the_depths_have_counted_is_not_counted_again(
    session: Session, one_of_each: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, priority=7, available_at=later())
    depths = queries.depth_by_priority(session)

    assert queries.status_counts(session, depths=depths) == queries.status_counts(session)
    assert queries.status_counts(session, depths=[])[Status.QUEUED] == 0
    # Where there may be more, it is.
    short = [replace(one, due=1, scheduled=1, most=0) for one in depths]
    assert queries.status_counts(session, depths=short)[Status.QUEUED] == 4
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", len(depths) - 1)
    assert queries.status_counts(session, depths=depths)[Status.QUEUED] == 4
    assert queries.status_counts(session, depths=depths[:1])[Status.QUEUED] == 1


def test_depth_by_priority_splits_due_from_scheduled_and_names_the_oldest(
    session: Session,
) -> None:
    since = datetime.now(UTC) - SOON
    oldest = make_job(session, priority=5, available_at=since, created_at=since)
    make_job(session, priority=5)
    make_job(session, priority=0, available_at=later())
    make_job(session, priority=0, available_at=later(), attempts=1)

    high, low = queries.depth_by_priority(session)

    assert (high.priority, high.due, high.scheduled) == (5, 2, 0)
    assert (high.oldest_id, high.oldest_at) == (oldest.id, oldest.available_at)
    assert (low.priority, low.due, low.scheduled, low.retrying) == (0, 0, 2, 1)
    assert low.oldest_id is None
    assert queries.WaitingCounts.of([high, low]) == queries.WaitingCounts(
        Counted(2, capped=False), Counted(2, capped=False), Counted(1, capped=False)
    )


@pytest.mark.parametrize(
    ("due", "scheduled", "more"),
    [
        (10_000, 1_000, (False, False, False)),
        (10_001, 1_001, (True, False, True)),
        (0, 10_001, (False, True, True)),
    ],
)
def test_waiting_counts_say_when_not_all_were_looked_at(
    due: int, scheduled: int, more: tuple[bool, ...]
) -> None:
    depth = queries.PriorityDepth(0, 10_000, due, scheduled, 7, None, None, None)
    waiting = queries.WaitingCounts.of([depth])

    assert (waiting.due.capped, waiting.scheduled.capped, waiting.retrying.capped) == more


def test_each_of_many_priorities_is_counted(session: Session) -> None:
    for priority in range(150):
        make_job(session, priority=priority - 100)
    last = make_job(session, priority=-300)
    depths = queries.depth_by_priority(session)

    assert [one.priority for one in depths] == [*range(49, -101, -1), -300]
    assert queries.WaitingCounts.of(depths).due == Counted(151, capped=False)
    assert (depths[-1].oldest_id, depths[-1].oldest_at) == (last.id, last.created_at)
    assert queries.status_counts(session, depths=depths)[Status.QUEUED] == 151


def test_more_priorities_than_are_looked_at_are_at_least_so_many(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", 3)
    for priority in range(6):
        make_job(session, priority=priority)
    make_job(session, priority=5, available_at=later())
    depths = queries.depth_by_priority(session)
    waiting = queries.WaitingCounts.of(depths)

    assert queries.priorities_are_cut(depths)
    assert (waiting.due, waiting.scheduled) == (Counted(4, capped=True), Counted(1, capped=True))
    assert waiting.retrying.capped
    assert queries.status_counts(session, depths=depths)[Status.QUEUED] == 7


@pytest.mark.postgresql("a bound within the statement")
def test_many_priorities_share_what_one_count_may_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [priorities.share_of(n) for n in (0, 1, 100, 1_000)] == [10_000, 10_000, 3_000, 300]
    of_share = depths_of._DEPTH.replace("300000 /", "4 /")
    monkeypatch.setattr(depths_of, "_DEPTH", of_share)
    for priority in (1, 1, 1, 2, 2):
        make_job(session, priority=priority)

    high, low = queries.depth_by_priority(session)

    assert ((high.most, high.due), (low.most, low.due)) == ((2, 2), (2, 3))
    assert queries.WaitingCounts.of([high, low]).due == Counted(5, capped=True)
    assert queries.status_counts(session, depths=[high, low])[Status.QUEUED] == 5


def test_failures_and_runners_come_in_their_order(session: Session) -> None:
    now = queries.database_now(session)
    first = make_job(session, Status.RUNNING, claimed_at=now - SOON)
    second = make_job(session, Status.RUNNING)
    make_job(session, Status.FAILED, finished_at=now - SOON)
    make_job(session, Status.FAILED)

    assert [row.id for row in queries.longest_running(session)] == [first.id, second.id]
    assert queries.failed_since(session, timedelta(minutes=30)) == 1


def test_the_pulse_changes_with_a_move_and_not_with_time(session: Session) -> None:
    before = steady_mark(session)

    make_job(session)

    assert queries.pulse(session).mark != before


def test_the_pulse_changes_when_a_job_comes_due(session: Session) -> None:
    job = make_job(session, available_at=later())
    session.commit()
    before = steady_mark(session)

    # Its time has come: nothing is written to the ledger.
    session.execute(sa.text("UPDATE jobs SET available_at = now()"))
    session.commit()

    assert queries.pulse(session).mark != before
    assert ids(queries.list_jobs(session, JobFilter(view=View.DUE))) == [job.id]


def steady_mark(session: Session) -> str:
    """The mark while nothing happens. Transactions that were open in other databases may end."""
    for _ in range(20):
        mark = queries.pulse(session).mark
        if queries.pulse(session).mark == mark:
            return mark
    raise AssertionError("the mark never stays the same")


@pytest.mark.postgresql("two writers at once")
def test_the_pulse_changes_when_an_earlier_transaction_commits_later(
    session: Session, engine: sa.Engine
) -> None:
    with Session(engine) as slow, Session(engine) as reader:
        make_job(slow)
        make_job(session)
        session.commit()
        before = queries.pulse(reader).mark
        reader.commit()

        slow.commit()

        assert queries.pulse(reader).mark != before


def test_events_of_a_job_come_oldest_first_from_a_place_on(session: Session) -> None:
    job = make_job(session, Status.FAILED)

    events = queries.events_of(session, job.id)

    assert [event.event for event in events] == ["enqueued", "claimed", "failed"]
    rest = queries.events_of(session, job.id, after=events[0].id, limit=1)
    assert [event.id for event in rest] == [events[1].id]


def test_the_latest_events_leave_the_traceback_to_its_own_read(session: Session) -> None:
    job = make_job(session)
    claim = claim_one(session, job.id)
    data = {"traceback": "Traceback: here", "run_ms": 5}
    transitions.settle(session, [outcome(claim, "fail", data=data)], actor="worker:1")

    last = queries.latest_events_of(session, job.id)[-1]
    failure = queries.last_failure(session, job.id)

    assert last.data["run_ms"] == 5
    assert "traceback" not in last.data
    assert failure is not None
    assert failure.traceback == "Traceback: here"


def test_the_log_is_newest_first_and_pages_to_its_end(session: Session) -> None:
    for _ in range(3):
        make_job(session, Status.SUCCEEDED)
        session.commit()

    seen, page = [], queries.list_events(session, EventFilter(), limit=4)
    while True:
        seen += ids(page)
        if page.older is None:
            break
        page = queries.list_events(session, EventFilter(), before=page.older, limit=4)

    assert len(seen) == len(set(seen)) == 9
    assert seen == sorted(seen, reverse=True)


def test_the_log_is_narrowed_by_each_field(session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED, kind="mail.send")
    make_job(session)

    def events(**fields: Any) -> list[str]:
        return [row.event for row in queries.list_events(session, EventFilter(**fields)).rows]

    assert events(job_id=job.id) == ["succeeded", "claimed", "enqueued"]
    assert events(kind="mail.send", event=Event.CLAIMED) == ["claimed"]
    assert events(actor="app") == ["enqueued", "enqueued"]


@pytest.mark.postgresql("numbers of transactions")
@pytest.mark.parametrize("spread", [timedelta(hours=1), timedelta(days=1)])
def test_the_log_of_a_span_is_looked_for_where_it_is(
    session: Session, monkeypatch: pytest.MonkeyPatch, spread: timedelta
) -> None:
    """Not from its top, however much has happened since."""
    monkeypatch.setattr(ledger, "SCAN_LIMIT", 2)
    first, made = datetime(2026, 3, 1, 1, 30, tzinfo=UTC), []
    for number in range(12):
        line = JobEvent(scope="queue", event="queue_paused", actor="user:ana", reason="r")
        line.created_at = first + number * spread
        session.add(line)
        session.commit()
        made.append(line.id)

    def found(start: int | None, end: int | None) -> list[int]:
        ends = (None if n is None else first + (n - 0.5) * spread for n in (start, end))
        where = EventFilter(created=Span(*ends))
        page = queries.list_events(session, where)
        seen = ids(page)
        while page.older is not None:
            page = queries.list_events(session, where, before=page.older)
            seen += ids(page)
        return seen

    page = queries.list_events(session, EventFilter(created=Span(None, first + 5.5 * spread)))
    assert (ids(page), page.cut) == (made[5:3:-1], True)
    assert found(3, 6) == made[5:2:-1]
    assert found(None, 4) == made[3::-1]
    assert found(10, None) == made[:9:-1]
    assert found(20, 30) == found(-9, -3) == []


def test_a_narrowed_log_says_where_it_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SCAN_LIMIT", 2)
    make_job(session, kind="rare.kind")
    make_job(session)
    make_job(session)

    page = queries.list_events(session, EventFilter(kind="rare.kind"))
    rest = queries.list_events(session, EventFilter(kind="rare.kind"), before=page.older)

    assert (ids(page), page.cut) == ([], True)
    assert (len(rest.rows), rest.cut) == (1, False)


@pytest.mark.parametrize(
    "text", ["", "1", "1.", ".1", "1.2.3", "a.b", "-1.2", "٣.٤", "1" * 19 + ".1"]
)
def test_a_place_that_is_none_is_refused_alike_in_every_list(text: str) -> None:
    for place in (Cursor, operations.Cursor, operations.Mark):
        with pytest.raises(ValueError, match="two numbers"):
            place.parse(text)
    with pytest.raises(ValueError, match="before the year"):
        operations.Cursor.parse("9" * 18 + ".1")


@pytest.mark.postgresql("statement_timeout")
def test_a_read_that_takes_too_long_is_stopped(session: Session) -> None:
    queries.bound_reads(session, seconds=0.05)

    with pytest.raises(sa.exc.OperationalError, match="statement timeout"):
        session.execute(sa.text("SELECT pg_sleep(5)"))


def every_read(session: Session) -> None:
    """Every read a page makes, on every branch that a filter opens."""
    queries.pulse(session)
    queries.status_counts(session)
    queries.depth_by_priority(session)
    queries.failed_since(session, SOON)
    queries.longest_running(session)
    queries.last_actions(session)
    queries.marks_of_hour(session)
    for where in _filters():
        queries.split_jobs(session, where)
        queries.list_jobs(session, where)
        queries.list_jobs(session, where, before=25_000)
        queries.list_jobs(session, where, after=25_000)
    for narrowed in _event_filters():
        page = queries.list_events(session, narrowed)
        queries.list_events(session, narrowed, before=page.older)
    hour = ActFilter(actor="user:ana", since=later() - 2 * SOON, until=later())
    for acts in (ActFilter(), hour, ActFilter(dids=TO_QUEUE)):
        trail = queries.list_acts(session, acts, seconds=-1)
        queries.list_acts(session, acts, before=trail.older, seconds=-1)
    queries.samples_of(session, {"f1": 7, "f2": 8}, later())
    queries.pulse_of_job(session, 7)
    for each in range(1, 7):
        why(session, each, job_timeout_s=3600)
    queries.get_head(session, 7)
    queries.heads_of(session, [7, 8, 9])
    queries.bodies_of(session, 7)
    for look in (kinds.waiting, kinds.running, kinds.failed, kinds.held):
        look(session)
    run(session, kinds._HELD, kinds=["seed.kind1"], bound=10)
    kinds.last_hour(session, later())
    queries.events_of(session, 7)
    queries.latest_events_of(session, 7)
    queries.last_failure(session, 7)


def _filters() -> list[JobFilter]:
    return [
        JobFilter(),
        *(JobFilter(status=(status,)) for status in Status),
        *(JobFilter(status=(status,), kind="seed.kind1") for status in Status),
        *(JobFilter(view=view) for view in View),
        JobFilter(status=(Status.FAILED, Status.CANCELLED)),
        JobFilter(kind="no.such"),
        JobFilter(producer="nobody"),
        JobFilter(priority=9),
        JobFilter(fingerprint="f1"),
        JobFilter(fingerprint="f1", status=(Status.FAILED,)),
        JobFilter(worker="seed:1:aa"),
        JobFilter(attempts_min=3, status=(Status.FAILED,)),
        JobFilter(attempts=9),
        JobFilter(payload=(PayloadField("order.id", "42"),)),
        JobFilter(payload=(PayloadField("id", "42"),), status=(Status.SUCCEEDED,), kind="no.such"),
        JobFilter(operation=OPERATION),
        JobFilter(operation=OPERATION, status=(Status.RUNNING,)),
        JobFilter(idempotency_key="key-10"),
        JobFilter(idempotency_key="key-10", producer="producer1"),
        *_ranges(),
    ]


def _ranges() -> list[JobFilter]:
    hour = Span(later() - 2 * SOON, later())
    return [
        JobFilter(created=hour),
        JobFilter(available=hour),
        JobFilter(finished=hour),
        JobFilter(finished=hour, status=(Status.FAILED, Status.RUNNING)),
        JobFilter(finished=hour, status=(Status.FAILED,), fingerprint="f1"),
        JobFilter(available=hour, status=(Status.QUEUED,), priority_min=1),
        JobFilter(available=hour, view=View.SCHEDULED, priority_max=1),
        JobFilter(status=(Status.QUEUED,), priority_min=1, priority_max=1),
    ]


def _event_filters() -> list[EventFilter]:
    return [
        EventFilter(),
        EventFilter(job_id=7),
        EventFilter(job_id=7, event=Event.CLAIMED),
        EventFilter(kind="no.such"),
        EventFilter(actor="nobody"),
        EventFilter(event=Event.FAILED),
        EventFilter(created=Span(later() - 2 * SOON, later())),
    ]


@pytest.mark.postgresql("plans")
@pytest.mark.parametrize(
    "prepared", ["auto", pytest.param("force_generic_plan", marks=pytest.mark.slow)]
)
def test_no_read_scans_a_table_from_end_to_end(
    session: Session, engine: sa.Engine, prepared: str
) -> None:
    seed(session, 50_000)
    seed_operation(session, 25_000)
    session.execute(sa.text(f"SET plan_cache_mode = {prepared}"))
    queries.bound_reads(session, seconds=10)

    with statements_of(engine) as sent:
        every_read(session)

    assert len(sent) > 60
    assert sequential_scans(session, sent) == []


@pytest.mark.parametrize(
    ("where", "most"),
    [(JobFilter(), 2), (JobFilter(status=(Status.RUNNING,)), 2), (JobFilter(kind="demo.echo"), 3)],
)
def test_a_list_takes_the_same_few_statements_whatever_its_length(
    session: Session, engine: sa.Engine, where: JobFilter, most: int
) -> None:
    for _ in range(30):
        make_job(session)
    session.expunge_all()

    with statements_of(engine) as sent:
        queries.list_jobs(session, where)

    assert len(sent) <= most


@pytest.mark.postgresql("what plans read")
@pytest.mark.parametrize(
    ("statement", "most"), [(depths_of._DEPTH, 20), (LINE, 15)], ids=["depth", "verdict"]
)
def test_a_thousand_priorities_cost_a_few_pages_each_and_more_of_them_nothing(
    session: Session, statement: str, most: int
) -> None:
    queries.bound_reads(session, seconds=10)
    given = {
        "priorities": priorities.MOST_PRIORITIES + 1, "kinds": ["demo.echo"], "held": [],
        "job_timeout": 0, "lately": later() - 24 * SOON, "tomorrow": later() + 24 * SOON,
    }  # fmt: skip
    with Prepared(session.connection(), "by_priority", statement) as prepared:
        fill(session.connection(), priorities.MOST_PRIORITIES, priority="n")
        all_of_them = prepared.run(**given).reading
        fill(session.connection(), 2 * priorities.MOST_PRIORITIES, priority="-n")
        some_of_them = prepared.run(**given).reading

    assert all_of_them < most * priorities.MOST_PRIORITIES
    assert some_of_them < 1.2 * all_of_them
