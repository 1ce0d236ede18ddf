"""A hundred thousand jobs moved through the console while workers run jobs of the same filter."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import pytest

from queueapp.auth.tokens import entry_of
from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.page import Page, page

MANY = 100_000
# Workers that are at it all the time and would be for minutes more.
JOB_MS = 20

LINES = """
SELECT job_id, event, from_status FROM job_events
WHERE job_id IS NOT NULL AND data->>'operation' = %(operation)s
"""
BATCHES = """
SELECT coalesce(max(jsonb_array_length(data->'jobs')), 0) AS largest,
  coalesce(sum(jsonb_array_length(data->'jobs')), 0) AS named
FROM job_events WHERE job_id IS NULL AND scope = 'op:' || %(operation)s AND data ? 'jobs'
"""
NOW = "SELECT id, status FROM jobs WHERE kind = 'journey.tick' AND priority = 0"


@dataclass
class Person:
    """Somebody at a browser without scripts: presses buttons, and notes how long each takes."""

    web: Web
    role: str
    took: list[float] = field(default_factory=list)

    def ask(self, method: str, path: str, form: dict[str, Any] | None = None) -> Page:
        began = time.monotonic()
        answer = page(self.web, method, path, form, token=f"{self.role}-secret")
        self.took.append(time.monotonic() - began)
        return answer

    def shown(self, path: str) -> str:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.text
        return answer.text

    def plan(self, path: str, **form: str) -> str:
        """Plan, and go on until all are counted; the address of the operation."""
        answer = self.ask("POST", path, {"reason": "the wrong customer", **form})
        assert answer.status == 303, answer.text
        while "Go on counting" in self.shown(answer.location):
            assert self.ask("POST", f"{answer.location}/count", {}).status == 303
        return answer.location

    def apply(self, address: str, **form: str) -> None:
        answer = self.ask("POST", f"{address}/apply", form)
        assert answer.status == 303, answer.text

    def told(self, address: str) -> Any:
        """What the API says of it."""
        headers = {"Authorization": f"Bearer {self.role}-secret"}
        return self.web.ask("GET", f"/api{address}", **headers).body

    def drive(self, address: str, *, until_moved: int = 2 * MANY) -> None:
        """Begin with the number typed, then press Continue again and again."""
        typed = re.search(r'Type the number of jobs, <b class="mono">(\d+)<', self.shown(address))
        self.apply(address, **({"count": typed[1]} if typed else {}))
        while (told := self.told(address))["state"] == "applying" and told["moved"] < until_moved:
            self.apply(address)


def words(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def number_of(address: str) -> str:
    return address.rpartition("/")[2]


def moved_by(journey: Journey, address: str) -> set[tuple[int, str]]:
    """The jobs that the ledger says it has moved, and from which status; each once."""
    lines = journey.rows(LINES, operation=number_of(address))
    found = {(line.job_id, line.from_status) for line in lines}
    assert len({job for job, _ in found}) == len(lines), "no job was moved twice"
    return found


def check_counts(journey: Journey, person: Person, address: str) -> set[tuple[int, str]]:
    """The page's numbers add up, and are those of the ledger; the jobs."""
    told, moved = person.told(address), moved_by(journey, address)
    [batches] = journey.rows(BATCHES, operation=number_of(address))
    assert told["moved"] == len(moved) == batches.named
    assert batches.largest <= 500
    if told["state"] == "done":
        assert told["moved"] + told["skipped"] == told["planned"]["count"]
    return moved


def timed(what: str, person: Person, do: Callable[[], Any]) -> Any:
    """Do it; how long it took is written to the report."""
    first, began = len(person.took), time.monotonic()
    done = do()
    each = person.took[first:]
    line = f"{what}: {time.monotonic() - began:.1f} s, {len(each)} requests, {max(each):.2f} s the"
    sys.stdout.write(f"{line} longest\n")
    return done


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.postgresql("several worker processes")
def test_a_hundred_thousand_are_cancelled_and_put_back_while_workers_run_them(
    journey: Journey,
) -> None:
    roles = ("operator", "admin")
    tokens = " ".join(entry_of(f"{role}-secret", f"the-{role}", role) for role in roles)
    for _ in range(MANY // 5_000):
        journey.enqueue("journey.tick", {"ms": JOB_MS}, count=5_000)
    web = journey.web(threads=4, QUEUE_TOKENS=tokens)
    workers = journey.workers(2, "--concurrency", "4")
    journey.wait_for_more_starts(100)
    admin, operator = Person(web, "admin"), Person(web, "operator")

    # An operator may plan it, and is told who may confirm it; nothing moves.
    wanted = {"verb": "cancel", "kind": "journey.tick"}
    first: str = timed("plan", operator, lambda: operator.plan("/operations", **wanted))
    shown = words(operator.shown(first))
    assert "An admin has to confirm this: an operator may move 10,000 jobs at once." in shown
    total = operator.told(first)["planned"]["count"]
    assert 0.9 * MANY < total <= MANY
    refused = operator.ask("POST", f"{first}/apply", {"count": str(total)})
    assert refused.status == 403
    assert f"it is for {total:,} jobs, and an operator may move 10,000" in words(refused.text)
    # Nor does it begin without its number.
    assert admin.ask("POST", f"{first}/apply", {"count": str(total - 1)}).status == 422
    assert moved_by(journey, first) == set()

    # Stopped in the middle by somebody who could not have begun it: nothing moves any more.
    timed("apply, first half", admin, lambda: admin.drive(first, until_moved=total // 2))
    assert operator.ask("POST", f"{first}/stop", {"reason": "lunch"}).status == 303
    stopped = check_counts(journey, admin, first)
    ran = len(journey.ledger.starts())
    assert total // 2 <= len(stopped) < total
    journey.wait_for_more_starts(ran + 200)
    refused = admin.ask("POST", f"{first}/apply", {})
    assert (refused.status, "was stopped by" in refused.text) == (409, True)
    assert moved_by(journey, first) == stopped

    # What is left is planned again from its page. The web process dies half way: another goes on.
    again = re.search(r'href="(/operations/new\?[^"]+)">Plan the rest', admin.shown(first))
    assert again, "the page of a stopped operation leads to a plan for the rest"
    assert "kind=journey.tick" in again[1]
    rest: str = timed("plan the rest", admin, lambda: admin.plan("/operations", **wanted))
    timed("apply", admin, lambda: admin.drive(rest, until_moved=10_000))
    web.process.kill()
    admin.web = operator.web = journey.web(threads=4, QUEUE_TOKENS=tokens)
    assert "Continue" in admin.shown(rest)
    timed("apply, the rest", admin, lambda: admin.drive(rest))
    assert admin.told(rest)["state"] == "done"
    cancelled = stopped | check_counts(journey, admin, rest)
    assert len(cancelled) == len({job for job, _ in cancelled}), "not in both"

    # What was cancelled while it waited has never run. What ran has run once.
    never = {job for job, status in cancelled if status == "queued"}
    starts = journey.ledger.starts_by_job()
    assert never.isdisjoint(starts)
    assert set(starts.values()) == {1}

    # All of it is put back, beside the same workers; a stop that was heard is not.
    for address in (first, rest):
        back: str = timed(
            "plan the undo",
            admin,
            lambda at=address: admin.plan(f"{at}/undo"),  # type: ignore[misc]
        )
        planned = admin.told(back)
        others = sum(one["count"] for one in planned["others"].values())
        assert planned["planned"]["count"] + others == admin.told(address)["moved"]
        timed("undo", admin, lambda at=back: admin.drive(at))  # type: ignore[misc]
        assert admin.told(back)["state"] == "done"
        put_back = {job for job, _ in check_counts(journey, admin, back)}
        assert put_back == never & {job for job, _ in moved_by(journey, address)}
    ran = len(journey.ledger.starts())
    journey.wait_for_more_starts(ran + 200)
    for worker in workers:
        assert worker.stop() == 0, worker.said()

    # Nothing is lost: each waits, or has run once.
    now = {row.id: row.status for row in journey.rows(NOW)}
    starts = journey.ledger.starts_by_job()
    assert len(now) == MANY
    assert set(starts.values()) == {1}
    assert {job for job, status in now.items() if status == "queued"} == now.keys() - starts.keys()
    assert set(now.values()) <= {"queued", "succeeded", "cancelled"}
    assert never & {job for job, status in now.items() if status == "cancelled"} == set()
    stand(journey, every_claim_started=False)
