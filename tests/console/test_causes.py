"""The pages of causes: what they say, and what their buttons plan."""

from __future__ import annotations

import html
import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.console import errors
from queueapp.jobs import control, operations, queries, transitions
from queueapp.jobs.failure import described
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import Operation
from queueapp.jobs.queries import failures
from queueapp.jobs.status import Event, Status
from tests.console.conftest import Console, job_ids, stands_beside, words
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.scenes import Scene, ago

TRACE = """Traceback (most recent call last):
  File "/srv/lib/python3.11/site-packages/http/client.py", line 7, in call
    go()
  File "/srv/shop/mail.py", line 12, in send
    render(<template>)
"""


def fail(session: Session, message: str = "no account 1", verb: str = "fail", **fields: Any) -> str:
    """Have a job fail; the fingerprint. Not committed."""
    job = make_job(session, **fields)
    failure = described("KeyError", message)
    data = {"traceback": TRACE}
    ends = [outcome(claim_one(session, job.id), verb, failure=failure, data=data)]
    transitions.settle(session, ends, actor=HOLDER.name)
    return failure.fingerprint


def planned(session: Session, location: str | None) -> Operation:
    match = re.fullmatch("/operations/([0-9a-f]{16})", location or "")
    assert match
    session.rollback()
    return operations.find(session, match[1])


def test_an_empty_page_of_causes_teaches(console: Console) -> None:
    assert "No job has failed" in words(console.get("/errors"))


def test_causes_are_listed_with_what_the_window_was(
    console: Console, session: Session, monkeypatch: Any
) -> None:
    monkeypatch.setattr(failures.failure_window, "__kwdefaults__", {"limit": 3})
    fail(session, "no <account> 7", kind="demo.sleep", payload={"seconds": 1})
    common = fail(session, "no <account> 8")
    fail(session, "no <account> 9")
    rare = fail(session, "another")
    fail(session, "no <account> 1", verb="retry", max_attempts=4)
    session.commit()

    page = console.get("/errors")

    text = words(page)
    assert "The newest 3 failures, back to" in text
    assert [*re.findall(r'href="/errors/([0-9a-f]{16})"', page)] == [common, rare]
    assert "e.g. no <account> 9" in text
    assert 'title="no &lt;account&gt; ?"' in page
    row = words(page[page.index(f'id="cause-{common}"') : page.index(f'id="cause-{rare}"')])
    assert "2 of 3 67 %" in row
    assert "1 3 attempts left" in row
    # Older failures are there, none of them of the rare cause.
    assert page.count('class="new"') == 1
    assert page.index('class="new"') > page.index(f'id="cause-{rare}"')


def test_the_list_is_narrowed_to_causes_that_have_hit_a_kind(
    console: Console, session: Session
) -> None:
    both = {fail(session, "no account 1", kind=kind) for kind in ("demo.fail", "demo.echo")}
    fail(session, "another")
    session.commit()

    page = console.get("/errors?kind=demo.fail")

    assert set(re.findall(r'href="/errors/([0-9a-f]{16})"', page)) == both
    assert 'value="demo.fail"' in page
    assert console.client.get("/errors?kind=").location == "/errors"
    assert "has hit the kind <no>" in words(console.get("/errors?kind=<no>"))


def test_a_cause_that_is_only_retried_says_since_when(
    console: Console, session: Session, monkeypatch: Any
) -> None:
    """In a storm nothing has failed for good, and all of it is there to be seen."""
    [fingerprint] = {fail(session, f"no account {n}", verb="retry") for n in range(3)}
    session.commit()
    for n, seconds in enumerate((7_300, 4_000, 300), 1):
        lines = sa.select(JobEvent.job_id).distinct().order_by(JobEvent.job_id).offset(n - 1)
        moved = sa.update(JobEvent).where(JobEvent.job_id == lines.limit(1).scalar_subquery())
        session.execute(moved.values(created_at=ago(seconds)))
    session.commit()

    text = words(console.get(f"/errors/{fingerprint}"))

    assert "failed for good 0 each is tried again so far waiting to run again 3" in text
    assert "first seen 2 h 1 min ago, of the jobs that have it now last seen 5 min 0 s ago" in text

    monkeypatch.setattr(failures, "TOLD", 2)
    text = words(console.get(f"/errors/{fingerprint}"))
    assert "of 1 that wait it is not looked up last seen 1 h 6 min ago, or later" in text


def test_each_cause_is_told_by_a_message_as_it_stands_on_a_job(
    console: Console, session: Session
) -> None:
    """Blanked, these messages say nothing: all there is of them varies."""
    all_value = fail(session, "'region'")
    fail(session, "10.0.0.7 answered 503", verb="retry")
    fail(session, "the disk is full")
    fail(session, "<img src=x hx-get=/boom> 'x'\nsecond line " + "x" * 400)
    session.commit()

    page = console.get("/errors")

    text = words(page)
    for told in ("e.g. 'region'", "e.g. 10.0.0.7 answered 503", "KeyError the disk is full"):
        assert told in text, told
    assert "e.g. <img src=x hx-get=/boom> 'x' demo.echo" in text
    assert "<img src=x" not in page
    assert "KeyError e.g. 'region' failed for good" in words(console.get(f"/errors/{all_value}"))
    assert "second line" not in text


def test_on_the_first_page_errors_of_one_class_are_told_apart(
    console: Console, session: Session
) -> None:
    causes = {
        fail(session, text, verb=verb)
        for text, verb in (("the <disk> is full", "fail"), ("7 of 9\nmore", "retry"))
    }
    waits = sa.update(Job).where(Job.status == "queued")
    session.execute(waits.values(available_at=ago(-3_600)))
    session.commit()

    page = console.get("/")

    rows = [
        words(row)
        for one in causes
        for row in re.findall(rf'<tr id="group-{one}"[^>]*>.*?</tr>', page, re.DOTALL)
    ]
    # The second says when it failed last, though each of its jobs is tried again.
    assert {re.sub(r"\b[0-9a-f]{6} ", "", row) for row in rows} == {
        "KeyError the <disk> is full demo.echo 1 0 0 s",
        "KeyError 7 of 9 demo.echo 0 1 0 s",
    }
    session.execute(sa.update(JobEvent).values(created_at=ago(3 * 86_400)))
    session.commit()
    assert "7 of 9 demo.echo 0 1 –" in words(console.get("/"))


def test_in_the_list_it_says_so_of_the_first_that_wait(
    console: Console, session: Session, monkeypatch: Any
) -> None:
    [fingerprint] = {fail(session, f"no account {n}", verb="retry") for n in range(3)}
    session.commit()
    lines = sa.select(JobEvent.job_id).distinct().order_by(JobEvent.job_id)
    for job_id, seconds in zip(session.scalars(lines).all(), (4_000, 7_300, 300), strict=True):
        moved = sa.update(JobEvent).where(JobEvent.job_id == job_id)
        session.execute(moved.values(created_at=ago(seconds)))
    session.commit()

    def row(page: str) -> str:
        return words(page[page.index(f'id="cause-{fingerprint}"') : page.index("</tbody>")])

    assert row(console.get("/errors")).endswith("3 4 attempts left 2 h 1 min 5 min 0 s")

    for where in (errors, failures):
        monkeypatch.setattr(where, "SHOWN_IDS", 2)
    page = console.get("/errors")
    assert row(page).endswith("3 4 attempts left 2 h 1 min or longer 1 h 6 min or less")
    assert "they are looked up for the first 2 that wait" in words(page)
    session.execute(sa.update(JobEvent).values(created_at=ago(3 * 86_400)))
    session.commit()
    assert row(console.get("/errors")).endswith("3 4 attempts left – –")


def test_a_cause_is_new_since_the_deploy_that_brought_it(
    console: Console, session: Session
) -> None:
    old = fail(session, "old")
    for worker, release in (("a", "v1"), ("b", "v2")):
        control.record(
            session, Event.WORKER_SEEN, scope=f"worker:{worker}", actor=f"worker:{worker}",
            data={"release": release},
        )  # fmt: skip
    new = fail(session, "new")
    session.commit()

    assert "new since v2" not in words(console.get(f"/errors/{old}"))
    assert "new since v2" in words(console.get(f"/errors/{new}"))


def test_the_page_of_a_cause_shows_a_sample_and_where_payloads_differ(
    console: Console, session: Session
) -> None:
    payloads = [{"message": f"<b>{number}</b>", "lang": "de"} for number in range(3)]
    [fingerprint] = {fail(session, f"no account {n}", payload=p) for n, p in enumerate(payloads)}
    fail(session, "no account 9", verb="retry", kind="demo.fail")
    session.commit()

    page = console.get(f"/errors/{fingerprint}")

    # The reason that most have is there already.
    assert 'name="reason" maxlength="500" value="KeyError: no account ?" required' in page
    text = words(page)
    for wanted in (
        "KeyError", "no account ?", "100 % of the newest 3 failures", "Retry all 3 failed",
        "Cancel the 1 waiting", '"<b>0</b>"', '"<b>2</b>"', "not there",
        "send /srv/shop/mail.py:12", "render(<template>)", "The whole traceback",
    ):  # fmt: skip
        assert wanted in text, wanted
    frames = page[page.index('class="frames"') : page.index("</ol>")]
    assert "client.py" not in frames
    assert "<b>0" not in page
    # With three failed jobs there is no rest that could wait for five.
    assert "Retry 5 first" not in text
    assert f"/api/jobs?status=failed&amp;fingerprint={fingerprint}" in page


def test_a_cause_without_jobs_says_what_became_of_them(console: Console) -> None:
    text = words(console.get("/errors/0123456789abcdef"))

    assert "No job has this error now" in text
    assert console.client.get("/errors/nonsense").status_code == 404


def test_the_banner_leads_to_a_cause_with_its_verbs_whatever_is_scheduled(
    console: Console, session: Session
) -> None:
    scene = Scene(session)
    scene.worker()
    scene.minutes(retry_scheduled=60, succeeded=30, kind="demo.echo")
    new = transitions.NewJob(kind="a.b", payload={}, priority=9, delay_s=86_400)
    transitions.enqueue(session, [new] * 2_100, producer="app", actor="app", via="python")
    fingerprint = fail(session, verb="retry", kind="demo.echo")
    session.commit()

    assert f'href="/errors/{fingerprint}"' in console.get("/")
    assert f'id="cause-{fingerprint}"' in console.get("/errors")
    text = words(console.get(f"/errors/{fingerprint}"))
    assert "Hold demo.echo" in text
    assert "Cancel the 1+ waiting" in text


def test_where_more_wait_than_were_looked_at_the_page_says_so_and_offers_its_verbs(
    console: Console, session: Session, monkeypatch: Any
) -> None:
    """A cause that stands too far back in line is none that is over."""
    monkeypatch.setattr(queries.waiting_line, "__kwdefaults__", {"limit": 1})
    for _ in range(2):
        make_job(session)
    session.commit()

    text = words(console.get("/errors/0123456789abcdef"))

    assert "No job looked at has this error now" in text
    assert "more wait than were looked at, so there may be some" in text
    assert "Cancel the waiting, if any" in text
    form = {"verb": "cancel", "reason": "it is over"}
    made = planned(session, console.post("/errors/0123456789abcdef", **form).location)
    assert (made.verb, made.counts.total) == ("cancel", 0)


def test_an_unchanged_page_of_causes_is_not_sent_again(console: Console, session: Session) -> None:
    fingerprint = fail(session)
    session.commit()

    assert console.unchanged("/errors").status_code == 304
    assert console.unchanged(f"/errors/{fingerprint}").status_code == 304


def test_each_button_plans_for_its_part_of_the_cause(console: Console, session: Session) -> None:
    [fingerprint] = {fail(session, f"no account {number}") for number in range(7)}
    fail(session, "no account 7", verb="retry")
    held = fail(session, "no account 8", verb="retry")
    fail(session, "another")
    held_id = session.scalars(
        sa.select(sa.func.max(Job.id)).where(Job.error_fingerprint == held)
    ).one()
    transitions.hold(session, [held_id], held_for="kind", actor="user:ana")
    session.commit()

    made = {
        verb: planned(
            session,
            console.post(f"/errors/{fingerprint}", verb=verb, reason="it is back").location,
        )
        for verb in ("retry", "canary", "cancel")
    }

    assert {verb: (one.verb, one.counts.by_status) for verb, one in made.items()} == {
        "retry": ("retry", {"failed": 7}),
        "canary": ("retry", {"failed": 7}),
        "cancel": ("cancel", {"queued": 1, "held": 1}),
    }
    assert {one.state for one in made.values()} == {"planned"}
    assert [one.canary is not None for one in made.values()] == [False, True, False]
    assert {(one.reason, one.planned_by) for one in made.values()} == {("it is back", "user:local")}


def test_what_waits_is_found_in_the_statuses_that_it_waits_in(
    console: Console, session: Session
) -> None:
    [fingerprint] = {fail(session, f"no account {number}", verb="retry") for number in range(3)}
    ids = list(session.scalars(sa.select(Job.id).order_by(Job.id)))

    def linked() -> list[list[int]]:
        """The jobs of the lists that the number and the table lead to."""
        session.commit()
        page = console.get(f"/errors/{fingerprint}")
        links = re.findall(r'href="(/jobs\?status=(?:queued|held)[^"]*)"', page)
        return [sorted(job_ids(console.get(html.unescape(link)))) for link in links]

    assert linked() == [ids] * 2
    transitions.hold(session, ids[:1], held_for="kind", actor="user:ana")
    assert linked() == [ids] * 2
    transitions.hold(session, ids[1:], held_for="kind", actor="user:ana")
    assert linked() == [ids] * 2


def test_a_plan_without_a_reason_or_a_verb_is_refused(console: Console, session: Session) -> None:
    fingerprint = fail(session)
    session.commit()

    for form in ({"verb": "purge", "reason": "x"}, {}):
        assert console.post(f"/errors/{fingerprint}", **form).status_code == 400
    blank = console.post(f"/errors/{fingerprint}", verb="retry", reason=" ")
    assert blank.status_code == 422
    assert stands_beside("reason", blank.text).startswith("Say why")
    assert "every 5s" not in blank.text
    lines = sa.select(sa.func.count()).where(JobEvent.scope.is_not(None))
    assert session.scalar(lines) == 0


def test_the_job_leads_to_its_cause_and_now_to_all(console: Console, session: Session) -> None:
    fingerprint = fail(session)
    job_id = session.scalar(sa.select(Job.id).where(Job.status == Status.FAILED))
    session.commit()

    assert f'href="/errors/{fingerprint}"' in console.get(f"/jobs/{job_id}")
    assert 'href="/errors"' in console.get("/")
