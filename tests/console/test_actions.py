"""The verbs of one job and of ticked ones: asked first, done once, told, and kept with the why."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console.outcomes import Done
from queueapp.jobs import queries
from queueapp.jobs.models import JobEvent
from queueapp.jobs.status import Status
from tests.console.conftest import DIALOG, Console, stands_beside, words
from tests.factories import make_job


def after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def status_of(session: Session, job_id: int) -> str:
    session.rollback()
    return queries.get_job(session, job_id).status


@pytest.mark.parametrize(
    ("verb", "before", "after", "event"),
    [
        ("retry", Status.FAILED, "queued", "requeued"),
        ("retry", Status.CANCELLED, "queued", "requeued"),
        ("cancel", Status.QUEUED, "cancelled", "cancelled"),
        ("cancel", Status.HELD, "cancelled", "cancelled"),
        ("cancel", Status.RUNNING, "running", "cancel_requested"),
        ("hold", Status.QUEUED, "held", "held"),
        ("unhold", Status.HELD, "queued", "unheld"),
    ],
)
def test_a_verb_without_scripts_leads_back_to_where_it_was_asked_for(
    console: Console, session: Session, verb: str, before: Status, after: str, event: str
) -> None:
    job = make_job(session, before)
    session.commit()
    back = "/jobs?status=failed&kind=demo.echo"

    page = console.get(f"/jobs/{job.id}/{verb}", Referer=f"http://localhost{back}")
    assert f'action="/jobs/{job.id}/{verb}"' in page
    assert f'name="next" value="{back.replace("&", "&amp;")}"' in page
    assert "hx-post" not in page
    answer = console.post(f"/jobs/{job.id}/{verb}", next=back, reason=" order 66 ")

    assert answer.status_code == 303
    assert answer.headers["Location"].startswith(f"{back}&done={verb}.")
    assert status_of(session, job.id) == after
    last = queries.events_of(session, job.id)[-1]
    assert (last.event, last.actor, last.reason) == (event, "user:local", "order 66")
    assert last.data["via"] == "console"


def test_the_page_of_a_job_offers_what_the_job_allows(console: Console, session: Session) -> None:
    offered = {
        make_job(session, Status.QUEUED).id: {"hold", "reschedule", "cancel", "clone"},
        make_job(session, Status.QUEUED, available_at=after(60)).id:
            {"run-now", "hold", "reschedule", "cancel", "clone"},
        make_job(session, Status.HELD).id: {"unhold", "reschedule", "cancel", "clone"},
        make_job(session, Status.RUNNING).id: {"cancel", "clone"},
        make_job(session, Status.FAILED).id: {"retry", "clone", "purge"},
    }  # fmt: skip
    with_kind = make_job(session, Status.HELD, held_for="kind").id
    session.commit()

    for job_id, verbs in offered.items():
        found = re.findall(rf'href="/jobs/{job_id}/([a-z-]+)"', console.get(f"/jobs/{job_id}"))
        assert set(found) == verbs
    # In a list there is room for two, and the ticked ones have what any of them allows.
    listed = console.get("/jobs")
    assert set(re.findall(r'href="/jobs/\d+/([a-z-]+)"', listed)) == {"retry", "cancel"}
    assert re.findall(r'name="verb" value="([a-z-]+)"', listed) == [
        "retry", "cancel", "hold", "unhold", "run-now", "purge"
    ]  # fmt: skip
    # One that is held with its kind comes back with it.
    page = console.get(f"/jobs/{with_kind}")
    assert f'href="/jobs/{with_kind}/unhold"' not in page
    for path in ("", "/unhold"):
        assert 'href="/kinds/demo.echo/unhold"' in console.get(f"/jobs/{with_kind}{path}")
    assert console.post(f"/jobs/{with_kind}/unhold").status_code == 409


def test_a_hold_wants_a_reason_and_says_what_it_does(console: Console, session: Session) -> None:
    first, second = (make_job(session, Status.QUEUED).id for _ in range(2))
    running = make_job(session, Status.RUNNING).id
    session.commit()
    page = words(console.get(f"/jobs/{first}/hold"))
    assert "nothing starts it until somebody unholds it: a quarantine" in page
    assert "One that runs can be cancelled" in words(console.get(f"/jobs/{running}/hold"))

    again = console.post(f"/jobs/{first}/hold", reason=" ", next="/jobs?kind=demo.echo")
    many = console.post("/jobs/bulk", verb="hold", id=[first, second], left=3, next="/jobs")

    for answer in (again, many):
        assert answer.status_code == 422
        assert stands_beside("reason", answer.text).startswith("Say why:")
    assert 'name="next" value="/jobs?kind=demo.echo"' in again.text
    assert 'name="left" value="3"' in many.text
    assert status_of(session, first) == "queued"
    done = console.click("/jobs/bulk", verb="hold", id=[first, second], left=1, reason="odd")
    assert "Held 2 jobs. 1 was left alone" in words(done.text)
    shown = words(console.get(f"/jobs/{first}"))
    assert "odd" in shown
    assert console.post(f"/jobs/{running}/hold", reason="odd").status_code == 409


def test_a_wait_is_skipped_and_the_priority_stays(console: Console, session: Session) -> None:
    job = make_job(session, Status.QUEUED, available_at=after(3600), priority=7)
    session.commit()

    answers = [console.click(f"/jobs/{job.id}/run-now").text for _ in range(2)]

    assert "Made due 1 job." in words(answers[0])
    assert "1 was left alone: due already" in words(answers[1])
    last = queries.events_of(session, job.id)[-1]
    assert (last.event, last.data["priority"]) == ("rescheduled", 7)
    assert 'data-verb="run-now"' not in console.get(f"/jobs/{job.id}")


def test_a_job_is_rescheduled_by_the_clock_of_the_reader(
    console: Console, session: Session
) -> None:
    job = make_job(session, Status.HELD, priority=3)
    session.commit()
    path = f"/jobs/{job.id}/reschedule"
    console.client.set_cookie("zone", "Europe/Berlin")
    page = words(console.get(path))
    assert "so far 3; higher runs first" in page
    assert "by the clock of Europe/Berlin" in page
    assert "It stays held" in page

    answer = console.post(path, due="2030-01-31 09:00", to_priority="-2", next="/jobs")

    assert answer.headers["Location"] == "/jobs?done=reschedule.1.0.0"
    session.rollback()
    found = queries.get_job(session, job.id)
    assert (found.available_at, found.priority, found.status) == (
        datetime(2030, 1, 31, 8, tzinfo=UTC), -2, "held"
    )  # fmt: skip
    again = console.click(path, due="2030-01-31 09:00")
    assert "1 was left alone: that is where it stands already" in words(again.text)
    assert "Rescheduled 1 job." in words(console.click(path, minutes="10").text)


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({}, "due", "Say when it is to be due, or its priority."),
        ({"due": "-2h"}, "due", "is no time: write 2026-11-29 02:30 or"),
        ({"due": "2026-03-29 02:30"}, "due", "never came by the clock of Europe/Berlin"),
        ({"due": "2999-01-01"}, "due", "at most 10 years ahead"),
        ({"due": "2030-01-31 09:00", "minutes": "5"}, "minutes", "either a time or minutes"),
        ({"minutes": "soon"}, "minutes", "whole number"),
        ({"to_priority": "40000"}, "to_priority", "-32768 to 32767"),
    ],
)
def test_a_place_that_is_none_stands_beside_its_field(
    console: Console, session: Session, typed: dict[str, str], field: str, said: str
) -> None:
    job = make_job(session, Status.QUEUED)
    session.commit()
    console.client.set_cookie("zone", "Europe/Berlin")

    answer = console.click(f"/jobs/{job.id}/reschedule", reason="sale", **typed)

    assert answer.status_code == 422
    assert said in stands_beside(field, answer.text)
    for value in ("sale", *typed.values()):
        assert f'value="{value}"' in answer.text
    assert [event.event for event in queries.events_of(session, job.id)] == ["enqueued"]


def test_what_has_moved_on_cannot_be_rescheduled(console: Console, session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()

    assert "only queued and held jobs" in words(console.get(f"/jobs/{job.id}/reschedule"))
    assert console.post(f"/jobs/{job.id}/reschedule", minutes="5").status_code == 409
    assert console.post("/jobs/9999/reschedule", minutes="5").status_code == 404


def test_a_clone_is_asked_about_once_and_found_from_both_pages(
    console: Console, session: Session
) -> None:
    job = make_job(session, Status.SUCCEEDED, payload={"message": "open sesame"})
    session.commit()
    path = f"/jobs/{job.id}/clone"
    assert f'href="{path}"' in console.get(f"/jobs/{job.id}")
    page = console.get(path)
    assert "open sesame" in page
    assert '<input type="hidden" name="seen" value="0">' in page

    answer = console.post(path, seen="0", reason="lost")

    made = int(answer.headers["Location"].rpartition(".")[2])
    assert answer.headers["Location"] == f"/jobs/{made}?done=clone.{made}"
    assert f"Cloned: the new job is {made}." in words(console.get(answer.headers["Location"]))
    assert f"clone of {job.id}" in words(console.get(f"/jobs/{made}"))
    assert f"cloned as {made}" in words(console.get(f"/jobs/{job.id}"))
    assert status_of(session, made) == "queued"
    # The second of two clicks, and a form that says nothing.
    again = console.click(path, seen="0")
    assert again.status_code == 409
    assert f"ob {made} is a clone of it that your question did not show" in words(again.text)
    assert console.post(path).status_code == 400
    assert "It has been cloned before" in words(console.get(path))
    assert console.click(path, seen=str(made)).status_code == 200
    trail = words(console.get("/audit?verb=clone"))
    assert trail.count(f"clone 1 {job.id}") == 2


def test_the_beginning_of_a_long_life_is_looked_up(console: Console, session: Session) -> None:
    job = make_job(session)
    session.commit()
    console.post(f"/jobs/{job.id}/clone", seen="0")
    made = session.scalars(sa.select(JobEvent.job_id).order_by(JobEvent.id.desc())).all()
    [clone] = {one for one in made if one != job.id}
    line = {"job_id": clone, "kind": "demo.echo", "event": "rescheduled", "actor": "user:ana"}
    session.execute(sa.insert(JobEvent), [line] * 205)
    session.commit()

    assert f"clone of {job.id}" in words(console.get(f"/jobs/{clone}"))


def test_what_was_done_is_said_on_the_page_it_leads_back_to(console: Console) -> None:
    assert "Retrying 1 job." in words(console.get("/jobs?done=retry.1.0.0"))
    assert "2 were left alone: status does not allow it" in words(
        console.get("/?done=cancel.1.0.2")
    )
    assert "notice" not in words(console.get("/jobs?done=%3Cb%3Ehello"))


def test_a_verb_in_the_dialog_answers_with_a_notice(console: Console, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    dialog = console.client.get(f"/jobs/{job.id}/retry", headers=DIALOG).text
    assert dialog.startswith('<section id="confirm"')
    assert f'hx-post="/jobs/{job.id}/retry"' in dialog
    answer = console.click(f"/jobs/{job.id}/retry")

    assert answer.status_code == 200
    assert answer.headers["HX-Trigger"] == "queue:changed"
    assert answer.text.startswith('<div hx-swap-oob="innerHTML:#notice">')
    assert "Retrying 1 job." in words(answer.text)


def test_a_verb_that_comes_too_late_is_refused_and_said(console: Console, session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED)
    session.commit()

    page = console.post(f"/jobs/{job.id}/cancel")
    notice = console.click(f"/jobs/{job.id}/retry")

    assert page.status_code == notice.status_code == 409
    assert f"ob {job.id} is succeeded" in words(page.text)
    assert notice.text.startswith("<div hx-swap-oob")


def test_a_double_click_retries_once(console: Console, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    answers = [console.click(f"/jobs/{job.id}/retry").status_code for _ in range(2)]

    assert answers == [200, 409]
    events = [event.event for event in queries.events_of(session, job.id)]
    assert events.count("requeued") == 1


@pytest.mark.postgresql("row locks")
def test_a_job_locked_by_somebody_is_said_to_be_busy(
    console: Console, session: Session, engine: sa.Engine
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    with engine.connect() as rival:
        rival.execute(sa.text("SELECT 1 FROM jobs FOR UPDATE"))

        answer = console.post(f"/jobs/{job.id}/retry")

        rival.rollback()
    assert answer.status_code == 409
    assert "job_busy" in answer.text


def test_ticked_jobs_are_asked_about_and_moved_together(console: Console, session: Session) -> None:
    failed = [make_job(session, Status.FAILED).id for _ in range(2)]
    running = make_job(session, Status.RUNNING).id
    session.commit()
    ids = [*failed, running]

    page = console.get(f"/jobs/bulk?verb=retry&next=/jobs&{'&'.join(f'id={i}' for i in ids)}")
    assert "Retry 2 jobs" in words(page)
    assert "status does not allow it: 1" in words(page)
    asked = [int(found) for found in re.findall(r'name="id" value="(\d+)"', page)]
    assert asked == failed
    answer = console.post("/jobs/bulk", verb="retry", id=ids, next="/jobs")

    assert answer.headers["Location"] == "/jobs?done=retry.2.0.1"
    assert [status_of(session, job_id) for job_id in ids] == ["queued", "queued", "running"]


def test_cancelling_many_tells_the_stopping_ones_apart(console: Console, session: Session) -> None:
    ids = [make_job(session, s).id for s in (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED)]
    session.commit()

    answer = console.click("/jobs/bulk", verb="cancel", id=ids)

    assert "Cancelled 1 job. Asked 1 running job to stop. 1 was left alone" in words(answer.text)


def test_what_a_cancel_does_is_said_of_those_that_run_and_those_that_wait(
    console: Console, session: Session
) -> None:
    """With since when and by whom they run, and what to do where nobody listens."""
    runs = [
        make_job(
            session, Status.RUNNING, locked_by="worker:w1:1:aa", claimed_at=after(-2_600),
            started_at=started,
        )
        for started in (after(-2_520), None)
    ]  # fmt: skip
    wait = make_job(session)
    session.commit()
    never = "A handler that never checks goes on until it returns. Then stop its worker (SIGTERM)"

    def asked(*ids: int) -> str:
        return words(console.get("/jobs/bulk?verb=cancel&" + "&".join(f"id={i}" for i in ids)))

    alone = asked(wait.id)
    assert "Cancel job" in alone
    assert "It never runs." in alone
    assert never not in alone
    together = asked(runs[0].id, runs[1].id)
    assert "They run: they are asked to stop, and end cancelled at their handlers’ next" in together
    assert never in together
    assert "never run." not in together
    assert re.search(r"demo.echo since \S+( \S+)?, for 42 min \d+ s , by w1:1:aa", together)
    assert "demo.echo not begun, by w1:1:aa" in together
    mixed = asked(wait.id, runs[0].id)
    assert "1 job that waits never runs. 1 job that runs is asked to stop, and ends" in mixed

    console.post(f"/jobs/{runs[0].id}/cancel")
    again = words(console.get(f"/jobs/{runs[0].id}/cancel"))
    assert "were asked to stop already, cannot" in again
    assert never in again


def test_the_question_the_button_and_the_notice_count_alike(
    console: Console, session: Session
) -> None:
    queued, done = (make_job(session, s).id for s in (Status.QUEUED, Status.SUCCEEDED))
    session.commit()

    page = console.get(f"/jobs/bulk?verb=cancel&id={queued}&id={done}")
    shown = words(page)
    assert "Cancel 1 job?" in shown
    assert "Cancel 1 job Leave as it is" in shown
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    answer = console.click("/jobs/bulk", **form)

    assert "Cancelled 1 job. 1 was left alone" in words(answer.text)


@pytest.mark.parametrize("left", ["-1", "x", "501", "٣", ""])
def test_a_number_of_jobs_left_alone_that_is_none_is_refused(console: Console, left: str) -> None:
    assert console.post("/jobs/bulk", verb="cancel", id="1", left=left).status_code == 400


def test_nothing_ticked_is_said(console: Console) -> None:
    for verb in ("cancel", "retry"):
        page = console.get(f"/jobs/bulk?verb={verb}&next=/jobs?kind=a")
        shown = words(page)
        assert "No job is ticked" in shown
        assert "0 jobs" not in shown
        assert "They run again" not in shown
        assert '<button class="button button--main"' not in page
        assert '<a class="button" href="/jobs?kind=a" data-close>Back</a>' in page
    answer = console.click("/jobs/bulk", verb="cancel")
    assert "No job was ticked." in words(answer.text)


@pytest.mark.parametrize("path", ["/jobs/1/explode", "/jobs/bulk?verb=explode", "/jobs/bulk"])
def test_an_unknown_verb_is_not_found(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.post(path).status_code == 404


@pytest.mark.parametrize(
    "ids", [["abc"], ["0"], [str(2**63)], [str(number) for number in range(1, 502)]]
)
def test_ids_that_are_none_are_refused(console: Console, ids: list[str]) -> None:
    assert console.post("/jobs/bulk", verb="cancel", id=ids).status_code == 400


@pytest.mark.parametrize(
    "away",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "http://[::1",
        "/jobs\r\nSet-Cookie: a=b",
        "evil",
        "",
    ],
)
def test_an_action_leads_nowhere_but_into_the_console(
    console: Console, session: Session, away: str
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    answer = console.post(f"/jobs/{job.id}/retry", next=away)

    assert answer.headers["Location"] == f"/jobs/{job.id}?done=retry.1.0.0"


@pytest.mark.parametrize("away", ["https://evil.example/jobs", "http://[::1", "about:blank"])
def test_a_referrer_elsewhere_leads_to_the_job(
    console: Console, session: Session, away: str
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    page = console.get(f"/jobs/{job.id}/retry", Referer=away)

    assert f'name="next" value="/jobs/{job.id}"' in page


def test_a_page_of_another_site_cannot_act(client: FlaskClient, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        assert client.post(f"/jobs/{job.id}/retry", headers=headers).status_code == 403
        assert client.post("/jobs/bulk", headers=headers).status_code == 403

    assert status_of(session, job.id) == "failed"


def test_no_get_changes_anything(console: Console, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    console.get(f"/jobs/{job.id}/retry")
    console.get(f"/jobs/bulk?verb=retry&id={job.id}")

    assert status_of(session, job.id) == "failed"


def test_a_reason_with_unprintable_characters_is_made_printable(
    console: Console, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    assert console.post(f"/jobs/{job.id}/retry", reason="a\x00b").status_code == 303

    assert queries.events_of(session, job.id)[-1].reason == "a\\x00b"


@pytest.mark.parametrize(
    "text", ["", "retry", "retry.1", "expire.1.0.0", "retry.1.0.0.0", "retry.٣.0.0"]
)
def test_what_is_no_outcome_says_nothing(text: str) -> None:
    assert Done.read(text) is None


def test_an_outcome_is_read_as_it_was_written() -> None:
    done = Done("cancel", 2, 1, 3)

    assert Done.read(str(done)) == done
