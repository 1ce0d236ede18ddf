"""The pages of kinds: what stands where, what the last hour brought, and what is not known."""

from __future__ import annotations

import html
import re
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp import handlers
from queueapp.console import inventory
from queueapp.console.filters import visible
from queueapp.handlers import registry
from queueapp.jobs import control, kinds, queries, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL, Console, words
from tests.console.hostile import TEXT
from tests.factories import make_job
from tests.scenes import ECHO, Scene


def row_of(page: str, kind: str) -> str:
    [found] = re.findall(rf'<tr id="kind-{re.escape(kind)}".*?</tr>', page, re.DOTALL)
    return words(str(found))


def test_every_kind_that_is_known_or_has_jobs_is_listed_those_on_hold_first(
    console: Console, session: Session
) -> None:
    for status in Status:
        make_job(session, status)
    make_job(session, kind="shop.unknown")
    session.execute(sa.update(Job).values(held_for="kind").where(Job.status == "held"))
    control.hold_kind(session, "zoo.feed", actor="user:ana", reason="rain")
    session.commit()

    page = console.get("/kinds")

    listed = re.findall(r'<tr id="kind-([^"]+)"', page)
    assert listed[0] == "zoo.feed"
    assert set(listed) == {"zoo.feed", "shop.unknown", *(one.kind for one in handlers.kinds())}
    assert listed[1:] == sorted(listed[1:])
    zoo = row_of(page, "zoo.feed")
    assert re.search(r"zoo.feed on hold by user:ana \d s ago: “rain” 0 0 0 0", zoo)
    # No worker has counted anything, so nothing is said of what moved.
    assert row_of(page, ECHO).startswith(f"{ECHO} 1 1 1 1 – – – – –")
    assert "no handler here" in row_of(page, "shop.unknown")
    assert "no handler here" not in row_of(page, ECHO)
    assert 'href="/jobs?status=queued&amp;kind=demo.echo"' in page
    assert "No minute of the last hour has been counted" in words(page)
    assert 'href="/api/kinds"' in page


def test_what_the_list_has_no_room_for_is_counted_and_found_by_a_part_of_its_name(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.console.kinds.KINDS_SHOWN", 3)
    make_job(session, kind="zz.last.of.all")
    session.commit()
    number = len({handler.kind for handler in handlers.kinds()}) + 1

    page = words(console.get("/kinds"))

    assert f"3 of {number} kinds, those on hold first" in page
    assert f"and {number - 3} kinds more: filter by a part of the name" in page
    answer = console.client.get("/go?q=ST.OF")
    assert (answer.status_code, answer.location) == (302, "/kinds/zz.last.of.all")


def test_who_answers_for_a_kind_and_where_it_is_described_stand_on_its_page(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    where = "https://wiki.example/?a=1&b='\"><script>alert(1)</script>"
    handlers.handler("mail.send", owner="<b>'\"mail", docs=where)(lambda: None)

    page, listed = console.get("/kinds/mail.send"), console.get("/kinds")

    [link] = re.findall(r'<a href="(https:[^"]*)" rel="noopener noreferrer">', page)
    assert html.unescape(link) == where
    assert f"owner <b>'\"mail described at {where}" in words(page)
    assert "<b>'" not in page + listed
    assert "<script>alert" not in page
    assert row_of(listed, "mail.send").startswith("mail.send <b>'\"mail 0 0 0 0")
    assert "described at" not in words(console.get("/kinds/demo.echo"))


def test_the_last_hour_is_told_from_the_minutes_statistics(
    console: Console, session: Session
) -> None:
    scene = Scene(session)
    scene.worker()
    told: dict[str, Any] = {"enqueued": 9, "claimed": 8, "succeeded": 6, "retry_scheduled": 1,
                            "failed": 1}  # fmt: skip
    scene.minutes(2, wait={"3": 5, "12": 3}, run={"0": 7, "10": 1}, **told)
    # Two hours ago: not of this hour.
    scene.minutes(1, upto=7_300, succeeded=1_000)

    page = console.get("/kinds")
    one = words(console.get(f"/kinds/{ECHO}"))

    assert f"{ECHO} 0 0 0 0 18 14 25 % ≤ 8 ms / ≤ 4.10 s ≤ 1 ms / ≤ 1.02 s" in row_of(page, ECHO)
    # Nothing was counted of it, which is not the same as not counted.
    assert row_of(page, "demo.fail").startswith("demo.fail 0 0 0 0 0 0 – – –")
    assert "in 18 created" in one
    assert "out 14 12 succeeded, 2 failed, 0 cancelled" in one
    assert "25 % 4 of 16, retries included" in one
    assert "w1:1:aa" in one
    assert "as the workers counted it" in one
    assert "not counted" not in words(page) + one


def test_an_hour_that_nobody_counts_on_says_so(console: Console, session: Session) -> None:
    Scene(session).minutes(5, succeeded=6, upto=200)

    for path in ("/kinds", f"/kinds/{ECHO}"):
        assert "counted it; what came after that is not counted" in words(console.get(path))


def test_the_hour_is_summed_up_once_a_minute(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    real = kinds.last_hour

    def last_hour(database: Session, now: datetime) -> kinds.Hour:
        asked.append(now)
        return real(database, now)

    monkeypatch.setattr(kinds, "last_hour", last_hour)
    app = console.client.application
    monkeypatch.setattr(inventory, "life_s", lambda _: 2.0)
    monkeypatch.setitem(app.extensions, "queue_kinds", None)
    inventory.init_app(app)
    for _ in range(4):
        console.get("/kinds")

    # The minute may end meanwhile.
    assert len(asked) in (1, 2)


def test_counts_stop_at_a_bound_and_say_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "SCAN_LIMIT", 2)
    monkeypatch.setattr(kinds, "COUNT_LIMIT", 2)
    monkeypatch.setattr(kinds, "FAILED_LIMIT", 2)
    monkeypatch.setattr(kinds, "LEAST_COUNTED", 2)
    for module in ("kinds", "filters"):
        monkeypatch.setattr(f"queueapp.console.{module}.COUNT_LIMIT", 2)
    ids = [make_job(session).id for _ in range(4)]
    transitions.hold(
        session, [make_job(session).id for _ in range(4)], held_for="kind", actor="housekeeping:a"
    )
    make_job(session, kind="demo.fail", priority=-1)
    for _ in range(4):
        make_job(session, Status.FAILED)
    session.commit()

    page = console.get("/kinds")

    assert len(ids) == 4
    assert row_of(page, ECHO).startswith(f"{ECHO} 2+ 0 2+ 2+")
    # Not among those looked at: it may have some.
    assert row_of(page, "demo.fail").startswith("demo.fail 0+ 0 0 0")


def kinds_on(page: str) -> list[str]:
    return re.findall(r'<tr id="kind-([^"]+)"', page)


@pytest.fixture
def many(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """More kinds than a page shows."""
    monkeypatch.setattr("queueapp.console.kinds.KINDS_SHOWN", 5)
    monkeypatch.setattr("queueapp.console.kinds.KINDS_AT_A_GLANCE", 5)
    names = [f"zz.kind{n}" for n in range(8)]
    for name in names:
        make_job(session, kind=name)
    session.commit()
    return names


def test_more_kinds_than_are_shown_are_told_at_the_head_and_found_by_a_part_of_the_name(
    console: Console, many: list[str]
) -> None:
    known = len(handlers.kinds()) + len(many)

    all_of_them = console.get("/kinds")
    some = console.get("/kinds?name=+ZZ.kind7+")
    several = console.get("/kinds?name=zz.")
    none = console.get("/kinds?name=%3Cb%3E")

    assert f"5 of {known} kinds, those on hold first. No minute" in words(all_of_them)
    assert len(kinds_on(all_of_them)) == 5
    assert f"and {known - 5} kinds more: filter by a part of the name" in words(all_of_them)
    # It works without scripts.
    assert '<form id="filter" class="filter" method="get" action="/kinds"' in all_of_them
    assert kinds_on(some) == ["zz.kind7"]
    assert f"1 of {known} kinds has “ZZ.kind7” in the name" in words(some)
    assert kinds_on(several) == many[:5]
    assert f"8 of {known} kinds have “zz.” in the name, 5 of them here" in words(several)
    assert f"None of {known} kinds has “<b>” in its name. All kinds" in words(none)
    assert 'name="name" value="&lt;b&gt;"' in none


def test_a_part_of_a_name_that_is_given_twice_matches_nothing(
    console: Console, many: list[str]
) -> None:
    page = console.get("/kinds?name=zz&name=demo")

    assert "Only one name can be asked for, not “zz” and “demo”." in words(page)
    assert kinds_on(page) == []


def test_the_filter_of_kinds_comes_with_many_kinds_and_moves_on_in_the_history(
    console: Console, session: Session
) -> None:
    asked = {**PANEL, "HX-Source": "form#filter"}

    assert 'id="filter"' not in console.get("/kinds")
    answer = console.client.get("/kinds?name=+demo+", headers=asked)

    assert answer.headers["HX-Push-Url"] == "/kinds?name=demo"
    assert kinds_on(answer.text) == [one for one in sorted(
        kind.kind for kind in handlers.kinds()) if "demo" in one]  # fmt: skip


def test_kinds_that_no_look_can_name_all_of_are_at_least_so_many(
    console: Console, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "MOST_KINDS", 3)

    known = len(handlers.kinds()) + 3
    assert f"5 of at least {known} kinds, those on hold first." in words(console.get("/kinds"))


@pytest.mark.postgresql("statement_timeout")
def test_what_cannot_be_read_is_a_dash_with_its_reason(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, Status.RUNNING)
    session.commit()
    monkeypatch.setattr(kinds, "_FAILED", "SELECT pg_sleep(1), %(bound)s, %(most)s")

    real = queries.bound_reads
    monkeypatch.setattr(queries, "bound_reads", lambda session: real(session, seconds=0.4))
    every, one = console.get("/kinds"), console.get(f"/kinds/{ECHO}")

    assert "– the query took longer than 2 s" in words(every)
    assert row_of(every, ECHO).startswith(f"{ECHO} 0 1 0 –")
    assert "– the query took longer than 2 s" in words(one)
    assert "held 0 failed –" in words(one)


def test_a_page_of_a_kind_says_what_is_registered_and_who_runs_it(
    console: Console, session: Session
) -> None:
    page = console.get("/kinds/http.request")
    text = words(page)

    assert "Send an HTTP request: deliver a webhook." in text
    assert "attempts 12 of a job that names none" in text
    assert "run by no live worker" in text
    for address in ("/api/kinds/http.request", "/jobs?kind=http.request",
                    "/errors?kind=http.request", "/events?kind=http.request"):  # fmt: skip
        assert f'href="{address}"' in page
    unknown = console.get("/kinds/no.such")
    assert "no handler in this process is registered for it" in words(unknown)
    assert "/api/kinds/no.such" not in unknown
    assert "Nothing is known of a kind “no.such”" in words(unknown)
    assert "Hold it before its first job" in words(unknown)
    assert "did you mean" not in words(unknown)
    near = console.get("/kinds/http.reqest")
    assert '<a href="/kinds/http.request">' in near[near.index("Did you mean") :]
    make_job(session, Status.SUCCEEDED, kind="no.such")
    session.commit()
    assert "Nothing is known of a kind" not in words(console.get("/kinds/no.such"))
    for path in ("/kinds/No", "/kinds/%3Cb%3E", f"/kinds/{'a' * 101}"):
        assert console.client.get(path).status_code == 404


def test_odd_names_in_the_tables_make_no_links(console: Console, session: Session) -> None:
    running = make_job(session, Status.RUNNING)
    session.execute(sa.update(Job).where(Job.id == running.id).values(kind=TEXT))
    session.commit()

    page = console.get("/kinds")

    assert " ".join(visible(TEXT).split()) in words(page)
    assert "<img src=x" not in page
    assert "/kinds/%3C" not in page


def test_an_unchanged_page_of_kinds_is_not_sent_again(console: Console, session: Session) -> None:
    make_job(session)
    session.commit()

    assert console.unchanged("/kinds").status_code == 304
    answer = console.unchanged(f"/kinds/{ECHO}")
    control.hold_kind(session, ECHO, actor="user:ana", reason="x")
    session.commit()
    assert console.panel(f"/kinds/{ECHO}", answer.headers["HX-PTag"]).status_code == 200
