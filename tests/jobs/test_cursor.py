"""Claims behind a cursor, and looks from an edge: exact in what was there, and what comes in behind
them is found by the next whole look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.cursor import MOST, Cursor
from queueapp.jobs.outlook import Edge, Outlook, look
from tests.factories import HOLDER, make_job, outcome

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ANA: dict[str, Any] = {"actor": "user:ana", "reason": "x"}


class Line:
    """One claimer over the table, and a session that producers and people write with."""

    def __init__(self, session: Session, worker: sa.Connection) -> None:
        self.session, self.worker = session, worker
        self.holder = HOLDER
        self.cursor = Cursor()

    def put(self, **new: Any) -> int:
        """Enqueue a job in a transaction of its own."""
        job = make_job(self.session, **new).id
        self.session.commit()
        return job

    def claim(self, slots: int = 9, *, whole: bool = False) -> list[int]:
        """Claim behind the cursor, or everywhere, and move it on; the ids."""
        return [claim.id for claim in self.claims(slots, whole=whole)]

    def claims(self, slots: int = 9, *, whole: bool = False) -> list[Claim]:
        after = None if whole else self.cursor
        claims = transitions.exchange(self.worker, [], self.holder, slots=slots, after=after).claims
        self.cursor.pass_(claims)
        return claims

    def look(self, edge: Edge | None = None) -> Outlook:
        return look(self.worker, me=HOLDER.name, edge=edge)


@pytest.fixture
def line(session: Session, worker: sa.Connection) -> Line:
    return Line(session, worker)


# What comes in behind a cursor: each takes a line, claims a job of priority 0 and leaves behind it
# the one that it returns.


def committed_late(line: Line, engine: sa.Engine) -> int:
    with Session(engine) as producer:
        late = make_job(producer).id
        other = line.put()
        assert line.claim() == [other]
        producer.commit()
    return late


def back_dated(line: Line, _engine: sa.Engine) -> int:
    other = line.put()
    assert line.claim() == [other]
    return line.put(available_at=LONG_AGO)


def handed_back(line: Line, _engine: sa.Engine) -> int:
    jobs = [line.put() for _ in range(3)]
    claims = line.claims()
    assert [claim.id for claim in claims] == jobs
    transitions.settle(line.worker, [outcome(claims[1], "release")], actor=HOLDER.name)
    return jobs[1]


def locked_when_looked_at(line: Line, engine: sa.Engine) -> int:
    jobs = [line.put() for _ in range(2)]
    with engine.begin() as psql:
        psql.execute(sa.text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": jobs[0]})
        assert line.claim(whole=True) == jobs[1:]
    return jobs[0]


def unheld(line: Line, _engine: sa.Engine) -> int:
    jobs = [line.put() for _ in range(2)]
    transitions.hold(line.worker, jobs[:1], **ANA)
    assert line.claim() == jobs[1:]
    transitions.unhold(line.worker, jobs[:1], **ANA)
    return jobs[0]


def no_longer_skipped(line: Line, _engine: sa.Engine) -> int:
    jobs = [line.put(kind=kind) for kind in ("slow", "quick")]
    line.holder = Holder(HOLDER.name, lease_s=60, skip=("slow",))
    assert line.claim() == jobs[1:]
    line.holder = HOLDER
    return jobs[0]


BEHIND = [committed_late, back_dated, handed_back, locked_when_looked_at, unheld, no_longer_skipped]


@pytest.mark.parametrize("behind", BEHIND)
def test_what_comes_in_behind_the_cursor_is_found_by_a_whole_look(
    line: Line, engine: sa.Engine, behind: Callable[[Line, sa.Engine], int]
) -> None:
    late = behind(line, engine)
    next_one = line.put()

    assert line.claim() == [next_one]
    assert line.claim(whole=True) == [late]


def test_the_order_is_exact_for_what_was_there_at_the_last_whole_look(line: Line) -> None:
    """What comes in later is in its place as well, unless that lies behind."""
    jobs = [line.put(priority=n % 2, available_at=LONG_AGO + timedelta(n)) for n in range(8)]
    assert line.claim(3, whole=True) == [jobs[1], jobs[3], jobs[5]]
    before = line.put(priority=1, available_at=LONG_AGO + timedelta(4))
    first = line.put(priority=1, available_at=LONG_AGO + timedelta(6))

    assert line.claim(3) == [first, jobs[7], jobs[0]]
    assert line.claim(2) == [jobs[2], jobs[4]]
    assert line.claim(2, whole=True) == [before, jobs[6]]


def test_priorities_that_appear_above_between_and_below_are_found_at_once(line: Line) -> None:
    known = [line.put(priority=priority) for priority in (5, 0)]
    assert line.claim(whole=True) == known
    new = {p: line.put(priority=p, available_at=LONG_AGO) for p in (-9, 32767, 3, -32768, 6)}

    assert line.claim() == [new[p] for p in (32767, 6, 3, -9, -32768)]


def test_a_retry_that_is_due_at_once_is_in_front_of_the_cursor(line: Line) -> None:
    [first, second] = [line.put() for _ in range(2)]
    [claim, _] = line.claims()
    transitions.settle(line.worker, [outcome(claim, "retry", delay_s=0)], actor=HOLDER.name)

    assert line.claim() == [first]
    assert claim.id == first < second


def test_two_claimers_take_what_the_other_left(line: Line, worker: sa.Connection) -> None:
    jobs = [line.put() for _ in range(6)]
    other = Line(line.session, worker)

    taken = [*line.claim(2), *other.claim(2), *line.claim(2), *other.claim(2)]

    assert taken == jobs


def test_a_cursor_forgets_the_oldest_of_too_many_priorities(line: Line) -> None:
    jobs = [line.put(priority=-n) for n in range(MOST + 5)]

    assert line.claim(MOST + 5) == jobs
    assert line.cursor.document().count("priority") == MOST
    assert line.claim() == []


# The look of housekeeping


def test_a_wider_look_sees_what_came_in_behind_the_edge(line: Line) -> None:
    for priority in (-1, 1):
        line.put(priority=priority, delay_s=3600)
    edge = line.look().edge
    line.put(priority=1, available_at=LONG_AGO)

    seen = line.look(edge)

    assert seen.due_in_s == pytest.approx(3600, abs=60)
    assert (line.look(seen.edge.widened()).due_in_s or 0) < -1e6


def test_a_priority_that_appears_beside_the_edge_is_seen_at_once(line: Line) -> None:
    line.put(priority=0, delay_s=3600)
    edge = line.look().edge
    line.put(priority=1, delay_s=1200)
    line.put(priority=-1, available_at=LONG_AGO)

    assert (line.look(edge).due_in_s or 0) < -1e6


def test_an_edge_lies_no_later_than_now(line: Line) -> None:
    """A job that comes in later may be due sooner than the one that was seen."""
    line.put(delay_s=3600)
    seen = line.look()
    line.put(delay_s=60)

    assert seen.due_in_s == pytest.approx(3600, abs=30)
    assert line.look(seen.edge).due_in_s == pytest.approx(60, abs=30)


def test_a_priority_whose_jobs_are_gone_stays_known(line: Line) -> None:
    """Its dead entries would be walked by each search for others."""
    line.put(priority=3)
    edge = line.look().edge
    line.claim()

    for _ in range(2):
        edge = line.look(edge).edge.widened()

    assert line.look(edge).due_in_s is None
    assert edge.places == [{"priority": 3}]


def test_an_edge_moves_up_to_the_oldest_lease(line: Line) -> None:
    jobs = [line.put() for _ in range(2)]
    first, second = line.claims(1)[0], line.claims(1)[0]
    assert [first.id, second.id] == jobs
    assert line.look().edge.low == first.claimed_at

    transitions.settle(line.worker, [outcome(first)], actor=HOLDER.name)
    edge = line.look().edge

    assert edge.low == second.claimed_at
    lose = "UPDATE jobs SET lease_expires_at = now() - interval '1 s' WHERE status = 'running'"
    line.worker.execute(sa.text(lose))
    # What is overdue is still there at the next look: its row may be locked for a while.
    seen = line.look(edge)
    assert (seen.overdue, seen.edge.low) == (1, second.claimed_at)
    transitions.settle(line.worker, [outcome(second)], actor=HOLDER.name)
    assert (line.look(edge).edge.low or LONG_AGO) > second.claimed_at


def test_a_lease_whose_claim_commits_late_is_seen_by_a_wider_look(
    line: Line, engine: sa.Engine
) -> None:
    for _ in range(2):
        line.put()
    brief = Holder("test:2:000000", lease_s=0)
    with engine.begin() as slow:
        transitions.exchange(slow, [], brief, slots=1)
        line.claim()
        edge = line.look().edge
    assert line.look(edge).overdue == 0
    assert line.look(edge.widened()).overdue == 1
