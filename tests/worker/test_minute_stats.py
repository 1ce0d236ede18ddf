"""The minute's line of the ledger: what it counts, and how soon the next one follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import minute_stats
from queueapp.jobs.metrics import measure
from queueapp.jobs.past import Past
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_housekeeping import events_named


def a_minute_passes(session: Session) -> None:
    """All lines so far become older."""
    age = "UPDATE job_events SET created_at = created_at - interval '2 minutes' WHERE event = :e"
    session.execute(text(age), {"e": "minute_stats"})
    session.commit()


def test_minute_stats_count_each_event_once(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    worker = bench.worker()
    worker.upkeep.write_stats()
    for _ in range(3):
        enqueue()
    bench.run_one(worker)

    for _ in range(2):
        a_minute_passes(session)
        worker.upkeep.write_stats()

    first, second, third = events_named(session, "minute_stats")
    assert first.data["kinds"] == third.data["kinds"] == {}
    echo = second.data["kinds"]["demo.echo"]
    assert echo["events"] == {"enqueued": 3, "claimed": 3, "succeeded": 3}
    assert sum(echo["wait"].values()) == sum(echo["run"].values()) == 3
    whole = {"events": echo["events"], "wait": echo["wait"], "retries": 0, "later": 0, "due": 0}
    assert second.data["all"] == whole


def test_what_was_counted_is_carried_on_when_its_lines_are_gone(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    worker = bench.worker()
    worker.upkeep.write_stats()
    for _ in range(2):
        enqueue()
        bench.run_one(worker)
        a_minute_passes(session)
        worker.upkeep.write_stats()
        newest = "SELECT max(id) FROM job_events WHERE event = 'minute_stats'"
        session.execute(text(f"DELETE FROM job_events WHERE id < ({newest})"))
        session.commit()

    [line] = events_named(session, "minute_stats")
    totals = line.data["totals"]
    assert totals["events"] == {"enqueued": 2, "claimed": 2, "succeeded": 2}
    assert sum(totals["wait"].values()) == sum(totals["run"].values()) == 2
    assert totals["kinds"]["demo.echo"]["events"] == {"enqueued": 2, "succeeded": 2}


def test_only_one_worker_writes_the_minutes_line(bench: Bench, session: Session) -> None:
    for _ in range(3):
        bench.worker().upkeep.write_stats()

    assert len(events_named(session, "minute_stats")) == 1


def test_more_than_one_line_takes_goes_into_the_next_ones_at_once(
    bench: Bench, enqueue: Enqueue, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line is itself an event of the second."""
    monkeypatch.setattr(minute_stats, "EVENTS_A_LINE", 4)
    workers = [bench.worker(), bench.worker()]
    workers[0].upkeep.write_stats()
    for _ in range(8):
        enqueue()
    a_minute_passes(session)

    waits = [workers[n % 2].upkeep.write_stats() for n in range(4)]

    _first, *lines = events_named(session, "minute_stats")
    counted = [line.data["kinds"]["demo.echo"]["events"]["enqueued"] for line in lines]
    assert counted == [3, 4, 1]
    assert waits[:3] == [1, 1, 60]
    assert 55 < waits[3] < 60


@pytest.mark.postgresql("numbers of transactions")
def test_a_line_of_another_server_keeps_nothing_from_being_counted(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    worker = bench.worker()
    worker.upkeep.write_stats()
    ahead = "UPDATE job_events SET data = jsonb_set(data, '{xid}', '\"900000000000\"')"
    session.execute(text(f"{ahead} WHERE event = 'minute_stats'"))
    a_minute_passes(session)
    worker.upkeep.write_stats()
    a_minute_passes(session)
    enqueue()

    worker.upkeep.write_stats()

    assert _kinds_of_last(session)["demo.echo"]["events"] == {"enqueued": 1}


@pytest.mark.postgresql("numbers of transactions")
def test_what_another_server_has_numbered_ahead_of_this_one_is_counted_by_no_line(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    """As pg_dump brings it, before anybody has set those numbers right; least of all by each."""
    worker = bench.worker()
    worker.upkeep.write_stats()
    enqueue()
    session.execute(text("UPDATE job_events SET xid = '1099511627776' WHERE job_id IS NOT NULL"))
    session.commit()
    for _ in range(2):
        enqueue()
        a_minute_passes(session)
        worker.upkeep.write_stats()

    lines = [line.data["kinds"] for line in events_named(session, "minute_stats")[1:]]
    assert [one["demo.echo"]["events"] for one in lines] == [{"enqueued": 1}] * 2


@pytest.mark.postgresql("numbers of transactions")
@pytest.mark.parametrize("written", ["as it should be", "in full", "by an older release"])
def test_no_event_is_counted_again_when_numbers_of_transactions_get_longer(
    bench: Bench,
    enqueue: Enqueue,
    session: Session,
    written: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """'99' is the larger text, 101 the larger number."""
    if written == "in full":
        # The first line is itself an event of the second.
        monkeypatch.setattr(minute_stats, "EVENTS_A_LINE", 5)
    worker = bench.worker()
    worker.upkeep.write_stats()
    for _ in range(4):
        enqueue()
    begun = 'UPDATE job_events SET xid = \'98\', data = data || \'{"xid": "97", "id": 0}\''
    session.execute(text(f"{begun} WHERE event = 'minute_stats'"))
    longer = (
        "UPDATE job_events SET xid = (97 + job_id - (SELECT min(id) FROM jobs) + 1)::text::xid8"
    )
    session.execute(text(f"{longer} WHERE event = 'enqueued'"))
    a_minute_passes(session)
    worker.upkeep.write_stats()

    assert _kinds_of_last(session)["demo.echo"]["events"] == {"enqueued": 4}
    if written == "by an older release":
        wrong = (
            "UPDATE job_events SET data = data - 'open' || jsonb_build_object('xid', '99', 'id',"
            " (SELECT max(id) FROM job_events WHERE event = 'enqueued'))"
            " WHERE id = (SELECT max(id) FROM job_events)"
        )
        session.execute(text(wrong))
    a_minute_passes(session)
    enqueue()
    worker.upkeep.write_stats()

    assert _kinds_of_last(session)["demo.echo"]["events"] == {"enqueued": 1}
    totals = events_named(session, "minute_stats")[-1].data["totals"]
    assert totals["events"] == {"enqueued": 5}


def test_the_lines_of_a_drill_that_nobody_cleared_hide_nothing(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    """As one leaves them that is killed: what happened before and beside it is counted."""
    worker = bench.worker()
    worker.upkeep.write_stats()
    enqueue()
    a_minute_passes(session)
    drill = {"drill.mail": {"events": {"enqueued": 999}, "retries": 0, "wait": {}, "run": {}}}
    Past(session, drill="poison").lines(3, drill, upto=0)
    enqueue()

    worker.upkeep.write_stats()

    line = events_named(session, "minute_stats")[-1]
    assert line.data["kinds"]["demo.echo"]["events"] == {"enqueued": 2}
    assert line.data["totals"]["events"] == {"enqueued": 2}
    found = measure(session).statistics
    Past(session, drill="poison").lines(1, drill, upto=0)
    later = measure(session).statistics
    assert found
    assert later
    assert found.totals == later.totals == line.data["totals"], "no counter goes to and fro"


@pytest.mark.postgresql("transactions that stay open")
@pytest.mark.parametrize("where", ["here", "in another database"])
def test_a_transaction_that_stays_open_holds_no_line_back(
    bench: Bench, enqueue: Enqueue, session: Session, engine: sa.Engine, where: str
) -> None:
    """What it has written itself counts when it is committed, once."""
    worker = bench.worker()
    worker.upkeep.write_stats()
    a_minute_passes(session)
    elsewhere = engine.url.set(database="postgres") if where != "here" else engine.url
    other = sa.create_engine(elsewhere)
    counted = []
    with other.connect() as open_one:
        open_one.execute(text("SELECT pg_current_xact_id()"))
        if where == "here":
            late = (
                "INSERT INTO job_events (job_id, kind, event, attempt, actor, created_at)"
                " VALUES (7, 'demo.late', 'enqueued', 0, 'a', now() - interval '9 min')"
            )
            open_one.execute(text(late))
        for _ in range(3):
            enqueue()
            bench.run_one(worker)
            worker.upkeep.write_stats()
            counted.append(_kinds_of_last(session)["demo.echo"]["events"]["succeeded"])
            a_minute_passes(session)
        open_one.commit()
    other.dispose()
    enqueue()
    for _ in range(2):
        worker.upkeep.write_stats()
        a_minute_passes(session)

    *_, last, none = events_named(session, "minute_stats")
    assert counted == [1, 1, 1]
    late_ones = {"demo.late": {"enqueued": 1}} if where == "here" else {}
    assert {kind: counts["events"] for kind, counts in last.data["kinds"].items()} == {
        "demo.echo": {"enqueued": 1},
        **late_ones,
    }
    assert datetime.fromisoformat(last.data["since"]) > datetime.now(UTC) - timedelta(minutes=5)
    assert none.data["kinds"] == {}
    assert none.data["totals"]["events"]["enqueued"] == 4 + len(late_ones)


@pytest.mark.postgresql("transactions that stay open")
def test_what_is_counted_late_makes_no_line_longer(
    bench: Bench, session: Session, engine: sa.Engine
) -> None:
    """Also where nothing else has happened meanwhile."""
    worker = bench.worker()
    late = (
        "INSERT INTO job_events (job_id, kind, event, attempt, actor, created_at)"
        " VALUES (7, 'demo.late', 'enqueued', 0, 'a', now() - interval '9 min')"
    )
    worker.upkeep.write_stats()
    a_minute_passes(session)
    with engine.begin() as open_one:
        open_one.execute(text(late))
        worker.upkeep.write_stats()
        a_minute_passes(session)

    worker.upkeep.write_stats()

    line = events_named(session, "minute_stats")[-1]
    assert line.data["kinds"]["demo.late"]["events"] == {"enqueued": 1}
    assert datetime.fromisoformat(line.data["since"]) > datetime.now(UTC) - timedelta(minutes=5)


@pytest.mark.postgresql("transactions that stay open")
def test_what_was_open_for_long_is_counted_once_over_as_many_lines_as_it_takes(
    bench: Bench,
    enqueue: Enqueue,
    session: Session,
    engine: sa.Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minute_stats, "EVENTS_A_LINE", 4)
    worker = bench.worker()
    worker.upkeep.write_stats()
    a_minute_passes(session)
    late = text(
        "INSERT INTO job_events (job_id, kind, event, attempt, actor)"
        " SELECT n, :kind, 'enqueued', 0, 'a' FROM generate_series(1, :jobs) AS n"
    )
    with engine.connect() as first, engine.connect() as second, engine.connect() as third:
        for kind, jobs, connection in (("a", 6, first), ("b", 3, second), ("c", 5, third)):
            connection.execute(late, {"kind": kind, "jobs": jobs})
        enqueue()
        worker.upkeep.write_stats()
        a_minute_passes(session)
        second.commit()
        first.commit()
        for _ in range(4):
            worker.upkeep.write_stats()
        a_minute_passes(session)
        enqueue()
        third.commit()
        for _ in range(4):
            worker.upkeep.write_stats()

    totals = events_named(session, "minute_stats")[-1].data["totals"]["kinds"]
    counted = {kind: counts["events"]["enqueued"] for kind, counts in totals.items()}
    assert counted == {"a": 6, "b": 3, "c": 5, "demo.echo": 2}


def test_whoever_comes_just_before_a_line_is_due_comes_again_when_it_is(
    bench: Bench, session: Session
) -> None:
    worker = bench.worker()
    worker.upkeep.write_stats()
    age = "UPDATE job_events SET created_at = created_at - interval '50 s' WHERE event = :e"
    session.execute(text(age), {"e": "minute_stats"})
    session.commit()

    assert 5 < worker.upkeep.write_stats() <= 10


@pytest.mark.postgresql("a clock of the server")
def test_a_line_of_an_hour_to_come_keeps_nothing_from_being_counted(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    worker = bench.worker()
    worker.upkeep.write_stats()
    session.execute(text("UPDATE job_events SET created_at = created_at + interval '1 hour'"))
    session.commit()
    enqueue()

    worker.upkeep.write_stats()

    assert _kinds_of_last(session)["demo.echo"]["events"] == {"enqueued": 1}


def _kinds_of_last(session: Session) -> Any:
    return events_named(session, "minute_stats")[-1].data["kinds"]
