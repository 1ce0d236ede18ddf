"""The page of an operation: the question, the way through, the canary, the end."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console import operations as views
from queueapp.jobs import operations, transitions
from queueapp.jobs.claim import Claim
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import driver, planning, walk
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL, Console, job_ids, stands_beside, words
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.jobs.test_filters import operate


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs in a batch, one batch in a request."""
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", 0)


def plan(session: Session, jobs: int, *, canary: bool = False) -> tuple[str, list[int]]:
    """The address of a planned retry of so many failed jobs, and those."""
    ids = [make_job(session, Status.FAILED, kind="demo.echo").id for _ in range(jobs)]
    session.commit()
    where = JobFilter(status=(Status.FAILED,), kind="demo.echo")
    found = operations.survey(session, "retry", where)
    made = operations.plan(
        session, found, how={}, actor="user:ana", reason="<it> is back",
        canary=operations.Terms() if canary else None,
    )  # fmt: skip
    session.commit()
    return f"/operations/{made.id}", ids


def statuses(session: Session) -> list[str]:
    session.rollback()
    return list(session.scalars(sa.select(Job.status).order_by(Job.id)))


def script(console: Console, path: str, **form: str) -> Any:
    """What the page's script sends to go on."""
    return console.client.post(path, data=form, headers=PANEL)


def sample(page: str) -> list[int]:
    """The jobs of a plan that are shown before it begins."""
    return [int(found) for found in re.findall('id="sample-([0-9]+)"', page)]


def test_the_first_jobs_of_a_plan_are_sought_on_behind_the_first_rows(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
    monkeypatch.setattr(walk, "SCAN_LIMIT", 2)
    plan(session, 1)
    for _ in range(5):
        make_job(session)
    address, last = plan(session, 3)

    monkeypatch.setattr(planning, "SAMPLE_S", 60.0)
    whole = console.get(address)
    monkeypatch.setattr(planning, "SAMPLE_S", -1.0)
    cut = console.get(address)

    assert (len(sample(whole)), sample(whole)[1:]) == (4, last)
    assert "found in a look" not in words(whole)
    assert len(sample(cut)) == 1
    assert "No more than these were found in a look of half a second" in words(cut)


def test_the_first_jobs_of_an_undo_are_sought_on_behind_the_first_batch(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 1)
    ids = [make_job(session).id for _ in range(3)]
    session.commit()
    made = operate(session, "cancel", JobFilter(kind="demo.echo"))
    found = operations.survey_undo(session, made)
    address = operations.plan(session, found, how={}, actor="user:ana", reason="wrong").id
    session.commit()

    monkeypatch.setattr(planning, "SAMPLE_S", 60.0)
    whole = console.get(f"/operations/{address}")
    monkeypatch.setattr(planning, "SAMPLE_S", -1.0)
    cut = console.get(f"/operations/{address}")

    assert (sample(whole), sample(cut)) == (ids, ids[:1])
    assert "No more than these were found" in words(cut)


def test_a_plan_is_shown_with_its_numbers_and_asks(console: Console, session: Session) -> None:
    address, ids = plan(session, 12)

    page = console.get(address)

    text = words(page)
    for wanted in (
        "Retry 12 jobs?", "with all attempts anew", "12 failed", "kind demo.echo", "<it> is back",
        "user:ana", "Leave as it is",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert sample(page) == ids[:10]
    assert 'href="/jobs?status=failed&amp;kind=demo.echo"' in page
    assert f'href="/api{address}"' in page
    assert 'name="count"' not in page
    # Beside the button that begins it, and no part of its form.
    begin = page[page.index('<form id="begin"') :].partition("</form>")[0]
    assert re.search('<button[^>]* form="stop">Leave as it is</button>', begin)
    assert statuses(session) == ["failed"] * 12


def test_without_scripts_each_click_goes_a_bit_further(
    console: Console, session: Session, slowly: None
) -> None:
    address, ids = plan(session, 5)

    answers = [console.post(f"{address}/apply") for _ in range(2)]
    between = words(console.get(address))
    last = console.post(f"{address}/apply")
    touched = f"/jobs?operation={address.rpartition('/')[2]}"

    assert f'href="{touched}">the 5 jobs it changed' in console.get(address)
    listed = console.get(f"{touched}&status=queued")
    assert re.findall('<tr id="job-([0-9]+)"', listed) == [str(job) for job in ids[::-1]]
    assert f'href="{address}"' in listed
    # The filter's own form has them, and the button beside the ticked ones sends it.
    for name, value in (("status", "queued"), ("operation", address.rpartition("/")[2])):
        assert re.search(f'<input[^>]* name="{name}" value="{value}"', listed)
    assert 'form="filter" formaction="/operations/new"' in listed
    assert "is no operation" in words(console.get("/jobs?operation=latest"))
    assert {(a.status_code, a.location) for a in (*answers, last)} == {(303, address)}
    assert "Retrying 5 jobs: 4 done" in between
    assert "Continue" in between
    assert "Done: 5 jobs retried" in words(console.get(address))
    assert statuses(session) == ["queued"] * 5
    mine = [
        line.job_id
        for line in session.scalars(sa.select(JobEvent).where(JobEvent.event == "requeued"))
        if (line.actor, line.data["via"]) == ("user:local", "console") and line.job_id
    ]
    assert sorted(mine) == ids


def test_with_scripts_each_answer_asks_for_the_next_batch_until_it_is_done(
    console: Console, session: Session, slowly: None
) -> None:
    address, _ids = plan(session, 3)

    first, second = (script(console, f"{address}/apply") for _ in range(2))

    assert 'hx-trigger="load delay:100ms, submit"' in first.text
    # No poll beside it, which would take the form away.
    assert "every 2s" not in first.text
    assert "load delay" not in second.text
    assert "Done: 3 jobs retried" in words(second.text)


def test_a_page_that_is_only_looked_at_moves_nothing(
    console: Console, session: Session, slowly: None
) -> None:
    address, _ids = plan(session, 5)
    console.post(f"{address}/apply")

    page = console.get(address)

    assert "load delay" not in page
    assert "every 2s" in page
    assert statuses(session) == ["queued"] * 2 + ["failed"] * 3


def test_many_jobs_are_confirmed_by_their_number(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.console.operation_story.CLICK", 2)
    address, _ids = plan(session, 3)
    assert 'name="count"' in console.get(address)

    refused = [
        console.post(f"{address}/apply", **form) for form in ({}, {"count": "4"}, {"count": "x"})
    ]
    scripted = script(console, f"{address}/apply", count="4")
    assert {answer.status_code for answer in (*refused, scripted)} == {422}
    for answer in (*refused, scripted):
        assert "type 3, the number of jobs" in stands_beside("count", answer.text)
    assert scripted.text.startswith('<section id="panel"')
    assert 'name="count" value="4"' in scripted.text
    assert 'hx-status:422="swap:outerHTML"' in scripted.text
    assert statuses(session) == ["failed"] * 3
    done = console.post(f"{address}/apply", count=" 3 ")

    assert done.status_code == 303
    assert statuses(session) == ["queued"] * 3


def test_it_is_stopped_for_good(console: Console, session: Session, slowly: None) -> None:
    address, _ids = plan(session, 5)
    console.post(f"{address}/apply")

    assert console.post(f"{address}/stop", reason="enough").status_code == 303

    text = words(console.get(address))
    assert "Stopped: 2 of 5 jobs retried" in text
    assert "By user:local: enough." in text
    assert "Continue" not in text
    assert console.post(f"{address}/apply").status_code == 409
    assert statuses(session) == ["queued"] * 2 + ["failed"] * 3


def test_a_plan_that_nobody_wants_moves_nothing(console: Console, session: Session) -> None:
    address, _ids = plan(session, 2)

    console.post(f"{address}/stop")

    assert "Left as it is: none of 2 jobs retried By user:local." in words(console.get(address))
    assert statuses(session) == ["failed"] * 2


def test_a_canary_is_shown_as_it_happens(console: Console, session: Session) -> None:
    address, ids = plan(session, 8, canary=True)
    assert "The first 5 go ahead" in words(console.get(address))
    console.post(f"{address}/apply")
    for job_id, verb in zip(ids, ("succeed", "succeed", "fail", "retry"), strict=False):
        ends = [outcome(claim_one(session, job_id), verb)]
        transitions.settle(session, ends, actor=HOLDER.name)
    session.commit()

    page = console.get(address)

    text = words(page)
    assert "Trying 5 jobs first, of 8 jobs" in text
    assert "2 of 5 have succeeded, 4 are needed" in text
    rows = dict(re.findall(r'<tr id="trial-(\d+)">(.*?)</tr>', page, re.DOTALL))
    found = [re.search('data-status="([a-z]+)"', rows[str(i)]) for i in ids[:5]]
    assert [match and match[1] for match in found] == [
        "succeeded", "succeeded", "failed", "queued", "queued",
    ]  # fmt: skip
    assert "1/5" in rows[str(ids[3])]
    # Nothing to go on with by hand, but to stop.
    assert "Continue" not in text
    assert 'id="stop"' in page


def test_a_canary_that_did_not_pass_says_so(console: Console, session: Session) -> None:
    address, ids = plan(session, 8, canary=True)
    console.post(f"{address}/apply")
    transitions.cancel(session, ids[:2], actor="user:ana")
    session.commit()
    operations.advance(session, address.rpartition("/")[2], actor="housekeeping:w1")
    session.commit()

    text = words(console.get(address))

    assert "Canary stopped: 0 of 5 succeeded" in text
    assert "4 of the first 5 had to succeed. The rest stays as it was." in text
    for page in (address, "/audit", "/events?event=op_stopped"):
        shown = words(console.get(page))
        assert "anary stopped: 0 of 5 succeeded" in shown, page
        assert "canary_failed" not in shown


def end(session: Session, claim: Claim, verb: str, **fields: Any) -> None:
    transitions.settle(session, [outcome(claim, verb, **fields)], actor=HOLDER.name)
    session.commit()


def test_what_became_of_the_jobs_is_told_and_leads_to_them(
    console: Console, session: Session
) -> None:
    address, ids = plan(session, 7)
    number = address.rpartition("/")[2]
    assert 'id="fates"' not in console.get(address)
    console.post(f"{address}/apply")
    for job, verb in zip(ids, ("succeed", "succeed", "fail"), strict=False):
        end(session, claim_one(session, job), verb)
    end(session, claim_one(session, ids[3]), "retry", delay_s=60)
    running = claim_one(session, ids[4])
    session.commit()

    page = console.get(address)

    said = "They are now: succeeded 2 failed 1 running 1 queued 3 retrying 1"
    assert said in words(page)
    for status, count in (("succeeded", 2), ("queued", 3), ("retrying", 1)):
        link = f"/jobs?status={status}&operation={number}"
        assert f'href="{link.replace("&", "&amp;")}"' in page
        assert len(job_ids(console.get(link))) == count
    # It goes on until none of them is open.
    assert 'hx-trigger="every 5s, refresh"' in page
    transitions.cancel(session, [ids[3], *ids[5:]], actor="user:ana")
    session.execute(sa.delete(Job).where(Job.id == ids[0]))
    end(session, running, "succeed")
    page = console.get(address)
    assert "They are now: succeeded 2 failed 1 cancelled 3 gone 1" in words(page)
    assert 'hx-trigger="refresh"' in page


def test_jobs_that_were_only_asked_to_stop_are_not_said_to_be_cancelled(
    console: Console, session: Session
) -> None:
    jobs = [make_job(session, priority=8) for _ in range(3)]
    session.commit()
    running = [claim_one(session, job.id) for job in jobs[:2]]
    session.commit()
    form = {"verb": "cancel", "priority": "8", "reason": "wrong data"}

    both = console.post("/operations", **form).location
    console.post(f"{both}/apply")
    page = words(console.get(both))

    assert "Done: 1 job cancelled, 2 running jobs asked to stop" in page
    assert "ends at its next check" in page
    for claim in running:
        end(session, claim, "succeed")

    for _ in range(2):
        claim_one(session, make_job(session, priority=9).id)
    session.commit()
    only = console.post("/operations", **{**form, "priority": "9"}).location
    console.post(f"{only}/apply")
    shown = console.get(only)

    assert "Done: 2 running jobs asked to stop" in words(shown)
    assert "were asked to stop, which cannot be taken back" in words(shown)
    assert f'action="{only}/undo"' not in shown


def test_an_operation_that_is_none_is_not_there(console: Console) -> None:
    for name in ("0" * 16, "x"):
        assert console.client.get(f"/operations/{name}").status_code == 404
        assert console.post(f"/operations/{name}/apply").status_code == 404
        assert console.post(f"/operations/{name}/stop").status_code == 404


def test_under_a_prefix_the_whole_way_has_it(client: FlaskClient, session: Session) -> None:
    address, _ids = plan(session, 2)
    mounted = {"SCRIPT_NAME": "/ops"}

    page = client.get(address, environ_overrides=mounted).text
    found = re.findall(r'(?:href|src|action|hx-get|hx-post)="(/[^"]*)"', page)
    answers = [
        client.post(f"{address}/{verb}", environ_overrides=mounted) for verb in ("apply", "stop")
    ]

    assert f"/ops{address}/apply" in found
    assert [url for url in found if not url.startswith("/ops/")] == []
    assert {answer.location for answer in answers} == {f"/ops{address}"}


def test_the_plan_of_the_rest_begins_with_the_same_reason(
    console: Console, session: Session
) -> None:
    place, _ = plan(session, 2)
    console.post(f"{place}/stop")

    [again] = re.findall(r'href="(/operations/new[^"]+)">Plan it again', console.get(place))
    asked = console.get(html.unescape(again))

    assert 'name="reason" maxlength="500" value="&lt;it&gt; is back"' in asked
    assert "reason" not in words(asked).partition("as a list")[0]


def test_the_plan_of_the_rest_begins_with_the_same_verb_and_the_jobs_it_moves(
    console: Console, session: Session, slowly: None
) -> None:
    for _ in range(4):
        make_job(session, Status.HELD, priority=8)
    for status in (Status.QUEUED, Status.FAILED):
        make_job(session, status, priority=8)
    session.commit()
    found = operations.survey(session, "unhold", JobFilter(priority=8))
    made = operations.plan(session, found, how={}, actor="user:ana", reason="over")
    session.commit()
    console.post(f"/operations/{made.id}/apply")
    console.post(f"/operations/{made.id}/stop")

    [again] = re.findall(r'href="([^"]+)">Plan the rest', console.get(f"/operations/{made.id}"))
    asked = console.get(html.unescape(again))

    assert "2 jobs match" in words(asked)
    assert re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', asked)[-2:] == [
        ("status", "held"), ("priority", "8"),
    ]  # fmt: skip
    verbs = re.findall(r'<button class="button([^"]*)" name="verb" value="(\S+)"', asked)
    assert verbs[0] == (" button--main", "unhold")
    assert sum(look == " button--main" for look, _ in verbs) == 1


def test_the_rest_of_a_reschedule_is_asked_about_with_the_place_it_had(
    console: Console, session: Session, slowly: None
) -> None:
    for _ in range(4):
        make_job(session, priority=8)
    session.commit()
    asked = {"verb": "reschedule", "priority": "8", "reason": "over", "minutes": "30"}
    asked["spread"] = "20"
    page = console.post("/operations", **asked, to_priority="-5").location
    console.post(f"{page}/apply")
    console.post(f"{page}/stop")

    [again] = re.findall(r'href="([^"]+)">Plan the rest', console.get(page))
    fields = re.findall(
        r'<input name="(\w+)"[^>]* value="([^"]*)"', console.get(html.unescape(again))
    )

    place = [("minutes", "30"), ("to_priority", "-5"), ("spread", "20")]
    assert fields == [("reason", "over"), *place]
