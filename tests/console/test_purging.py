"""Purge in the console: asked first, with a copy offered, done once, told for as long as known."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.console import operations as views
from queueapp.jobs import queries, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.operations import driver
from queueapp.jobs.status import FINAL, Status
from queueapp.jobs.transitions import Age
from tests.console.conftest import DIALOG, Console, stands_beside, words
from tests.factories import HOLDER, claim_one, make_job, outcome

SECRET = {"message": "open sesame"}


def jobs(session: Session, count: int = 1, status: Status = Status.FAILED, **how: Any) -> list[int]:
    ids = [make_job(session, status, **how).id for _ in range(count)]
    session.commit()
    return ids


def rows(session: Session) -> list[int]:
    session.rollback()
    return list(session.scalars(sa.select(Job.id).order_by(Job.id)))


def copies(page: str) -> dict[str, str]:
    """The files that are offered, by their form."""
    offered = re.findall(r'<a href="(/jobs\.(csv|ndjson)\?[^"]*)"', page)
    return {form: html.unescape(address) for address, form in offered}


@pytest.mark.parametrize("status", Status)
def test_the_page_of_a_job_offers_it_where_the_job_is_over(
    console: Console, session: Session, status: Status
) -> None:
    [job] = jobs(session, status=status)

    offered = f'href="/jobs/{job}/purge"' in console.get(f"/jobs/{job}")

    assert offered is (status in FINAL)


def test_the_question_says_what_goes_and_what_stays_and_offers_a_copy(
    console: Console, session: Session
) -> None:
    [job] = jobs(session, payload=SECRET, key="k", request_hash="h")
    jobs(session, payload={"message": "another"})

    page = console.get(f"/jobs/{job}/purge")

    text = words(page)
    for said in (
        f"Purge job {job}?", "There is no undo.", "with payload, result and last error",
        "stays in the ledger for as long as that is kept: each attempt, with its error message and",
        "The idempotency key of it makes a new job from then on.", "Keep a copy first, whole",
    ):  # fmt: skip
        assert said in text, said
    assert re.search(r'<input name="reason"[^>]* required', page)
    found = copies(page)
    [line] = console.client.get(found["ndjson"]).text.splitlines()
    copy = json.loads(line)
    assert (copy["id"], copy["payload"]) == (job, SECRET)
    assert copy["error_message"] == "no such thing"
    head, row = console.client.get(found["csv"]).text.splitlines()
    assert '"payload","result","error_message"' in head
    assert "open sesame" in row
    assert rows(session) == [job, job + 1]


def test_without_scripts_it_leads_to_the_list_and_the_page_tells_of_it(
    console: Console, session: Session
) -> None:
    [job] = jobs(session)
    page = f"/jobs/{job}"
    asked = console.get(f"{page}/purge", Referer=f"http://localhost{page}")
    assert f'action="{page}/purge"' in asked
    assert "hx-post" not in asked

    answer = console.post(f"{page}/purge", next=page, reason=" a <b>secret</b> ")

    assert (answer.status_code, answer.location) == (303, "/jobs?done=purge.1.0.0")
    assert "Purged 1 job." in words(console.get(answer.location or ""))
    assert rows(session) == []
    last = queries.events_of(session, job)[-1]
    assert (last.event, last.actor, last.reason) == ("purged", "user:local", "a <b>secret</b>")
    assert last.data["via"] == "console"
    gone = console.client.get(page)
    assert gone.status_code == 404
    assert "The job was purged" in words(gone.text)
    assert re.search(
        rf"Job {job} was failed when user:local purged it, 20\S+ \S+.* \(a <b>secret</b>\)\.",
        words(gone.text),
    )
    assert "<b>secret" not in gone.text
    assert f'href="/events?job={job}"' in gone.text
    # The second of two clicks is told the same, not that there was never such a job.
    again = console.post(f"{page}/purge", next=page, reason="old")
    assert again.status_code == 404
    assert "user:local purged it" in again.text


def test_a_list_is_led_back_to_with_its_filter(console: Console, session: Session) -> None:
    [job] = jobs(session)

    answer = console.post(f"/jobs/{job}/purge", next="/jobs?status=failed", reason="old")

    assert answer.location == "/jobs?status=failed&done=purge.1.0.0"


def test_with_scripts_a_page_that_is_gone_is_left(console: Console, session: Session) -> None:
    first, second = jobs(session, 2)
    dialog = console.client.get(f"/jobs/{first}/purge", headers=DIALOG).text
    assert f'hx-post="/jobs/{first}/purge"' in dialog

    on_its_page = console.click(f"/jobs/{first}/purge", next=f"/jobs/{first}", reason="old")
    in_a_list = console.click(f"/jobs/{second}/purge", next="/jobs?kind=demo.echo", reason="old")

    assert on_its_page.headers["HX-Redirect"] == "/jobs?done=purge.1.0.0"
    assert "HX-Redirect" not in in_a_list.headers
    assert in_a_list.headers["HX-Trigger"] == "queue:changed"
    assert "Purged 1 job." in words(in_a_list.text)
    assert rows(session) == []


def test_it_wants_a_reason_and_a_job_that_is_over(console: Console, session: Session) -> None:
    [over] = jobs(session)
    [waits] = jobs(session, status=Status.QUEUED)

    again = console.post(f"/jobs/{over}/purge", reason=" ")
    many = console.post("/jobs/bulk", verb="purge", id=[over])
    late = console.post(f"/jobs/{waits}/purge", reason="old")

    for answer in (again, many):
        assert answer.status_code == 422
        assert stands_beside("reason", answer.text).startswith("Say why:")
    assert late.status_code == 409
    assert "only jobs that are over can" in words(console.get(f"/jobs/{waits}/purge"))
    assert rows(session) == [over, waits]


def test_a_job_that_was_retried_after_the_question_stays(
    console: Console, session: Session
) -> None:
    [job] = jobs(session)
    assert f"Purge job {job}?" in words(console.get(f"/jobs/{job}/purge"))
    transitions.requeue(session, [job], actor="user:bob")
    session.commit()

    answer = console.post(f"/jobs/{job}/purge", reason="old")

    assert answer.status_code == 409
    assert f"ob {job} is queued" in words(answer.text)
    assert rows(session) == [job]


def test_a_job_that_failed_anew_after_the_question_stays(
    console: Console, session: Session
) -> None:
    """Nobody has seen its new error."""
    ids = jobs(session, 2)
    one = console.get(f"/jobs/{ids[0]}/purge")
    both = console.get(f"/jobs/bulk?verb=purge&id={ids[0]}&id={ids[1]}")
    seen = [re.findall(r'name="seen" value="([^"]+)"', page) for page in (one, both)]
    assert [len(marks) for marks in seen] == [1, 2]
    transitions.requeue(session, ids[:1], actor="user:bob")
    transitions.settle(session, [outcome(claim_one(session, ids[0]), "fail")], actor=HOLDER.name)
    session.commit()

    late = console.post(f"/jobs/{ids[0]}/purge", reason="old", seen=seen[0])
    ticked = console.post("/jobs/bulk", verb="purge", id=ids, seen=seen[1], reason="old")

    assert late.status_code == 409
    assert "has moved on since you were asked" in words(late.text)
    assert ticked.location == "/jobs?done=purge.1.0.0.1"
    assert rows(session) == ids[:1]


def test_ticked_jobs_go_together_and_all_others_stay(console: Console, session: Session) -> None:
    over, others = jobs(session, 3, payload=SECRET), jobs(session, 1, Status.QUEUED)
    assert 'name="verb" value="purge"' in console.get("/jobs?status=failed")
    assert 'name="verb" value="purge"' not in console.get("/jobs?status=queued")
    ids = [*over[:2], *others]

    page = console.get(f"/jobs/bulk?verb=purge&next=/jobs&{'&'.join(f'id={i}' for i in ids)}")
    copied = console.client.get(copies(page)["ndjson"]).text.splitlines()
    answer = console.post("/jobs/bulk", verb="purge", id=over[:2], left=1, next="/jobs", reason="x")

    assert "Purge 2 jobs?" in words(page)
    assert "status does not allow it: 1" in words(page)
    assert [json.loads(line)["id"] for line in copied] == over[:2]
    assert answer.location == "/jobs?done=purge.2.0.1"
    assert rows(session) == [over[2], *others]


def test_a_job_that_retention_has_removed_says_so_as_well(
    console: Console, session: Session
) -> None:
    [job] = jobs(session, status=Status.SUCCEEDED)
    at_once = Age(timedelta(0), timedelta(0))
    transitions.purge_old(session, Status.SUCCEEDED, at_once, actor="housekeeping:one")
    session.commit()

    gone = console.client.get(f"/jobs/{job}")

    assert gone.status_code == 404
    assert f"Job {job} was succeeded when housekeeping:one purged it, 20" in words(gone.text)
    assert "(retention)." in words(gone.text)


def test_a_job_that_never_was_is_not_said_to_have_been(console: Console) -> None:
    for path in ("/jobs/999999", f"/jobs/{2**63}"):
        answer = console.client.get(path)
        assert answer.status_code == 404
        assert "purged" not in words(answer.text)


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs in a batch, one batch in a request."""
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", 0)


def test_all_that_match_are_planned_and_confirmed_by_the_word(
    console: Console, session: Session, slowly: None
) -> None:
    over, others = jobs(session, 3, payload=SECRET), jobs(session, 1, Status.QUEUED)
    asked = console.get("/operations/new?kind=demo.echo")
    assert "there is no undo" in words(asked)
    assert set(copies(asked)) == {"csv", "ndjson"}

    planned = console.post("/operations", verb="purge", kind="demo.echo", reason="old")
    address = planned.location or ""
    page = console.get(address)

    assert "Purge 3 jobs?" in words(page)
    assert "1 queued: only succeeded or failed or cancelled ones can be purged" in words(page)
    copied = console.client.get(copies(page)["ndjson"]).text.splitlines()
    assert sorted(json.loads(line)["id"] for line in copied) == over
    assert '<input name="word"' in page
    assert 'name="count"' not in page
    for typed in ({}, {"word": "retry"}):
        refused = console.post(f"{address}/apply", **typed)
        assert stands_beside("word", refused.text).startswith("Nothing was done: type purge")
    assert rows(session) == [*over, *others]
    console.post(f"{address}/apply", word=" Purge ")
    assert "Purging 3 jobs: 2 done" in words(console.get(address))
    # Who goes on with it has confirmed it before.
    console.post(f"{address}/apply")
    done = console.get(address)
    assert "Done: 3 jobs purged" in words(done)
    assert "They are now: gone 3" in words(done)
    assert rows(session) == others


def test_no_undo_is_offered_and_what_is_left_of_each_is_found(
    console: Console, session: Session
) -> None:
    [job] = jobs(session)
    planned = console.post("/operations", verb="purge", kind="demo.echo", reason="old")
    address = planned.location or ""
    console.post(f"{address}/apply", word="purge")

    page = console.get(address)

    assert f'action="{address}/undo"' not in page
    assert "There is no undo: its jobs are gone" in words(page)
    assert f'href="/jobs/{job}"' in page
    assert "user:local purged it" in console.client.get(f"/jobs/{job}").text
    refused = console.post(f"{address}/undo", reason="oh no")
    assert refused.status_code == 409
    assert "planned operation purge" in words(console.get("/audit"))
    assert "Purge" in words(console.get("/operations"))


def test_one_that_was_stopped_leaves_the_rest(
    console: Console, session: Session, slowly: None
) -> None:
    over = jobs(session, 3)
    planned = console.post("/operations", verb="purge", status="failed", reason="old")
    address = planned.location or ""
    console.post(f"{address}/apply", word="purge")

    console.post(f"{address}/stop")
    page = console.get(address)

    assert "Stopped: 2 of 3 jobs purged" in words(page)
    assert "Plan the rest" in words(page)
    assert console.post(f"{address}/apply").status_code == 409
    assert rows(session) == over[2:]


def test_a_purge_of_one_is_in_the_trail_and_in_the_log(console: Console, session: Session) -> None:
    job, _other = jobs(session, 2)
    console.post(f"/jobs/{job}/purge", reason="old")

    assert f"purge 1 {job}" in words(console.get("/audit?verb=purge"))
    assert "failed → gone" in words(console.get(f"/events?job={job}"))
    assert f"purged {job} old" in words(console.get("/"))


def test_files_may_be_whole_and_of_jobs_by_their_numbers(
    console: Console, session: Session
) -> None:
    # More than are read at once with their bodies.
    ids = jobs(session, 45, payload=SECRET)

    def read(query: str) -> list[dict[str, Any]]:
        answer = console.client.get(f"/jobs.ndjson?{query}")
        assert answer.status_code == 200
        return [json.loads(line) for line in answer.text.splitlines()]

    asked = "&".join(f"id={one}" for one in [*ids[1:], ids[1], 999_999])
    assert [job["id"] for job in read(asked)] == ids[1:]
    assert "payload" not in read(asked)[0]
    assert {str(job["payload"]) for job in read("status=failed&whole=yes")} == {str(SECRET)}
    assert read("id=999999") == []
    for wrong in ("id=x", "id=0", "whole=yes&colour=red"):
        assert console.client.get(f"/jobs.csv?{wrong}").status_code == 400, wrong
