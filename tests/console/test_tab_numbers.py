"""The numbers on the status tabs are of the filter that stands beside them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter, candidates, counting, listing, split_jobs
from queueapp.jobs.status import Status
from tests.console.conftest import Console, job_ids, words
from tests.factories import make_job
from tests.jobs.test_filters import operate

LATER = datetime.now(UTC) + timedelta(hours=1)


def numbers(page: str) -> dict[str, str]:
    """What stands on each tab."""
    return dict(re.findall(r'data-status="(\w+)".*?<small>([^<]*)</small>', page))


def make_some(session: Session) -> None:
    """Jobs of two kinds; each status of ``mail.send`` has another number of them."""
    for status, count in (
        (Status.RUNNING, 1), (Status.HELD, 2), (Status.SUCCEEDED, 3), (Status.FAILED, 4),
        (Status.CANCELLED, 5),
    ):  # fmt: skip
        for _ in range(count):
            make_job(session, status, kind="mail.send", producer="shop")
    make_job(session, kind="mail.send", producer="shop")
    make_job(session, kind="mail.send", producer="shop", available_at=LATER)
    make_job(session, kind="mail.send", producer="shop", available_at=LATER, attempts=1)
    for status in Status:
        make_job(session, status)
    session.commit()


OF_THE_KIND = {
    "queued": "3", "due": "1", "scheduled": "2", "retrying": "1", "running": "1", "held": "2",
    "succeeded": "3", "failed": "4", "cancelled": "5",
}  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "kind=mail.send",
        "producer=shop",
        "kind=mail.send&status=failed",
        "kind=mail.send&status=due",
    ],
)
def test_numbers_are_of_the_filter_whatever_tab_is_open(
    console: Console, session: Session, query: str
) -> None:
    make_some(session)

    page = console.get(f"/jobs?{query}")

    assert numbers(page) == OF_THE_KIND
    assert "Numbers with a +" not in page


@pytest.mark.parametrize(
    "query",
    ["kind=mail.send", "attempts=1", "attempts=%3E%3D1", "worker=test:1:000000", "priority=0",
     "since=-1h", "payload.message=hello", "key=nothing", "fingerprint=nothing",
     "kind=mail.send&producer=app"],
)  # fmt: skip
def test_each_tab_lists_as_many_as_it_says(console: Console, session: Session, query: str) -> None:
    make_some(session)

    said = numbers(console.get(f"/jobs?{query}"))

    found = {name: job_ids(console.get(f"/jobs?{query}&status={name}")) for name in said}
    assert said == {name: str(len(ids)) for name, ids in found.items()}


def test_without_a_filter_they_are_of_all_jobs(console: Console, session: Session) -> None:
    make_some(session)

    assert numbers(console.get("/jobs"))["failed"] == "5"
    assert numbers(console.get("/jobs?status=held"))["failed"] == "5"


def test_a_filter_that_no_job_can_match_has_no_numbers(console: Console, session: Session) -> None:
    make_some(session)

    assert set(numbers(console.get("/jobs?priority=x")).values()) == {"–"}


def test_where_not_all_were_looked_at_they_say_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (counting, listing):
        monkeypatch.setattr(module, "SCAN_LIMIT", 3)
    for status in (Status.FAILED, Status.SUCCEEDED, Status.FAILED, Status.FAILED):
        make_job(session, status, kind="mail.send")
    session.commit()

    page = console.get("/jobs?kind=mail.send")

    assert numbers(page) | {"failed": "2+", "succeeded": "1+", "queued": "–"} == numbers(page)
    assert "Numbers with a + are of the newest" in words(page)


def test_a_tab_says_no_less_than_its_own_list_shows(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of the status leads the list to jobs that are older than those counted."""
    monkeypatch.setattr(counting, "SCAN_LIMIT", 2)
    for status in (Status.FAILED,) * 3 + (Status.HELD,) + (Status.QUEUED,) * 2:
        make_job(session, status, producer="admin")
    make_job(session, producer="admin", available_at=LATER)
    make_job(session), make_job(session)
    session.commit()

    failed = numbers(console.get("/jobs?producer=admin&status=failed"))
    two = numbers(console.get("/jobs?producer=admin&status=failed&status=held"))
    scheduled = numbers(console.get("/jobs?producer=admin&status=scheduled"))

    assert (failed["failed"], failed["held"]) == ("3+", "–")
    assert (two["failed"], two["held"]) == ("3+", "1+")
    assert (scheduled["queued"], scheduled["scheduled"], scheduled["due"]) == ("1+", "1+", "–")


def test_what_failed_alike_is_counted_however_old(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "SCAN_LIMIT", 2)
    failed = [make_job(session, Status.FAILED) for _ in range(3)]
    for _ in range(3):
        make_job(session)
    session.commit()

    split = split_jobs(session, JobFilter(fingerprint=failed[0].error_fingerprint))

    assert (split.of("failed").count, split.of("failed").capped) == (3, False)
    assert (split.of("queued").count, split.of("queued").capped) == (0, True)


def test_more_than_an_index_names_are_at_least_so_many(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "SCAN_LIMIT", 2)
    jobs = [make_job(session, kind="mine") for _ in range(4)]
    session.commit()
    made = operate(session, "cancel", JobFilter(kind="mine"))

    split = split_jobs(session, JobFilter(operation=made.id))

    assert session.get_one(Job, jobs[0].id).status == Status.CANCELLED
    assert split.of("cancelled").capped
    assert 0 < split.of("cancelled").count <= 4
