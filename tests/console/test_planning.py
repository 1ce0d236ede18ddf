"""From a filter to a plan and its undo, and the list of operations."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import driver, planning, walk
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL, Console, stands_beside, words
from tests.factories import make_job

LATER = datetime(2030, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def plan(console: Console, verb: str = "cancel", **form: object) -> str:
    answer = console.post("/operations", verb=verb, **{"reason": "because", **form})
    assert answer.status_code == 303, answer.text
    return str(answer.location)


def jobs(session: Session, count: int, status: Status = Status.QUEUED, **fields: Any) -> list[int]:
    ids = [make_job(session, status, **fields).id for _ in range(count)]
    session.commit()
    return ids


def rows(session: Session) -> list[tuple[str, int]]:
    session.rollback()
    found = session.execute(sa.select(Job.status, Job.priority).order_by(Job.id))
    return [(row.status, row.priority) for row in found]


def test_the_list_leads_to_all_that_match_it(console: Console, session: Session) -> None:
    jobs(session, 3, kind="a.b")
    jobs(session, 1, kind="c")

    listed = console.get("/jobs?status=queued&kind=a.b")
    asked = console.get("/operations/new?status=queued&kind=a.b")

    assert 'form="filter" formaction="/operations/new"' in listed
    given = "status=queued&kind=a.b&producer=&since="
    sent = console.client.get(f"/operations/new?{given}")
    assert sent.location == "/operations/new?status=queued&kind=a.b"
    # A filter that cannot be read is told of, never widened.
    assert "No job can match" in words(console.get(f"/operations/new?{given}&color=red"))
    assert "3 jobs match" in words(asked)
    assert "status queued · kind a.b" in words(asked)
    buttons = re.findall(r'<button [^>]*value="([a-z-]+)"([^>]*)>', asked)
    off = {verb for verb, more in buttons if " disabled" in more}
    assert off == {"retry", "canary", "unhold", "purge"}
    assert "Retry is for jobs that are failed or cancelled." in words(asked)

    page = console.get(plan(console, status="queued", kind="a.b"))
    assert "Cancel 3 jobs?" in words(page)
    assert rows(session) == [("queued", 0)] * 4


def test_a_plan_says_what_it_leaves_alone_and_why(console: Console, session: Session) -> None:
    jobs(session, 2)
    jobs(session, 3, Status.SUCCEEDED)
    stopping = jobs(session, 1, Status.RUNNING)
    transitions.cancel(session, stopping, actor="user:bob")
    session.commit()

    text = words(console.get(plan(console, kind="demo.echo")))

    assert "Cancel 2 jobs?" in text
    assert "1 running, and asked to stop already" in text
    assert "3 succeeded: only queued or held or running ones can be cancelled" in text


def test_what_is_due_is_the_due_of_the_plan(console: Console, session: Session) -> None:
    due = jobs(session, 2)
    later = jobs(session, 1, available_at=LATER)
    address = plan(console, status="due")
    # Due a moment after the plan.
    session.execute(sa.update(Job).where(Job.id == later[0]).values(available_at=sa.func.now()))
    session.commit()

    console.post(f"{address}/apply")

    assert [status for status, _ in rows(session)] == ["cancelled"] * 2 + ["queued"]
    assert len(due) == 2
    assert "available before 20" in words(console.get(address))


def test_a_plan_keeps_the_instants_of_a_span_that_goes_along_with_the_clock(
    console: Console, session: Session
) -> None:
    jobs(session, 2, attempts=2, payload={"order": {"id": 42}})
    jobs(session, 1, attempts=2, payload={"order": {"id": 42}}, created_at=LONG_AGO)
    jobs(session, 1, attempts=2, payload={"order": {"id": 43}})
    asked = {"since": "-1h", "attempts": ">=2", "payload.order.id": "42"}

    address = plan(console, **asked)
    page = console.get(address)

    assert "Cancel 2 jobs?" in words(page)
    assert "created from 20" in words(page)
    assert "payload order.id 42" in words(page)
    assert "attempts min 2" in words(page)
    # Its jobs as a list, an hour later too.
    [link] = re.findall(r'href="(/jobs\?[^"]*since=20[^"]*)"', page.replace("&amp;", "&"))[:1]
    assert "attempts=%3E%3D2&payload.order.id=42" in link
    assert len(re.findall('id="job-', console.get(link))) == 2


def test_a_reschedule_says_and_does_what_was_filled_in(console: Console, session: Session) -> None:
    jobs(session, 2)
    form = {"kind": "demo.echo", "minutes": "10", "to_priority": "-3"}

    address = plan(console, "reschedule", **form)
    text = words(console.get(address))
    console.post(f"{address}/apply")

    assert "priority -3, due 10 min 0 s after each is moved" in text
    assert rows(session) == [("queued", -3)] * 2
    for minutes, priority in (("x", ""), ("-1", ""), ("", "99999"), ("9" * 9, "")):
        form = {"kind": "demo.echo", "minutes": minutes, "to_priority": priority}
        answer = console.post("/operations", verb="reschedule", reason="so <b>", **form)
        assert answer.status_code == 422
        assert 'name="reason" maxlength="500" value="so &lt;b&gt;"' in answer.text
        assert stands_beside("to_priority" if priority else "minutes", answer.text)


def test_a_reschedule_of_many_may_be_spread_and_is_undone(
    console: Console, session: Session
) -> None:
    jobs(session, 4)
    before = list(session.scalars(sa.select(Job.available_at).order_by(Job.id)))

    address = plan(console, "reschedule", kind="demo.echo", spread="10")
    text = words(console.get(address))
    console.post(f"{address}/apply")

    assert "moved to spread over 10 min 0 s" in text
    session.rollback()
    due = list(session.scalars(sa.select(Job.available_at).order_by(Job.id)))
    apart = [(b - a).total_seconds() for a, b in itertools.pairwise(due)]
    assert apart == pytest.approx([150] * 3, abs=3)

    undo = console.post(f"{address}/undo", reason="not so").location
    console.post(f"{undo}/apply")
    session.rollback()
    assert list(session.scalars(sa.select(Job.available_at).order_by(Job.id))) == before

    for spread in ("x", "-1", "1441", "99999"):
        form = {"kind": "demo.echo", "reason": "r", "spread": spread}
        answer = console.post("/operations", verb="reschedule", **form)
        assert answer.status_code == 422
        assert stands_beside("spread", answer.text).startswith("Over a whole number of minutes")
    assert console.post("/operations", verb="reschedule", kind="demo.echo", reason="r",
                        spread="0").status_code == 422  # fmt: skip


@pytest.mark.parametrize(
    "form",
    [
        {"verb": "burn", "kind": "a", "reason": "r"},
        {"verb": "retry", "status": "succeeded", "reason": "r"},
        {"verb": "retry", "status": "nothing", "reason": "r"},
        {"verb": "retry", "priority": "high", "reason": "r"},
    ],
)
def test_what_makes_no_plan_is_said(
    console: Console, session: Session, form: dict[str, str]
) -> None:
    assert console.post("/operations", **form).status_code == 400
    assert session.scalar(sa.select(sa.func.count(JobEvent.id))) == 0


def test_a_form_without_a_reason_comes_back_as_it_was(console: Console, session: Session) -> None:
    jobs(session, 2)
    form = {"kind": "demo.echo", "minutes": "7", "to_priority": "2", "reason": " "}

    answer = console.post("/operations", verb="reschedule", **form)

    assert answer.status_code == 422
    assert (
        stands_beside("reason", answer.text)
        == "Say why: the ledger keeps the reason with each job."
    )
    assert "2 jobs match" in words(answer.text)
    assert re.search('name="minutes"[^>]* value="7"', answer.text)
    assert re.search('name="to_priority"[^>]* value="2"', answer.text)
    assert '<input type="hidden" name="kind" value="demo.echo">' in answer.text
    # Nothing draws over it.
    assert "http-equiv" not in answer.text
    answer = console.post("/operations", verb="reschedule", kind="demo.echo", reason="r")
    assert stands_beside("minutes", answer.text).startswith("Say in how many minutes")
    assert (
        session.scalar(sa.select(sa.func.count(JobEvent.id)).where(JobEvent.job_id.is_(None))) == 0
    )


def test_where_none_of_those_looked_at_matches_it_counts_nothing(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.jobs.queries.counting.SCAN_LIMIT", 1)
    jobs(session, 2, kind="a.b")

    page = console.get("/operations/new?payload.message=nobody")

    assert "All jobs that match none of the newest" in words(page)
    assert "0+" not in words(page)
    assert 'name="verb"' in page


def test_where_nothing_matches_it_says_what_to_widen(console: Console, session: Session) -> None:
    jobs(session, 1, kind="a.b")

    page = console.get("/operations/new?status=queued&status=held&kind=a.c")

    assert "0 jobs match" in words(page)
    assert 'name="verb"' not in page
    assert 'href="/operations/new?status=queued&amp;status=held">without' in page
    assert 'href="/operations/new?kind=a.c">without' in page
    assert "Widen the filter: without status queued, held without kind a.c" in words(page)


def test_a_form_that_is_sent_twice_makes_one_plan(console: Console, session: Session) -> None:
    jobs(session, 2)

    first, again = (plan(console, kind="demo.echo") for _ in range(2))
    other = plan(console, kind="demo.echo", reason="another")
    console.post(f"{first}/stop")
    anew = plan(console, kind="demo.echo")

    assert first == again
    assert len({first, other, anew}) == 3


def test_a_filter_that_no_index_serves_is_counted_on_the_page_first(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
    monkeypatch.setattr(walk, "SCAN_LIMIT", 2)
    monkeypatch.setattr(planning, "COUNT_S", -1.0)
    jobs(session, 5)

    address = plan(console, kind="demo.echo")
    page = console.get(address)
    refused = console.post(f"{address}/apply", count="2")
    scripted = console.client.post(f"{address}/count", headers=PANEL).text
    last = console.post(f"{address}/count")

    assert "2 jobs counted so far" in words(page)
    assert "Nothing is changed before all are counted" in words(page)
    assert f'hx-post="{address}/count"' in page
    # A poll beside it would take the form away.
    assert "every 2s" not in page
    assert refused.status_code == 400
    assert "4 jobs counted so far" in words(scripted)
    assert (last.status_code, last.location) == (303, address)
    assert "Cancel 5 jobs?" in words(console.get(address))
    assert rows(session) == [("queued", 0)] * 5


def test_an_operation_is_undone_from_its_page(console: Console, session: Session) -> None:
    ids = jobs(session, 3, priority=4)
    address = plan(console, kind="demo.echo")
    console.post(f"{address}/apply")
    assert 'id="undo"' in console.get(address)
    transitions.requeue(session, ids[:1], actor="user:bob")
    session.commit()

    refused = console.post(f"{address}/undo", reason=" ")
    assert refused.status_code == 422
    assert stands_beside("reason", refused.text).startswith("Say why")
    first, again = (console.post(f"{address}/undo", reason="a slip") for _ in range(2))
    page = words(console.get(first.location))
    console.post(f"{first.location}/apply")

    assert first.location == again.location != address
    assert "Put back 2 jobs?" in page
    assert "1 changed since, or gone" in page
    assert "at their former place in the line" in page
    assert "Done: 2 jobs put back" in words(console.get(first.location))
    assert rows(session) == [("queued", 4)] * 3
    number, origin = (one.rsplit("/", 1)[1] for one in (first.location, address))
    assert f"Undone in part by {number} : 2 of 3 jobs put back." in words(console.get(address))
    row = console.get("/operations").split(f'id="operation-{origin}"')[1].split("</tr>")[0]
    assert "undone in part" in words(row)


def test_an_operation_that_was_undone_whole_says_so_and_offers_no_other_undo(
    console: Console, session: Session
) -> None:
    jobs(session, 2)
    address = plan(console, kind="demo.echo")
    console.post(f"{address}/apply")
    undo = console.post(f"{address}/undo", reason="a slip").location
    assert "Undone" not in words(console.get(address))
    console.post(f"{undo}/apply")

    page, number = console.get(address), undo.rsplit("/", 1)[1]

    assert f"Undone by {number} : 2 of 2 jobs put back." in words(page)
    assert f'href="{undo}"' in page
    assert f"It has been undone by {number}: each of its jobs is back." in words(page)
    assert 'id="undo"' not in page
    assert console.post(f"{address}/undo", reason="again").status_code == 409


def test_the_jobs_that_were_moved_are_shown_page_by_page(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 3)
    monkeypatch.setattr("queueapp.console.moved_jobs.ROWS", 2)
    ids = jobs(session, 5)
    address = plan(console, kind="demo.echo")
    console.post(f"{address}/apply")
    transitions.purge(session, ids[:1], actor="user:bob", reason="old")
    session.commit()

    shown, page = [], console.get(address)
    while True:
        shown.append([int(one) for one in re.findall(r'<tr id="moved-(\d+)"', page)])
        more = re.search(r'rel="next" href="([^"]+)"', page)
        if more is None:
            break
        last, page = page, console.get(more[1])

    assert [number for numbers in shown for number in numbers] == ids[::-1]
    assert max(map(len, shown)) == 2
    assert "gone" in words(page)
    assert last != page


def test_a_retry_says_why_it_cannot_be_undone(console: Console, session: Session) -> None:
    jobs(session, 1, Status.FAILED)
    address = plan(console, "retry", kind="demo.echo")
    console.post(f"{address}/apply")

    page = console.get(address)

    assert "A retry cannot be undone: what has run since has run" in words(page)
    assert 'id="undo"' not in page
    assert console.post(f"{address}/undo", reason="r").status_code == 409


def test_operations_are_listed_newest_first(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Nobody has moved many jobs at once" in words(console.get("/operations"))
    monkeypatch.setattr("queueapp.console.operation_list.ROWS", 2)
    jobs(session, 2)
    addresses = [plan(console, kind="demo.echo", reason=f"<b>{n}") for n in range(3)]
    # Made at the same moment they have an order all the same.
    at_once = "UPDATE job_events SET created_at = (SELECT min(created_at) FROM job_events)"
    session.execute(sa.text(f"{at_once} WHERE event = 'op_planned'"))
    session.commit()
    console.post(f"{addresses[2]}/apply")

    first = console.get("/operations")
    older = re.search(r'rel="next" href="(/operations\?before=[0-9.]+)"', first)
    assert older
    second = console.get(older[1])

    def shown(page: str) -> list[str]:
        names = re.findall('<tr id="operation-([0-9a-f]+)"', page)
        return [f"/operations/{name}" for name in names]

    assert shown(first) + shown(second) == addresses[::-1]
    assert "kind demo.echo" in words(first)
    assert "<b>2" in words(first)
    assert re.search(r"done 2 0 0 kind", words(first))
    assert re.search(r"planned 0 – 2 kind", words(second))
    assert 'href="/api/operations"' in first
    assert 'rel="next"' not in second
