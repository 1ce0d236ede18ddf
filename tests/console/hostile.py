"""Jobs whose every stored text would like to be markup, a script or a template."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Status
from tests.factories import make_job

MARK = "x7"
TEXT = (
    f"<script>{MARK}</script><img src=x onerror={MARK}>\"'><div hx-get='/{MARK}' hx-trigger=load>"
    f"{{{{7*7}}}}{{% raw %}}</textarea></title></pre><svg onload={MARK}> javascript:{MARK}"
    "\u202eyenom\u202c \u2066\u200f\ufeff \x1b[31m\x9b"
)
# Shows nothing, and turns or hides what is beside it.
HIDDEN = "\u202e\u202c\u2066\u200f\ufeff\x1b\x9b"


def make_hostile_jobs(session: Session) -> list[int]:
    """One job of each status; committed."""
    ids = [make_job(session, status).id for status in Status]
    for job_id in ids:
        session.execute(update(Job).where(Job.id == job_id).values(**_columns(job_id)))
    session.execute(update(Job).where(Job.status == "running").values(locked_by=TEXT))
    session.execute(update(JobEvent).values(kind=TEXT, actor=TEXT, reason=TEXT, data=_data()))
    session.add(JobEvent(scope=TEXT, event=TEXT, actor=TEXT))
    session.commit()
    return ids


def _columns(job_id: int) -> dict[str, object]:
    return {
        "payload": {TEXT: [TEXT]},
        "result": {TEXT: [TEXT]},
        "progress": 50,
        "progress_note": TEXT,
        "error_class": TEXT,
        "error_message": TEXT,
        "error_fingerprint": TEXT,
        "producer": TEXT,
        "idempotency_key": f"{TEXT}{job_id}"[:200],
        "request_hash": TEXT,
    }


def _data() -> dict[str, str]:
    return dict.fromkeys(("error_class", "error_message", "traceback", TEXT), TEXT)
