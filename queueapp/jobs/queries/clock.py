"""The database's clock, and whether anything has happened since somebody last looked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run

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


def database_now(database: Database) -> datetime:
    """The database's clock, by which everything is due."""
    now: datetime = run(database, "SELECT clock_timestamp() AS now")[0].now
    return now
