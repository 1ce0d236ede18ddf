"""The standing checks: what must hold after every journey, whatever happened in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from itertools import pairwise
from typing import Any

from sqlalchemy import Row

from queueapp.jobs import audit
from queueapp.jobs.status import FINAL
from tests.live.journey import Journey
from tests.live.ledger import Line
from tests.live.processes import until

_EVENTS = """
SELECT job_id, kind, event, to_status, attempt, reason, data, created_at,
  (data->>'available_at')::timestamptz AS available_at
FROM job_events WHERE job_id IS NOT NULL ORDER BY job_id, id
"""

_ODD_ROWS = """
SELECT id, status, attempts, max_attempts, locked_by FROM jobs
WHERE attempts > max_attempts
  OR (status = 'running') <> (locked_by IS NOT NULL)
  OR (status = 'running') <> (lease_token IS NOT NULL)
  OR (status = 'running') <> (lease_expires_at IS NOT NULL)
"""

_OVERDUE = """
SELECT count(*) FROM jobs WHERE status = 'running' AND lease_expires_at < clock_timestamp()
"""

# Our own question is not idle and holds no such lock.
_LEFT_OPEN = """
SELECT (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%%')
     + (SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND d.datname = current_database())
"""

# A row's last writer is the transaction that wrote its last event: nobody has touched it since.
_CHANGED_SINCE = """
SELECT j.id FROM jobs j CROSS JOIN LATERAL (
  SELECT e.xmin FROM job_events e
  WHERE e.job_id = j.id AND e.event <> 'stale_write_rejected' ORDER BY e.id DESC LIMIT 1) e
WHERE j.status IN ('succeeded', 'failed', 'cancelled') AND j.xmin::text <> e.xmin::text
  AND j.id <> ALL(%(but)s)
"""

# Of their own: a handler may open as many sessions as it likes.
_OF_WORKERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^queueapp-(work|listen)'
"""


def stand(
    journey: Journey,
    *,
    accepted: Collection[int] = (),
    every_claim_started: bool = True,
    frozen: bool = False,
    true_clocks: bool = True,
    edited: Collection[int] = (),
) -> None:
    """Check all of it. Running jobs of other gates must have ended before.

    ``accepted``: ids that producers were promised. ``every_claim_started`` False: claims may have
    been handed back or lost before their handlers began (shutdown, kill -9, a database that died);
    those that were handed back because they had to wait are known by their reason.
    ``frozen``: a holder was stopped past its lease, so runs of one job may overlap.
    ``true_clocks`` False: the workers' clocks were wrong, so what they wrote is no time.
    ``edited``: jobs whose rows the test itself has changed after their end.
    """
    journey.stood = True
    until(lambda: not journey.one(_OVERDUE), "no lease stays overdue", within=10)
    _canary(journey)
    events = _by_job(journey)
    _promises_are_kept(journey, accepted)
    _rows_are_sound(journey)
    _ledger_leads_to_the_rows(journey)
    _lives_end_once(journey, events)
    _starts_are_claims(journey, events, exactly=every_claim_started)
    _starts_are_due(journey, events, compared=true_clocks)
    if not frozen:
        _runs_do_not_overlap(journey)
    if journey.engine.dialect.name == "postgresql":
        assert journey.rows(_CHANGED_SINCE, but=list(edited)) == []
        until(lambda: not journey.one(_LEFT_OPEN), "no transaction or advisory lock is left open")
        until(
            lambda: journey.one(_OF_WORKERS) <= _announced(journey),
            "workers have no more connections than they said",
        )


def _announced(journey: Journey) -> int:
    """The connections that the running workers have said they need always; a group says it first.

    Those of a worker that has ended are closed.
    """
    said = (worker.said() for worker in journey.processes.running("work"))
    needs = (re.search(r"database connections: (\d+),", each) for each in said)
    return sum(int(need[1]) for need in needs if need)


def _canary(journey: Journey) -> None:
    """A fresh job is done at once by the workers that are there, if any are."""
    if not journey.processes.running("work"):
        return
    job = journey.enqueue_one("journey.tick", priority=1000)
    journey.wait_for_status(job, "succeeded", within=5)


def _by_job(journey: Journey) -> dict[int, list[Row[Any]]]:
    grouped: dict[int, list[Row[Any]]] = defaultdict(list)
    for event in journey.rows(_EVENTS):
        grouped[event.job_id].append(event)
    return grouped


def _promises_are_kept(journey: Journey, accepted: Collection[int]) -> None:
    there = {row.id for row in journey.rows("SELECT id FROM jobs")}
    assert set(accepted) <= there


def _rows_are_sound(journey: Journey) -> None:
    assert journey.rows(_ODD_ROWS) == []


def _ledger_leads_to_the_rows(journey: Journey) -> None:
    snapshot = {"isolation_level": "REPEATABLE READ"}
    with journey.engine.connect().execution_options(**snapshot) as connection:
        reports = [report for _, report in audit.check(connection)]
    assert reports[-1].offenders == []
    assert reports[-1].truncated == 0


def _lives_end_once(journey: Journey, events: dict[int, list[Row[Any]]]) -> None:
    """One final event a life at most; the last life's is the row's status."""
    for row in journey.rows("SELECT id, status FROM jobs"):
        lives: list[list[str]] = [[]]
        for event in events[row.id]:
            if event.event in ("requeued", "restored"):
                lives.append([])
            elif event.event != "stale_write_rejected" and event.to_status in FINAL:
                lives[-1].append(event.to_status)
        wanted = [row.status] if row.status in FINAL else []
        assert lives[-1] == wanted, f"job {row.id}"
        assert all(len(life) == 1 for life in lives[:-1]), f"job {row.id}"


def _starts_are_claims(
    journey: Journey, events: dict[int, list[Row[Any]]], *, exactly: bool
) -> None:
    starts = journey.ledger.starts_by_job()
    for job, lines in events.items():
        if not lines[0].kind.startswith("journey."):
            continue  # other kinds do not write into the outside ledger
        unused = sum(line.reason == "prefetch_unused" for line in lines)
        claims = sum(line.event == "claimed" for line in lines) - unused
        assert starts[job] <= claims, f"job {job}"
        assert starts[job] == claims or not exactly, f"job {job}"


def _starts_are_due(journey: Journey, events: dict[int, list[Row[Any]]], *, compared: bool) -> None:
    """No claim before its due time, no handler before its claim: one machine, one clock."""
    claims: dict[tuple[int, int], float] = {}
    for job, lines in events.items():
        available = None
        for line in lines:
            available = line.available_at or available
            if line.event == "claimed":
                assert available is not None
                assert line.created_at >= available, f"job {job} was claimed early"
                # Attempts are counted anew in each life; the first one is the earliest.
                claims.setdefault((job, line.attempt), line.created_at.timestamp())
    for start in journey.ledger.starts() if compared else ():
        assert start.at >= claims[start.job, start.attempt], f"job {start.job} began early"


def _runs_do_not_overlap(journey: Journey) -> None:
    """A run that a crash cut off has no end: there only the next start is compared."""
    open_: dict[tuple[int, str], Line] = {}
    runs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for line in sorted(journey.ledger.lines(), key=lambda line: line.mono):
        thread = (line.pid, line.thread)
        if line.what == "start":
            open_[thread] = line
            runs[line.job].append((line.mono, line.mono))
        elif (start := open_.pop(thread)).job == line.job:
            at = runs[line.job].index((start.mono, start.mono))
            runs[line.job][at] = (start.mono, line.mono)
    for job, spans in runs.items():
        for (_, end), (start_again, _) in pairwise(spans):
            assert start_again >= end, f"job {job} ran twice at once"
