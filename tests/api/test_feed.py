"""GET /api/events: each line once, none left out, whatever commits late or goes away."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.api import describe
from queueapp.jobs import transitions
from queueapp.jobs.control import QUEUE, record
from queueapp.jobs.queries import feed
from queueapp.jobs.queries.bounds import bound_reads
from queueapp.jobs.status import Event, Status
from tests.api.conftest import Api, body, problem
from tests.factories import make_job
from tests.jobs.explain import Prepared
from tests.jobs.seeds import seed


class Reader:
    """A program that follows the feed as the documentation says."""

    def __init__(self, client: FlaskClient, **query: Any) -> None:
        self.client, self.query, self.cursor = client, query, ""
        self.held_back_s: float | None = None

    def read(self) -> list[dict[str, Any]]:
        """All that is there by now."""
        found = []
        while True:
            after = {"after": self.cursor} if self.cursor else {}
            page = body(self.client.get("/api/events", query_string={**self.query, **after}))
            found += page["items"]
            self.cursor, self.held_back_s = page["next"], page["held_back_s"]
            if not page["more"]:
                return found

    def ids(self) -> list[int]:
        return [line["id"] for line in self.read()]


def events_of(api: Api, job_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(api.get(f"/{job_id}/events"))["items"]
    return found


def test_the_feed_has_each_line_once_in_pages_of_any_size(
    client: FlaskClient, session: Session
) -> None:
    for status in Status:
        make_job(session, status)
    record(session, Event.QUEUE_PAUSED, scope=QUEUE, actor="user:ana", data=None)
    session.commit()
    wanted = session.scalars(sa.text("SELECT id FROM job_events ORDER BY id")).all()

    for limit in (1, 3, 200):
        reader = Reader(client, limit=limit)
        assert reader.ids() == wanted
        assert reader.ids() == []
    [first, *_, last] = Reader(client).read()
    assert set(first) == set(describe.FEED)
    assert (first["event"], first["job_id"], first["kind"]) == ("enqueued", 1, "demo.echo")
    assert (last["event"], last["job_id"], last["scope"]) == ("queue_paused", None, "queue")


def test_a_reader_goes_on_where_it_stopped(client: FlaskClient, api: Api) -> None:
    reader = Reader(client)
    assert reader.ids() == []
    assert reader.cursor
    first = api.make()["id"]
    assert [line["job_id"] for line in reader.read()] == [first]
    assert reader.read() == []
    api.post(f"/{first}/cancel")
    assert [line["event"] for line in reader.read()] == ["cancelled"]


@pytest.mark.postgresql("two writers at once")
def test_a_line_that_commits_late_is_neither_left_out_nor_shown_twice(
    client: FlaskClient, api: Api, session: Session
) -> None:
    reader = Reader(client)
    late = make_job(session)  # draws its numbers, and does not commit yet
    late_line: int = session.scalars(sa.text("SELECT max(id) FROM job_events")).one()
    early = [api.make()["id"] for _ in range(3)]

    assert reader.read() == []
    assert reader.held_back_s is not None
    # Whoever remembers the highest id would pass it by now.
    assert max(line["id"] for line in events_of(api, early[-1])) > late_line
    session.commit()

    lines = reader.read()
    assert [line["job_id"] for line in lines] == [late.id, *early]
    assert reader.read() == []
    assert reader.held_back_s is None


@pytest.mark.postgresql("two writers at once")
def test_transactions_that_end_in_any_order_leave_no_gap(
    client: FlaskClient, session: Session, engine: sa.Engine
) -> None:
    reader, seen = Reader(client, limit=2), []
    sessions = [Session(engine) for _ in range(4)]
    for turn in range(3):
        for one in sessions:
            make_job(one)
        for place in (2, 0, 3, 1) if turn % 2 else (3, 2, 1, 0):
            # One of them is given up: its numbers stay unused.
            sessions[place].rollback() if (turn, place) == (1, 3) else sessions[place].commit()
            seen += reader.ids()
    for one in sessions:
        one.close()
    seen += reader.ids()

    wanted = session.scalars(sa.text("SELECT id FROM job_events")).all()
    assert len(seen) == len(set(seen))
    assert sorted(seen) == sorted(wanted)


@pytest.mark.postgresql("its transaction ids")
def test_the_order_is_that_of_numbers_not_of_their_digits(
    client: FlaskClient, api: Api, session: Session
) -> None:
    jobs = [api.make()["id"] for _ in range(3)]
    for job_id, xid in zip(jobs, (10, 9, 100), strict=True):
        session.execute(
            sa.text("UPDATE job_events SET xid = CAST(:xid AS xid8) WHERE job_id = :id"),
            {"xid": str(xid), "id": job_id},
        )
    session.commit()

    assert [line["job_id"] for line in Reader(client, limit=1).read()] == [
        jobs[1],
        jobs[0],
        jobs[2],
    ]
    end = body(client.get("/api/events?after=now"))["next"]
    assert end.split(".")[1] == "100"


def test_now_is_behind_all_that_is_there(client: FlaskClient, api: Api) -> None:
    empty = body(client.get("/api/events?after=now"))
    assert (empty["items"], empty["more"]) == ([], False)
    api.make()
    api.make()

    page = body(client.get("/api/events?after=now"))
    assert (page["items"], page["more"]) == ([], False)
    third = api.make()["id"]

    lines = body(client.get(f"/api/events?after={page['next']}"))["items"]
    assert [line["job_id"] for line in lines] == [third]
    assert len(body(client.get(f"/api/events?after={empty['next']}"))["items"]) == 3


def test_a_cursor_of_another_database_is_gone(client: FlaskClient, api: Api) -> None:
    api.make()
    system, _, rest = body(client.get("/api/events?after=now"))["next"].partition(".")

    assert problem(client.get(f"/api/events?after=1{system}.{rest}"[:60])) == (410, "cursor_gone")


@pytest.mark.parametrize("change", ["DELETE FROM job_events WHERE id <= 2", "restored"])
def test_a_reader_whose_line_has_gone_is_told(
    client: FlaskClient, api: Api, session: Session, change: str
) -> None:
    api.make()
    reader = Reader(client)
    reader.read()
    api.make()
    if change == "restored":
        # Back to an earlier state, from where the numbers are drawn again.
        change = "UPDATE job_events SET created_at = '2020-01-01T00:00:00.000000+00:00'"
    session.execute(sa.text(change))
    session.commit()
    api.make()

    answer = client.get("/api/events", query_string={"after": reader.cursor})

    assert problem(answer) == (410, "cursor_gone")
    assert Reader(client).read()


@pytest.mark.parametrize(
    "query",
    [
        "after=", "after=0", "after=1.2.3", "after=1.2.3.4.5", "after=a.b.c.d", "after=1.2.3.-4",
        "after=1.9223372036854775808.1.1", "after=1.1.9223372036854775808.1", "after=%00",
        "limit=0", "limit=201", "before=1", "after=now&after=now",
    ],
)  # fmt: skip
def test_a_bad_query_is_refused(client: FlaskClient, query: str) -> None:
    assert problem(client.get(f"/api/events?{query}")) == (400, "bad_request")


def test_the_largest_cursor_leads_nowhere(client: FlaskClient) -> None:
    system = body(client.get("/api/events?after=now"))["next"].partition(".")[0]
    most = 2**63 - 1

    assert problem(client.get(f"/api/events?after={system}.{most}.{most}.{most}"))[0] == 410


def test_no_line_shows_a_lease_token(client: FlaskClient, session: Session) -> None:
    make_job(session, Status.RUNNING)
    session.commit()
    token = session.scalar(sa.text("SELECT lease_token FROM jobs"))

    assert token
    assert str(token) not in client.get("/api/events").text


def test_a_released_lease_is_told_in_its_order(client: FlaskClient, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    transitions.requeue(session, [job.id], actor="user:ana", reason="again", via="api")
    session.commit()

    events = [line["event"] for line in Reader(client, limit=1).read()]

    assert events == ["enqueued", "claimed", "failed", "requeued"]


@pytest.mark.postgresql("plans and what they read")
def test_a_page_costs_the_same_wherever_it_begins(session: Session, app: Flask) -> None:
    seed(session, 20_000)
    places = [(0, 0)]
    for share in (0.3, 0.9):
        skip = {"skip": int(40_000 * share)}
        found = session.execute(
            sa.text("SELECT xid::text, id FROM job_events ORDER BY xid, id OFFSET :skip LIMIT 1"),
            skip,
        ).one()
        places.append((found.xid, found.id))
    session.rollback()
    bound_reads(session, seconds=10)
    feed.end_of_feed(session)

    with Prepared(session.connection(), "feed", feed._FEED) as statement:
        for xid, line in places:
            plan = statement.run(xid=str(xid), id=line, limit=100)
            read = sum(node.get("Shared Hit Blocks", 0) for node in plan.nodes[:1])
            assert read < 400
            assert plan.sorted_rows == 0
            assert not plan.scans("Seq Scan")


@pytest.mark.postgresql("roles")
def test_a_plain_role_may_read_it(session: Session) -> None:
    make_job(session)
    session.execute(sa.text("CREATE ROLE feed_guest"))
    session.execute(sa.text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO feed_guest"))
    session.execute(sa.text("SET LOCAL ROLE feed_guest"))

    assert len(feed.read_feed(session, None).lines) == 0
    assert feed.end_of_feed(session).held_back_s is None
