"""The first page: the verdict first, right numbers, honest about what it does not know."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.console.frame import icon_url
from queueapp.jobs import control, minute_stats, queries, transitions
from queueapp.jobs.queries import depth, priorities
from queueapp.jobs.status import Event, Status
from queueapp.jobs.verdict import Level, statements
from tests.applications import application
from tests.console.conftest import Console, words
from tests.console.hostile import MARK, TEXT
from tests.factories import make_job
from tests.scenes import ECHO, Scene, ago


def icon_of(page: str) -> str:
    """The level that the picture in the tab stands for."""
    [link] = re.findall(r'<link rel="icon" [^>]*>', page)
    shown = re.findall(r' href="([^"]*)"', link)
    return str({v: n for n, v in re.findall(r' data-(\w+)="([^"]*)"', link)}[shown[0]])


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def scene(session: Session) -> Scene:
    return Scene(session)


def test_an_empty_queue_teaches_how_to_make_the_first_job(console: Console) -> None:
    page = console.get("/")

    for command in (
        "flask work",
        "flask jobs enqueue demo.sleep",
        "curl http://localhost/api/jobs",
    ):
        assert command in page
    # Here anybody on this machine may do all.
    assert "Bearer" not in page
    assert "10,000" not in page


def test_what_is_wrong_stands_first_with_its_next_step_and_in_the_title(
    console: Console, scene: Scene
) -> None:
    scene.worker()
    scene.minutes(claimed=100, retries=60, succeeded=79, retry_scheduled=21)
    job = scene.due(200)
    slow = scene.running(150)

    page = console.get("/")

    shown = words(page)
    assert "Stalled Job " + str(job.id) + " (demo.echo) is due for 3 min 20 s" in shown
    assert f"the longest with job {slow.id} (demo.echo)" in shown
    # On the clock, and for how long.
    assert re.search(r"Since (\d\d-\d\d )?\d\d:\d\d:\d\d, for 3 min \d+ s ?\. Next:", shown)
    assert "Next: Look at the longest runs, and cancel what is stuck." in shown
    assert '<a href="/#longest">Look at the longest runs' in page
    assert page.index('id="longest"') < page.index(f'id="longest-{slow.id}"')
    # Where the step leads there is the verb that it names.
    assert f'href="/jobs/{slow.id}/cancel"' in page[page.index(f'id="longest-{slow.id}"') :]
    # What one verb helps against has its button there.
    assert "Cancel 1 run of demo.echo" in shown
    assert f'href="/jobs/bulk?verb=cancel&amp;id={slow.id}"' in page
    # So has each of the others.
    others = words(page[page.index('class="verdict__others"') : page.index("what this means")])
    since = r"\. Since (\d\d-\d\d )?\d\d:\d\d:\d\d, for \d+ min \d+ s ?\. "
    for said in ("Retry storm 60 % of 500 starts in 5 minutes are retries", "Failing 21 % of"):
        assert re.search(rf"{said}.*?{since}", others), others
    assert "<title>● STALLED · Now · development · queue</title>" in page
    assert icon_of(page) == "red"
    assert re.search(r'id="badge" data-level="red" .*?<span>Stalled</span>', page)


def test_the_icon_is_square_in_production_alone(database_url: str) -> None:
    drawn = {}
    for env in ("production", "development"):
        with application(database_url, QUEUE_ENV=env) as app, app.test_request_context():
            drawn[env] = {level: unquote(icon_url(level)) for level in Level}

    for level in Level:
        square, other = (drawn[env][level] for env in ("production", "development"))
        assert square != other
        assert 'rx="3"' in square
        assert square.replace('rx="3"', 'rx="8"') == other


def test_when_all_is_well_the_title_is_plain(console: Console, scene: Scene) -> None:
    scene.worker()
    scene.minutes(succeeded=212, enqueued=100)
    scene.ended(5)

    page = console.get("/")

    assert "<title>Now · development · queue</title>" in page
    assert "Healthy Nothing is due · 212/min ended · 1 worker is alive." in words(page)
    assert icon_of(page) == "green"


def test_the_numbers_of_the_moment_are_those_of_the_queue(
    console: Console, session: Session, scene: Scene
) -> None:
    since = datetime.now(UTC) - timedelta(hours=2)
    oldest = make_job(session, available_at=since, created_at=since)
    for status in Status:
        make_job(session, status)
    make_job(session, available_at=later())
    make_job(session, available_at=later(), attempts=1)
    scene.worker(slots=4)
    scene.minutes(enqueued=30, succeeded=18, failed=2)

    shown = words(console.get("/"))

    assert "oldest due has waited 2 h 0 min job " + str(oldest.id) in shown
    assert "due now 2 2 scheduled , 1 to be retried" in shown
    assert "came and ended per minute 30 / 20 over five minutes" in shown
    assert "attempts that failed, 10 min 10 % of 200 · 1 for good in 1 h" in shown
    assert "workers alive 1 1 running , 4 threads" in shown


def test_before_a_minute_is_counted_nothing_is_called_zero(console: Console, scene: Scene) -> None:
    """The first line of a worker that starts is only where the next one goes on."""
    scene.worker()
    make_job(scene.session)
    minute_stats.write(scene.session, actor="housekeeping:w1")
    scene.session.commit()

    shown = words(console.get("/"))
    kinds = console.get("/kinds")

    assert "came and ended per minute – no minute is counted yet" in shown
    assert "attempts that failed, 10 min – no minute is counted yet" in shown
    assert "No minute has been counted yet." in shown
    row = re.findall(r'<tr id="kind-demo.echo".*?</tr>', kinds, re.DOTALL)[0]
    assert words(row).startswith(f"{ECHO} 1 0 0 0 – – – – –")


def test_a_pace_that_nobody_counts_any_more_is_a_dash_with_the_reason(
    console: Console, scene: Scene
) -> None:
    """Every worker has died; nothing is due, so it is green."""
    scene.worker(since=3600, stopped=130)
    scene.minutes(enqueued=62, succeeded=62, upto=130)
    scene.ended(140)

    shown = words(console.get("/"))

    assert "Nothing is due · no worker is alive." in shown
    for name in ("came and ended per minute", "attempts that failed, 10 min"):
        assert re.search(rf"{name} – not counted since \d\d:\d\d:\d\d", shown), name


def test_a_note_stands_below_the_banner_and_a_share_leads_to_no_empty_list(
    console: Console, scene: Scene
) -> None:
    """Rolled back and retried: nothing is failed any more."""
    scene.worker()
    scene.minutes(failed=70, succeeded=30, upto=70)
    scene.minutes(1, succeeded=90)
    scene.ended(5)

    page = console.get("/")

    assert "Healthy Nothing is due" in words(page)
    assert "Failing is over: 64 % of " in words(page)
    assert '<b class="number__value">64 %</b>' in page
    assert "0 for good in 1 h" in words(page)


def test_the_charts_have_a_table_with_the_same_numbers(console: Console, scene: Scene) -> None:
    scene.minutes(3, succeeded=7, failed=2, retry_scheduled=40, wait={"12": 9})
    make_job(scene.session)
    scene.session.commit()

    page = console.get("/")

    assert words(page).count(" 7 0 40 2 4.10 s") == 3
    assert "Columns are drawn per minute" not in words(page)
    assert page.count("<g data-minute") == 3
    # What fails and is to be tried again is a part of the picture, with a name.
    plot = page.partition("<g data-minute")[2].partition("</svg>")[0]
    assert plot.count('data-look="retrying"') == plot.count('data-look="failed"') == 3
    assert "failed, to be retried 120" in words(page)
    assert "failed for good 6" in words(page)
    assert "95 of 100 waited at most 4.10 s" in words(page)


def test_a_line_that_is_no_minute_long_tells_what_was_counted_and_how_it_is_drawn(
    console: Console, scene: Scene
) -> None:
    scene.minutes(1, upto=40, succeeded=7)
    scene.minutes(1, upto=10, succeeded=7)
    make_job(scene.session)
    scene.session.commit()

    page = console.get("/")

    assert "Columns are drawn per minute" in words(page)
    drawn = re.findall(r": (\d+) succeeded;[^<]*?(; drawn as .*)?</title>", page)
    assert drawn == [("7", ""), ("7", "; drawn as 14 a minute")]
    assert "succeeded 14" in words(page)


def test_what_is_counted_now_and_what_once_a_minute_say_so(console: Console, scene: Scene) -> None:
    """They may differ by what ended since the last line."""
    scene.minutes(2, upto=90, succeeded=5)
    make_job(scene.session)
    scene.session.commit()

    page = console.get("/")

    [last] = re.findall(r'<g data-minute="([0-9:]{8})">', page)[-1:]
    assert f"last hour, counted once a minute, until {last} UTC" in words(page)
    assert "By status all that there are, counted now" in words(page)


def test_errors_are_grouped_by_cause_and_link_to_their_jobs(console: Console, scene: Scene) -> None:
    for n in range(3):
        scene.ended(
            60, Status.FAILED, error_class="KeyError", error_fingerprint="aa", kind=f"a.k{n}"
        )
    make_job(
        scene.session, available_at=later(), attempts=1, error_class="OSError",
        error_fingerprint="bb",
    )  # fmt: skip
    scene.session.commit()

    page = console.get("/")

    assert "KeyError no such thing a.k2 and 2 more 3 0 1 min 0" in words(page)
    assert "OSError demo.echo 0 1 –" in words(page)
    assert "the error aa" not in page
    assert re.search(r'href="(/errors/aa|/jobs\?status=failed&amp;fingerprint=aa)"', page)


def test_the_banner_this_page_and_the_causes_have_one_order(console: Console, scene: Scene) -> None:
    scene.worker()
    scene.minutes(claimed=60, retry_scheduled=40, succeeded=20)
    causes: list[tuple[str, int, dict[str, Any]]] = [
        # A pile of yesterday, failures of this hour, and more that wait to be tried again.
        ("a" * 16, 6, {"status": Status.FAILED, "finished_at": ago(9000)}),
        ("b" * 16, 2, {"status": Status.FAILED, "finished_at": ago(60)}),
        ("c" * 16, 3, {"available_at": later(), "attempts": 1}),
        ("d" * 16, 4, {"status": Status.HELD, "held_for": "kind", "attempts": 1, "kind": "a.b"}),
    ]
    for fingerprint, count, fields in causes:
        for _ in range(count):
            make_job(scene.session, error_fingerprint=fingerprint, error_class="E", **fields)
    scene.session.commit()

    now, listed = console.get("/"), console.get("/errors")
    # What is of one class is told apart.
    assert all(f">{sign * 6}</small>" in now for sign in "abcd")

    order = [letter * 16 for letter in "dcba"]
    assert re.findall(r'<tr id="group-(\w+)"', now) == order
    assert re.findall(r'<tr id="cause-(\w+)"', listed) == order
    # Of the kind that fails the first one.
    of_kind = re.findall(r'<tr id="cause-(\w+)"', console.get(f"/errors?kind={ECHO}"))
    assert f'<a href="/errors/{of_kind[0]}">Look at the first group of errors.' in now


def test_what_people_did_last_says_who_and_why(console: Console, scene: Scene) -> None:
    job = make_job(scene.session)
    control.hold_kind(scene.session, ECHO, actor="user:ana", reason="provider down")
    transitions.cancel(scene.session, [job.id], actor="user:bo", reason="twice")
    scene.session.commit()

    shown = words(console.get("/"))

    assert re.search(r"kind held demo.echo provider down user:ana \d s", shown)
    assert re.search(rf"cancelled {job.id} twice user:bo \d s", shown)
    # Beside the chart as well.
    scene.minutes(2, succeeded=1)
    assert "kind held demo.echo by user:ana" in console.get("/")


def test_nothing_due_is_said_in_words(console: Console, session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.commit()

    shown = words(console.get("/"))

    assert "oldest due has waited nothing no job is due" in shown
    assert "Nothing waits." in shown
    assert "Nothing is running." in shown
    assert "No job has failed in the last day." in shown
    assert "No minute has been counted yet." in shown


def test_counting_stops_at_its_bound_and_says_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth, "COUNT_LIMIT", 2)
    monkeypatch.setattr("queueapp.console.filters.COUNT_LIMIT", 2)
    for _ in range(4):
        make_job(session)
    session.commit()

    assert "due now 2+" in words(console.get("/"))


def test_what_waits_at_lower_priorities_than_were_looked_at_is_not_left_out_silently(
    console: Console, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", 9)
    for priority in range(12):
        make_job(scene.session, priority=priority)
    scene.due(100, priority=-1)

    first, tabs = words(console.get("/")), words(console.get("/jobs"))
    question = words(console.get("/pause"))

    assert "due now 10+ – scheduled , – to be retried" in first
    assert "lower priorities were not looked at" in first
    assert "and at least 2 lower priorities" in first
    assert "line: jobs wait at more than the 9 highest priorities" in first
    assert "queued 13 due 10+ scheduled – retrying –" in tabs
    assert "10+ are due now" in question


@pytest.mark.postgresql("statement_timeout")
@pytest.mark.parametrize(
    ("read", "gone"),
    [
        ("status_counts", "By status"),
        ("depth_by_priority", "oldest due has waited – the query took longer than 2 s"),
        ("failed_since", "– the query took longer than 2 s and was stopped"),
        ("longest_running", "Running longest – the query took longer than 2 s"),
        ("last_actions", "What people did last – the query took longer than 2 s"),
    ],
)
def test_one_read_that_takes_too_long_does_not_take_the_page(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch, read: str, gone: str
) -> None:
    for status in Status:
        make_job(session, status)
    session.commit()

    def slow(session: Session, *_args: Any, **_kwargs: Any) -> None:
        queries.bound_reads(session, seconds=0.01)
        session.execute(sa.text("SELECT pg_sleep(1)"))

    monkeypatch.setattr(queries, read, slow)
    shown = words(console.get("/"))

    assert gone in shown
    # All other parts are there.
    assert 1 <= shown.count("the query took longer than 2 s") <= 5
    assert "Waiting by priority" in shown


@pytest.mark.postgresql("statement_timeout")
def test_a_reading_of_the_verdict_that_fails_is_grey_and_its_part_says_why(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    monkeypatch.setattr("queueapp.jobs.verdict.reading.READING_S", 0.3)
    monkeypatch.setattr(statements, "GROUPS_OF", "SELECT pg_sleep(2)")

    page = console.get("/")

    assert "Unknown Not everything could be read (failures: the query took" in words(page)
    assert 'id="badge" data-level="unknown"' in page
    assert "<title>● UNKNOWN · " in page
    assert "Errors by cause last 24 hours – the query took longer" in words(page)


def test_a_long_kind_and_error_stay_whole_in_their_titles(
    console: Console, session: Session
) -> None:
    kind = "k" * 100
    make_job(session, Status.FAILED, kind=kind, error_class="E" * 200)
    session.commit()

    page = console.get("/")

    assert f'title="{kind}"' in page
    assert f'title="{"E" * 200}"' in page


def test_what_people_wrote_stays_text_in_the_banner_and_beside_it(
    console: Console, scene: Scene
) -> None:
    scene.worker()
    scene.minutes(2, succeeded=1)
    scene.event(Event.QUEUE_PAUSED, "queue", 50, actor=f"user:{TEXT}", reason=TEXT)
    scene.due(100)

    page = console.get("/")

    assert MARK in words(page)
    for raw in (f"<script>{MARK}", "<img src=x", "<div hx-get='", "<svg onload"):
        assert raw not in page
    assert re.search(r'<p class="verdict__cause" hx-ignore>The queue was paused', page)
