"""Pausing, resuming, holding and unholding from the console: asked first, done once, told."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, transitions
from queueapp.jobs.control import Controls
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from tests.console.conftest import Console, stands_beside, words
from tests.console.hostile import MARK, TEXT
from tests.factories import make_job
from tests.scenes import ECHO, Scene, ago


def controls(session: Session) -> Controls:
    session.rollback()
    return control.in_force(session)


def seen_in(page: str) -> str:
    """The line that the question showed."""
    [found] = re.findall(r'name="seen" value="(\d+)"', page)
    return str(found)


def answer(console: Console, path: str, **form: object) -> str | None:
    """Open the question and answer it as a browser without scripts does; where that leads."""
    made = console.post(path, seen=seen_in(console.get(path)), next="/jobs?kind=x", **form)
    assert made.status_code == 303, made.text
    return made.location


def test_a_pause_asks_why_and_is_shown_until_somebody_resumes(
    console: Console, session: Session
) -> None:
    scene = Scene(session)
    scene.worker()
    scene.running(5)
    scene.due(100)
    question = words(console.get("/pause"))
    assert "Pause the queue? Within two seconds nothing new starts" in question
    assert "The 1 running job finishes." in question
    assert "1 is due now" in question

    where = answer(console, "/pause", reason=" migration ", minutes="30")

    assert where == "/jobs?kind=x&done=pause"
    assert "The queue is paused: nothing new starts" in words(console.get(where))
    pause = controls(session).pause
    assert pause is not None
    assert (pause.actor, pause.reason) == ("user:local", "migration")
    assert pause.until is not None
    assert timedelta(minutes=29) < pause.until - pause.at < timedelta(minutes=31)

    now = console.get("/")
    assert re.search(r"Paused by user:local \d s ago: “migration” ; it ends by", words(now))
    assert "The queue was paused by user:local" in words(now)
    # The banner leads to the question itself.
    banner = now[now.index('class="verdict__text"') : now.index("verdict__more")]
    assert '<a href="/resume" hx-get="/resume" hx-target="#dialog-body">' in banner
    again = words(console.get("/pause"))
    assert "It is paused already, by user:local" in again

    assert answer(console, "/resume") == "/jobs?kind=x&done=resume"
    assert controls(session).pause is None
    assert "Nothing is paused or on hold." in words(console.get("/"))
    assert "The queue is not paused" in words(console.get("/resume"))


def test_a_kind_is_held_for_a_reason_and_comes_back_spread(
    console: Console, session: Session
) -> None:
    ids = [make_job(session).id for _ in range(3)]
    session.commit()
    question = words(console.get(f"/kinds/{ECHO}/hold"))
    assert f"Hold {ECHO}?" in question
    assert "What waits (3) is moved aside" in question
    assert "Is it spelt right?" not in question
    assert "Is it spelt right?" in words(console.get("/kinds/no.such/hold"))
    near = console.get("/kinds/demo.ecko/hold")
    assert f'Did you mean <a href="/kinds/{ECHO}">' in near

    answer(console, f"/kinds/{ECHO}/hold", reason="provider down")

    hold = controls(session).stop_of(f"kind:{ECHO}")
    assert hold is not None
    assert (hold.reason, hold.until) == ("provider down", None)
    page = console.get(f"/kinds/{ECHO}?refresh=10")
    assert re.search(r"On hold by user:local \d s ago: “provider down”", words(page))
    assert "0 moved aside, 3 still in the line" in words(page)
    assert "No flask work is alive to move them." in words(page)
    transitions.hold(session, ids, held_for="kind", actor="housekeeping:one")
    session.commit()
    assert "All that waited is moved aside" in words(console.get(f"/kinds/{ECHO}"))

    spread = console.get(f"/kinds/{ECHO}/unhold?spread=10")
    assert '<option value="10" selected>spread over 10 minutes' in spread
    assert "3 held jobs come back in batches" in words(spread)
    answer(console, f"/kinds/{ECHO}/unhold", spread="10", reason="")

    lift = controls(session).latest[f"kind:{ECHO}"]
    assert (lift.event, lift.spread_s, lift.reason) == (Event.KIND_UNHELD, 600, None)
    page = words(console.get(f"/kinds/{ECHO}"))
    assert "Its jobs come back in batches, due within 10 min 0 s from then on: 3 to go." in page


def test_who_lifts_a_hold_is_told_what_stays_for_later(console: Console, session: Session) -> None:
    control.hold_kind(session, ECHO, actor="user:ana", reason="provider down")
    for seconds in (60, -240, -300):
        make_job(session, Status.HELD, held_for="kind", available_at=ago(seconds))
    make_job(session, Status.HELD, held_for="job", available_at=ago(-900))
    session.commit()

    question = console.get(f"/kinds/{ECHO}/unhold")

    text = words(question)
    assert "3 held jobs come back in batches" in text
    assert re.search(
        r"2 of them are due later, the last one at [^,]*, in (5 min 0|4 min 59) s", text
    )
    assert 'href="/operations/new?kind=demo.echo&amp;status=scheduled&amp;verb=run-now"' in question
    assert "due later" not in words(console.get("/kinds/demo.sleep/unhold"))
    session.execute(sa.update(Job).values(available_at=ago(5)))
    session.commit()
    assert "due later" not in words(console.get(f"/kinds/{ECHO}/unhold"))


def test_who_lifts_a_hold_is_told_of_a_pause_and_of_what_was_not_moved_aside(
    console: Console, session: Session
) -> None:
    control.hold_kind(session, ECHO, actor="user:ana", reason="provider down")
    control.pause(session, actor="user:bo", reason="migration")
    make_job(session, Status.HELD, held_for="kind")
    for _ in range(2):
        make_job(session)
    session.commit()

    text = words(console.get(f"/kinds/{ECHO}/unhold"))

    assert "2 have not been moved aside: what of them is due starts at once" in text
    assert re.search(r"The queue is paused by user:bo \d s ago: “migration” ?: nothing of it", text)


@pytest.mark.postgresql("a due time that never comes")
def test_what_is_never_due_is_counted_as_later(console: Console, session: Session) -> None:
    control.hold_kind(session, ECHO, actor="user:ana", reason="provider down")
    make_job(session, Status.HELD, held_for="kind")
    session.execute(sa.text("UPDATE jobs SET available_at = 'infinity'"))
    session.commit()

    assert "1 of them is due later, be it" in words(console.get(f"/kinds/{ECHO}/unhold"))


def test_a_reason_typed_before_the_question_stands_in_it(console: Console) -> None:
    for path in (f"/kinds/{ECHO}/hold", "/pause"):
        assert 'name="reason" maxlength="500" value="the &lt;db&gt; is down"' in console.get(
            f"{path}?reason=the+<db>+is+down"
        )
    long = console.get(f"/kinds/{ECHO}/hold?reason={'x' * 600}")
    assert f'value="{"x" * 500}"' in long


def test_what_somebody_has_changed_meanwhile_is_not_done_over(
    console: Console, session: Session
) -> None:
    control.pause(session, actor="user:ana", reason="first")
    session.commit()
    seen = seen_in(console.get("/resume"))
    control.resume(session, actor="user:bo")
    control.pause(session, actor="user:bo", reason="a better one")
    session.commit()

    for verb in ("pause", "resume"):
        refused = console.post(f"/{verb}", reason="x", seen=seen)
        assert refused.status_code == 409
        assert "It was paused by user:bo" in words(refused.text)
        assert "(a better one); nothing was changed" in words(refused.text)
    pause = controls(session).pause
    assert pause is not None
    assert pause.reason == "a better one"


def test_a_second_click_and_a_lift_of_nothing_change_nothing(
    console: Console, session: Session
) -> None:
    control.pause(session, actor="user:ana", reason="x")
    session.commit()
    seen = seen_in(console.get("/resume"))

    first, second = (console.click("/resume", seen=seen) for _ in range(2))

    assert "The queue goes on." in first.text
    assert first.headers["HX-Trigger"] == "queue:changed"
    assert second.status_code == 409
    assert "resumed by user:local" in second.text
    session.rollback()
    lines = sa.select(sa.func.count()).where(JobEvent.event == "queue_resumed")
    assert session.scalar(lines) == 1
    assert console.click("/kinds/demo.echo/unhold", seen="0").status_code == 409


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("/pause", {"reason": "x", "seen": "x"}, 400),
        ("/kinds/demo.echo/stop", {"reason": "x"}, 404),
        ("/kinds/demo.echo/pause", {"reason": "x"}, 404),
        ("/kinds/No/hold", {"reason": "x"}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(
    console: Console, session: Session, path: str, form: dict[str, str], status: int
) -> None:
    assert console.post(path, **{"seen": "0", **form}).status_code == status
    assert controls(session).latest == {}


@pytest.mark.parametrize(
    ("path", "form", "field"),
    [
        ("/pause", {"reason": " ", "minutes": "30"}, "reason"),
        (f"/kinds/{ECHO}/hold", {"minutes": "60"}, "reason"),
        ("/pause", {"reason": "<b>x", "minutes": "-1"}, "minutes"),
        ("/pause", {"reason": "<b>x", "minutes": "999999"}, "minutes"),
        ("/kinds/demo.sleep/unhold", {"reason": "<b>x", "spread": "1.5"}, "spread"),
        ("/kinds/demo.sleep/unhold?spread=10", {"reason": "<b>x", "spread": "9.9"}, "spread"),
    ],
)
def test_a_form_that_is_filled_in_wrong_comes_back_as_it_was(
    console: Console, session: Session, path: str, form: dict[str, str], field: str
) -> None:
    control.hold_kind(session, "demo.sleep", actor="user:ana", reason="x")
    session.commit()
    before = controls(session)

    page = console.post(path, seen="0", next="/jobs?kind=x", **form)
    dialog = console.click(path, seen="0", next="/jobs?kind=x", **form)

    for answer in (page, dialog):
        assert answer.status_code == 422
        assert stands_beside(field, answer.text)
        assert 'name="next" value="/jobs?kind=x"' in answer.text
        kept = form.get("reason", "").replace("<b>", "&lt;b&gt;")
        assert f'name="reason" maxlength="500" value="{kept}"' in answer.text
        if field == "reason":
            assert f'<option value="{form["minutes"]}" selected>' in answer.text
    assert page.text.startswith("<!doctype html>")
    assert dialog.text.startswith('<div hx-swap-oob="innerHTML:#dialog-body">')
    assert dialog.headers["Queue-Form"] == "again"
    assert 'hx-swap="none"' in dialog.text
    assert controls(session) == before


def test_held_jobs_say_why_they_are_held(console: Console, session: Session) -> None:
    by_kind, alone = make_job(session, Status.HELD), make_job(session, kind="demo.sleep")
    transitions.unhold(session, [by_kind.id], actor="user:ana")
    transitions.hold(session, [by_kind.id], held_for="kind", actor="housekeeping:one")
    transitions.hold(session, [alone.id], actor="user:bo", reason="a suspect")
    control.hold_kind(session, ECHO, actor="user:ana", reason="<b>provider down")
    session.commit()

    listed = console.get("/jobs?status=held")

    text = words(listed)
    assert re.search(rf"{ECHO} on hold by user:ana \d s ago: “<b>provider down”", text)
    assert f'href="/kinds/{ECHO}"' in listed
    assert "with its kind" in text
    assert "by itself" in text
    assert "on hold by" not in words(console.get("/jobs?status=held&kind=demo.sleep"))
    assert 'id="holds"' not in console.get("/jobs")
    job = console.get(f"/jobs/{by_kind.id}")
    assert f'<a href="/kinds/{ECHO}">To the kind</a>' in job


def test_what_people_wrote_stays_text_beside_pauses_and_holds(
    console: Console, session: Session
) -> None:
    make_job(session)
    control.pause(session, actor=f"user:{TEXT}", reason=TEXT)
    control.hold_kind(session, ECHO, actor=f"user:{TEXT}", reason=TEXT)
    session.commit()

    for path in ("/", "/kinds", f"/kinds/{ECHO}", "/resume", f"/kinds/{ECHO}/unhold",
                 "/pause", "/jobs?status=held"):  # fmt: skip
        page = console.get(path)
        assert MARK in words(page), path
        for raw in (f"<script>{MARK}", "<img src=x", "<div hx-get='", "<svg onload"):
            assert raw not in page, path


def test_a_kind_that_nothing_knows_is_told_so_when_it_is_held(
    console: Console, session: Session
) -> None:
    answer(console, "/kinds/demo.ecko/hold", reason="provider down")

    page = console.get("/kinds/demo.ecko")

    assert "On hold by user:local" in words(page)
    assert "Nothing is known of a kind “demo.ecko”" in words(page)
    assert "it is not on hold" not in words(page)
    assert f'Did you mean <a href="/kinds/{ECHO}">' in page
    make_job(session, kind="demo.ecko")
    session.commit()
    assert "Nothing is known" not in words(console.get("/kinds/demo.ecko"))


def test_a_kind_that_a_worker_runs_is_known(console: Console, session: Session) -> None:
    Scene(session).worker(kinds=["shop.mail"])

    for path in ("/kinds/shop.mail", "/kinds/shop.mail/hold"):
        assert "Nothing is known" not in words(console.get(path))
