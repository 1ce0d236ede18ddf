"""Rows that no verb would have written: the worker goes past them, and past what it cannot run."""

from __future__ import annotations

import pytest

from tests.live.journey import Journey
from tests.live.processes import until

# What each row is made to be, and how its job ends; None: it stays in the line.
ODD = {
    "due before all time": ("available_at = '-infinity', created_at = '-infinity'", "succeeded"),
    "due before Christ": ("available_at = '0044-03-15 BC'", "succeeded"),
    "due in the first year": ("available_at = '0001-01-01'", "succeeded"),
    "created tomorrow": ("created_at = now() + interval '1 day'", "succeeded"),
    "never due": ("available_at = 'infinity'", None),
    "due after all calendars": ("available_at = '12000-01-01'", None),
    "an unknown kind": ("kind = 'nobody.knows'", None),
    "control characters": ("progress_note = E'\\x1b[31m', error_message = E'\\x07'", "succeeded"),
    "a payload of five megabytes": (
        "payload = jsonb_build_object('ms', 1, 'more', repeat('x', 5000000))", "failed",
    ),
    "a payload of null": ("payload = 'null'", "failed"),
    "a payload of text": ("""payload = '"text"'""", "failed"),
    "a payload of one number": ("payload = '1'", "failed"),
    "a number that no float has": (
        "payload = CAST('{\"ms\": 1' || repeat('0', 5000) || '}' AS jsonb)", "failed",
    ),
    "an empty producer": ("producer = ''", "succeeded"),
    "a cause of its own": ("error_class = '', error_fingerprint = 'zz'", "succeeded"),
}  # fmt: skip


@pytest.mark.postgresql("rows written past the verbs")
@pytest.mark.timeout(120)
def test_a_worker_goes_on_past_odd_rows(journey: Journey) -> None:
    plain = journey.enqueue("journey.tick", count=4, max_attempts=1)
    odd = {name: journey.enqueue_one("journey.tick", max_attempts=1) for name in ODD}
    for name, (change, _) in ODD.items():
        journey.rows(f"UPDATE jobs SET {change} WHERE id = {odd[name]} RETURNING id")
    # Nor does it need what the ledger has of them.
    journey.rows(
        "DELETE FROM job_events WHERE job_id = ANY(%(ids)s) RETURNING id", ids=[*odd.values()]
    )
    plain += journey.enqueue("journey.tick", count=4, max_attempts=1)

    worker = journey.work("--concurrency", "2")
    wanted = {odd[name]: end or "queued" for name, (_, end) in ODD.items()}
    wanted |= dict.fromkeys(plain, "succeeded")
    # By status alone: of these rows no program reads all.
    statuses = "SELECT id, status FROM jobs"
    ended = sum(end != "queued" for end in wanted.values())
    over = "SELECT count(*) FROM jobs WHERE status IN ('succeeded', 'failed')"
    until(lambda: journey.one(over) == ended, "all that can end has ended")

    assert {row.id: row.status for row in journey.rows(statuses)} == wanted
    starts = journey.ledger.starts_by_job()
    assert {starts[job] for job in plain} == {1}
    assert worker.is_running
    assert "Traceback" not in worker.said()
    # What it goes on with afterwards.
    journey.wait_for_status(journey.enqueue_one("journey.tick"), "succeeded")
    # The ledger cannot lead to rows that were written past it.
    journey.stood = True
