"""What a running handler may ask for, also while the worker's threads talk to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.handlers import Defer, Fail, JobContext, Progress, Retry, Stop
from tests.handlers.conftest import make_context


def test_it_knows_which_attempt_it_is() -> None:
    context = make_context(id=12, kind="mail.send", attempt=2, max_attempts=3)
    assert (context.id, context.kind, context.attempt, context.max_attempts) == (
        12, "mail.send", 2, 3,
    )  # fmt: skip
    assert repr(context) == "<JobContext mail.send 12, attempt 2/3>"


def test_only_the_latest_progress_is_kept_and_taken_once(context: JobContext) -> None:
    assert context.take_progress() is None
    context.progress(10)
    context.progress(20.9, "reading")
    assert context.take_progress() == Progress(20, "reading")
    assert context.take_progress() is None


@pytest.mark.parametrize("percent", [-1, 100.1, float("nan"), float("inf"), True])
def test_progress_outside_0_to_100_is_refused(context: JobContext, percent: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        context.progress(percent)
    assert context.take_progress() is None


def test_100_is_only_said_when_it_is_reached(context: JobContext) -> None:
    context.progress(99.99)
    assert context.take_progress() == Progress(99, None)


def test_a_note_is_cut_and_made_fit_to_be_stored(context: JobContext) -> None:
    context.progress(1, "x" * 500)
    assert context.take_progress() == Progress(1, "x" * 200)
    context.progress(2, "a\x00b\ud800" + "\x00" * 300)
    note = context.take_progress().note  # type: ignore[union-attr]
    assert note is not None
    assert note.startswith("a\\x00b\\ud800")
    assert len(note) == 200


def test_nothing_asks_it_to_stop_at_first(context: JobContext) -> None:
    assert not context.should_stop
    assert context.stop_reason is None
    context.raise_if_cancelled()


@pytest.mark.parametrize("reason", ["cancel", "lost", "timeout", "shutdown"])
def test_any_reason_stops_it(context: JobContext, reason: Any) -> None:
    context.interrupt(reason)
    assert context.should_stop
    assert context.stop_reason == reason
    with pytest.raises(Stop) as stop:
        context.raise_if_cancelled()
    assert stop.value.reason == reason


def test_a_stronger_reason_replaces_a_weaker_one_only(context: JobContext) -> None:
    context.interrupt("cancel")
    context.interrupt("shutdown")
    reasons = [context.stop_reason]
    context.interrupt("lost")
    assert [*reasons, context.stop_reason] == ["cancel", "lost"]


def test_wait_sleeps_for_its_time(context: JobContext) -> None:
    begun = time.monotonic()
    context.wait(0.05)
    assert time.monotonic() - begun >= 0.05
    context.wait(-1)


def test_wait_ends_as_soon_as_it_is_asked_to_stop(context: JobContext) -> None:
    timer = threading.Timer(0.05, context.interrupt, ["cancel"])
    timer.start()
    with pytest.raises(Stop):
        context.wait(10**12)
    timer.join()


def test_defer_gives_the_attempt_back_for_a_while(context: JobContext) -> None:
    with pytest.raises(Defer) as later:
        context.defer(timedelta(minutes=2))
    assert later.value.delay_s == 120


def test_the_endings_carry_their_reason() -> None:
    assert Fail("no such customer").reason == "no such customer"
    assert (Retry("busy").reason, Retry("busy").after_s) == ("busy", None)
    assert Retry("busy", after=30).after_s == 30
    assert Retry("busy", after=timedelta(hours=1)).after_s == 3600


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 10**10, timedelta(days=-1)])
def test_a_delay_that_no_row_could_hold_is_refused(delay: Any) -> None:
    with pytest.raises(ValueError, match="10 years"):
        Defer(delay)
    with pytest.raises(ValueError, match="10 years"):
        Retry("busy", after=delay)


def test_the_session_opens_at_first_use_and_stays_the_same(engine: sa.Engine) -> None:
    opened: list[Session] = []

    def open_session(_stop: Callable[[], None]) -> Session:
        opened.append(Session(engine))
        return opened[-1]

    context = make_context(open_session=open_session)
    assert (context.has_session, opened) == (False, [])
    assert context.session.scalar(sa.text("SELECT 1")) == 1
    assert context.session is context.session
    assert (context.has_session, len(opened)) == (True, 1)
    opened[0].close()


def test_progress_from_many_threads_is_whole(context: JobContext) -> None:
    def tell(percent: int) -> None:
        for _ in range(200):
            context.progress(percent, f"at {percent}")

    threads = [threading.Thread(target=tell, args=(percent,)) for percent in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken = context.take_progress()
        assert taken is None or taken.note == f"at {taken.percent}"
    for thread in threads:
        thread.join()
