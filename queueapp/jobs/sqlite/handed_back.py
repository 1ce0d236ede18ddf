"""Jobs that workers hand back, sought one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.backoff import UNKNOWN_KIND_CAP_S
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made
from queueapp.jobs.sqlite.values import clock
from queueapp.jobs.status import Event, Reason
from queueapp.jobs.verdict import handed_back

_PUT_OFF = f"""
SELECT id, kind, handbacks, available_at FROM jobs
WHERE status = 'queued' AND handbacks > 0 ORDER BY handbacks DESC, id LIMIT {handed_back.MOST}
"""
_HISTORY = f"""
SELECT event, reason, created_at FROM job_events WHERE job_id = :id
ORDER BY id DESC LIMIT {handed_back.LINES}
"""


@instead_of(handed_back.HANDED_BACK)
def _handed_back(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    upto, known = clock() + timedelta(seconds=UNKNOWN_KIND_CAP_S), set(given["known"])
    jobs = [
        job for job in fetch(connection, _PUT_OFF)
        if job.kind not in known and job.available_at <= upto
    ]  # fmt: skip
    found = []
    for job in jobs[: handed_back.CANDIDATES]:
        since = None
        for line in fetch(connection, _HISTORY, id=job.id):
            if line.event in (Event.REQUEUED, Event.RETRY_SCHEDULED):
                break
            if line.event == Event.DEFERRED and line.reason == Reason.UNKNOWN_KIND:
                since = line.created_at
        if since:
            found.append((job.id, job.kind, job.handbacks, since))
    return made(("id", "kind", "handbacks", "since"), sorted(found, key=lambda one: one[3]))
