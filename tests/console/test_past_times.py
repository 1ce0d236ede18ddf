"""A job that was due before it was there: how long it has waited is told alike everywhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.factories import make_job

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def test_every_surface_counts_from_when_the_job_was_there(
    console: Console, session: Session
) -> None:
    job = make_job(session, available_at=LONG_AGO)
    session.commit()

    stats = console.client.get("/api/stats").json or {}
    metrics = console.client.get("/metrics").text
    pages = [words(console.get(path)) for path in ("/", "/jobs", f"/jobs/{job.id}")]

    ages = re.findall(
        r"^queue_(?:priority_)?oldest_due_age_seconds(?:{[^}]*})? (\S+)", metrics, re.M
    )
    assert len(ages) >= 2
    for age in (stats["oldest_due_age_s"], *ages):
        assert 0 <= float(age) < 3600
    assert datetime.fromisoformat(stats["oldest_due_at"]) == job.created_at
    for page in pages:
        assert not re.search(r"(has waited|waiting|waited) \d{4} d", page)
    assert "oldest due has waited" in pages[0]
    why = console.client.get(f"/api/jobs/{job.id}/why").json or {}
    assert why["evidence"].get("waited_s", 0) < 3600


def test_one_that_is_held_with_its_kind_has_waited_since_then_too(
    console: Console, session: Session
) -> None:
    make_job(session, Status.HELD, held_for="kind", available_at=LONG_AGO)
    control.hold_kind(session, "demo.echo", actor="user:bo", reason="provider down")
    session.commit()

    found = console.client.get("/api/verdict").json or {}

    assert found["rule"] == "paused"
    assert re.search(r"has waited \d+\.\d s", found["sentence"])


def test_a_reschedule_to_a_time_that_has_passed_is_due_at_once_and_says_so(
    console: Console, session: Session
) -> None:
    job = make_job(session, delay_s=3600)
    session.commit()
    path = f"/jobs/{job.id}/reschedule"
    assert "a time that has passed is now" in words(console.get(path))

    answer = console.click(path, due="2001-01-01 09:00")

    assert "That time has passed, so due at once: 1 job." in words(answer.text)
    assert "due since" in words(console.get(f"/jobs/{job.id}"))
    assert "2001" not in words(console.get(f"/jobs/{job.id}"))
