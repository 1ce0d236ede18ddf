"""The database's clock, and whether anything has happened since somebody last looked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queueapp.errors import JobNotFound
from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.bounds import LARGEST_ID

# The newest line of the ledger alone would miss a transaction that drew its number earlier and
# commits later: those still open below it are part of the answer. A job that becomes due writes no
# line at all, but then the next due instant changes.
_PULSE = f"""
WITH RECURSIVE {PRIORITIES},
newest AS (SELECT xid, id FROM job_events ORDER BY xid DESC, id DESC LIMIT 1)
SELECT clock_timestamp() AS now,
  (SELECT xid || '.' || id FROM newest) AS newest,
  (SELECT string_agg(open::text, ',') FROM pg_snapshot_xip(pg_current_snapshot()) AS open
   WHERE open < (SELECT xid FROM newest)) AS open,
  (SELECT min(n.available_at) FROM priorities p CROSS JOIN LATERAL (
     SELECT available_at FROM jobs
     WHERE status = 'queued' AND priority = p.priority AND available_at > statement_timestamp()
     ORDER BY available_at LIMIT 1) n) AS next_due_at
"""

# Every write of a row, a renewed lease too, makes a new version of it with another place.
_PULSE_OF_JOB = """
SELECT clock_timestamp() AS now, j.xmin::text || j.ctid::text AS version,
  j.available_at <= statement_timestamp() AS due, j.finished_at IS NULL AS lasts,
  (SELECT max(id) FROM job_events WHERE job_id = %(job_id)s) AS newest
FROM jobs j WHERE j.id = %(job_id)s
"""


@dataclass(frozen=True)
class Pulse:
    """The database's clock, and a mark that changes with every move and with every job come due.

    Progress and renewed leases leave no line in the ledger: whoever shows them adds them.
    """

    now: datetime
    mark: str


def pulse(database: Database) -> Pulse:
    """Take the pulse: a few index probes, whatever the size of the tables."""
    [row] = run(database, _PULSE)
    return Pulse(row.now, f"{row.newest} {row.open} {row.next_due_at}")


def pulse_of_job(database: Database, job_id: int) -> Pulse:
    """The same for one job: its mark changes with every write of the row and every line about it.

    Until the job has ended it changes every five seconds as well: the run grows, and so does what
    waits before it. Raises JobNotFound.
    """
    rows = run(database, _PULSE_OF_JOB, job_id=job_id) if 0 < job_id <= LARGEST_ID else ()
    if not rows:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    row = rows[0]
    lasted = int(row.now.timestamp()) // 5 if row.lasts else None
    return Pulse(row.now, f"{row.version} {row.due} {row.newest} {lasted}")


def database_now(database: Database) -> datetime:
    """The database's clock, by which everything is due."""
    now: datetime = run(database, "SELECT clock_timestamp() AS now")[0].now
    return now
