"""Wait for a job's end, without a database connection meanwhile."""

from __future__ import annotations

import logging
import time
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from queueapp.api import describe
from queueapp.at_once import at_once
from queueapp.errors import JobNotFound
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.models import Job
from queueapp.jobs.status import FINAL
from queueapp.redaction import for_reader

log = logging.getLogger(__name__)

# The first look comes soon, for jobs of milliseconds; later ones cost the database little.
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
SLOWER = 1.5

# By these names, so that a test can have time pass.
pause, monotonic = time.sleep, time.monotonic


def at_its_end(job: dict[str, Any], wait_s: float) -> dict[str, Any]:
    """The job when it is final, or as it is when the time is up.

    It exists whatever happens from here on, so a database that goes away meanwhile is no failure:
    the job is then told as it was seen last.
    """
    until = monotonic() + wait_s
    pause_s, status = FIRST_PAUSE_S, job["status"]
    try:
        while status not in FINAL and (left := until - monotonic()) > 0:
            pause(min(pause_s, left))
            pause_s = min(pause_s * SLOWER, LONGEST_PAUSE_S)
            status = _status(job["id"])
        return describe.whole_job(queries.get_job(db.session(), job["id"]), for_reader())
    except (SQLAlchemyError, JobNotFound) as error:
        log.warning("job %s is told as it was created: %s", job["id"], type(error).__name__)
        return job


def _status(job_id: int) -> str | None:
    with at_once() as database:
        return database.execute(select(Job.status).where(Job.id == job_id)).scalar()
