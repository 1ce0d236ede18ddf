"""Three in the morning: every incident is ended from its banner, with no more clicks than promised.

One begins at the first page, where the link in a page leads, and goes on from there by what is on
the screen alone. Each activation counts, confirmations included.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa
from playwright.sync_api import Locator, Page, expect
from sqlalchemy.orm import Session

from queueapp.auth import Role, access
from queueapp.auth.principal import LOCAL
from queueapp.commands.demo.incidents import clear, make
from queueapp.commands.demo.incidents.catalogue import INCIDENTS
from queueapp.commands.demo.incidents.lock import workers_wait
from queueapp.commands.demo.incidents.stage import CREW
from queueapp.jobs import control
from queueapp.jobs.models import Job
from tests.browser.screen import refresh

# A long page has fewer places where a keyboard stops.
MOST_TABS = 120

NEXT = "#verdict .verdict__text a:not(.button)"
CONFIRM = "#dialog .button--main"


class Operator:
    """Somebody who was woken. ``clicks``: how often something was activated."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def press(self, where: str) -> None:
        """Activate what stands there; there is one."""
        target = self.page.locator(where)
        expect(target).to_have_count(1)
        self.reach(target)
        self.clicks += 1

    def write(self, where: str, text: str) -> None:
        """Fill in a field; typing is free."""
        target = self.page.locator(where)
        expect(target).to_have_count(1)
        self.enter(target, text)

    def reach(self, target: Locator) -> None:
        """With the mouse."""
        target.click()

    def enter(self, target: Locator, text: str) -> None:
        """Type into it."""
        target.fill(text)


class Typist(Operator):
    """The same by keyboard alone: Tab from where the focus is, then Enter."""

    def reach(self, target: Locator) -> None:
        """Go there place by place."""
        self._tab_to(target)
        assert target.evaluate("one => getComputedStyle(one).outlineStyle") != "none"
        self.page.keyboard.press("Enter")

    def enter(self, target: Locator, text: str) -> None:
        """Go there, and type."""
        self._tab_to(target)
        self.page.keyboard.type(text)

    def _tab_to(self, target: Locator) -> None:
        target.wait_for()
        for _ in range(MOST_TABS):
            if target.evaluate("one => one === document.activeElement"):
                break
            self.page.keyboard.press("Tab")
        expect(target).to_be_focused()


Walk = Callable[[str, Operator], int]


@dataclass(frozen=True)
class Drill:
    """What is pressed, or filled in, one after the other; what is to be read and so at the end.

    ``held``: the kind that is on hold already.
    """

    path: tuple[str | tuple[str, str], ...]
    said: str
    outcome: tuple[str, str, int] | None = None
    held: str = ""


DRILLS = {
    "paused": Drill((NEXT, "#confirm .button--main"), r"The queue goes on"),
    "no-workers": Drill((NEXT,), r"Start one with flask work"),
    "slots-held": Drill(
        ("#verdict [data-verb=cancel]", CONFIRM),
        r"Asked 3 running jobs to stop",
        ("report.build", "running", 3),
    ),
    "locked": Drill((NEXT,), r"pid \d+ \(psql, \w+\) holds it"),
    "poison": Drill(
        (NEXT, "#group-verbs [data-verb=cancel]", "#begin .button--main"),
        r"Done: 212 jobs cancelled",
        ("mail.send", "cancelled", 212),
    ),
    "killer": Drill(
        (NEXT, ".job__verbs [data-verb=cancel]", CONFIRM),
        r"Cancelled 1 job\.",
        ("import.catalogue", "cancelled", 1),
    ),
    "killer, held": Drill(
        (NEXT, ".job__verbs [data-verb=hold]", ("#dialog [name=reason]", "a quarantine"), CONFIRM),
        r"Held 1 job\.",
        ("import.catalogue", "held", 1),
    ),
    "dead-worker": Drill(
        (NEXT, ".job__verbs [data-verb=release]", CONFIRM),
        r"Released 4 jobs\.",
        ("sync.contact", "queued", 4),
    ),
    "retry-storm": Drill(
        (NEXT, "#group-verbs [data-verb=hold]", ("#dialog [name=reason]", "it is down"), CONFIRM),
        r"The kind is on hold",
        ("mail.send", "queued", 240),
    ),
    "retry-storm, over": Drill(
        (NEXT, "#group-verbs [data-verb=unhold]", CONFIRM),
        r"The hold is lifted",
        held="mail.send",
    ),
    "bad-deploy": Drill(
        (NEXT, "#group-verbs [data-verb=retry]", "#begin .button--main"),
        r"Done: 840 jobs retried",
        ("mail.send", "queued", 840),
    ),
    "runaway": Drill(
        (
            NEXT,
            ".ticked__match",
            ("#plan-form [name=reason]", "a loop in the importer"),
            "#plan-form [data-verb=cancel]",
            ("#begin [name=count]", "1200"),
            "#begin .button--main",
        ),
        r"Done: 1,200 jobs cancelled",
        ("sync.contact", "cancelled", 1_200),
    ),
    "runaway, held": Drill(
        (
            NEXT,
            ".ticked__bar [href='/kinds/sync.contact/hold']",
            ("#dialog [name=reason]", "a loop in the importer"),
            CONFIRM,
        ),
        r"The kind is on hold",
        ("sync.contact", "queued", 1_200),
    ),
}


@pytest.fixture
def walk(page: Page, live_server: str, session: Session, database_url: str) -> Walk:
    """Walk a drill from the first page to its end; the number of clicks."""

    def walked(name: str, operator: Operator) -> int:
        drill = DRILLS[name]
        with ExitStack() as stack:
            make(session, _incident(name), jobs=1_200)
            if drill.held:
                control.hold_kind(session, drill.held, actor="user:ana", reason="it is down")
                session.commit()
            if name == "locked":
                stack.enter_context(workers_wait(database_url, CREW))
            page.goto(live_server)
            for step in drill.path:
                operator.press(step) if isinstance(step, str) else operator.write(*step)
            _read(page, drill.said)
        if drill.outcome:
            kind, status, number = drill.outcome
            found = sa.select(sa.func.count()).where(Job.kind == kind, Job.status == status)
            session.rollback()
            assert session.scalar(found) == number
        return operator.clicks

    return walked


def _incident(name: str) -> str:
    return name.partition(",")[0]


def _read(page: Page, said: str) -> None:
    """Wait for it; what a page shows of other sessions comes with a refresh."""
    text = re.compile(said)
    for _ in range(50):
        if text.search(page.inner_text("body")):
            return
        page.wait_for_timeout(50)
    refresh(page)
    expect(page.locator("body")).to_contain_text(text)


# One of each way; the others walk the same pages.
EACH_TIME = ("slots-held", "poison", "runaway")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in EACH_TIME else pytest.mark.slow, id=name)
        for name in DRILLS
    ],
)
def test_a_drill_takes_no_more_clicks_than_promised(name: str, page: Page, walk: Walk) -> None:
    assert walk(name, Operator(page)) <= INCIDENTS[_incident(name)].clicks


def test_a_flood_of_more_than_an_operator_may_move_takes_three_clicks(
    page: Page, walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LOCAL", replace(LOCAL, role=Role.OPERATOR))
    assert walk("runaway, held", Operator(page)) <= 3


@pytest.mark.slow
def test_every_drill_can_be_walked_by_keyboard_alone(
    page: Page, walk: Walk, session: Session
) -> None:
    for name in DRILLS:
        assert walk(name, Typist(page)) <= INCIDENTS[_incident(name)].clicks
        # What a page asks for again may be gone next.
        page.goto("about:blank")
        clear(session)
