"""The ledger as a feed: every line once, in an order that no late commit can change.

Ids are drawn before their transactions commit, so whoever remembers the highest id misses lines.
The feed is ordered by (xid, id) and ends below the oldest transaction that still runs: whatever it
has shown is final, and nothing can come in behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row

from queueapp.errors import CursorGone
from queueapp.jobs.database import Database, run

# ``xid`` leaves as text, so whatever sorts or compares it says ``e.xid``.
#
# The line at the cursor is read again: it proves that nothing after it is gone, for the oldest go
# first, and that this is the history which the reader knows.
_FEED = """
SELECT xid::text AS xid, id, job_id, kind, scope, event, from_status, to_status, attempt, actor,
  reason, data, created_at
FROM job_events e
WHERE (e.xid, e.id) >= (%(xid)s::text::xid8, %(id)s)
  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.xid, e.id LIMIT %(limit)s"""

_NEWEST = """
SELECT xid::text AS xid, id, created_at FROM job_events e
WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.xid DESC, e.id DESC LIMIT 1"""

# Which database this is. Who may not see what others do gets no age, and no error.
#
# What follows in the transaction reads the index in its order: nothing is known of the newest
# transactions, so left to choose PostgreSQL may sort all that is behind the cursor.
_STATE = """
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
  (SELECT system_identifier::text FROM pg_control_system()) AS system,
  (SELECT extract(epoch FROM clock_timestamp() - min(began))::float8 FROM (
     SELECT xact_start AS began FROM pg_stat_activity
     WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
     UNION ALL SELECT prepared FROM pg_prepared_xacts) writers) AS held_back_s"""

_CURSOR = re.compile(r"([0-9]{1,20})\.([0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})", re.ASCII)
_LARGEST = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FeedCursor:
    """The last line that was read, and of which database; ``id`` 0: the beginning of the ledger.

    ``at``: microseconds since 1970. A history that was restored and goes on anew draws the same
    numbers again, but not at the same instants.
    """

    system: str
    xid: int
    id: int
    at: int

    @classmethod
    def parse(cls, text: str) -> FeedCursor:
        """Read what ``str`` has written; raises ValueError."""
        found = _CURSOR.fullmatch(text)
        if not found or any(int(number) >= _LARGEST for number in found.groups()[1:]):
            raise ValueError("this is no cursor: pass the next of an answer as it is")
        return cls(found[1], int(found[2]), int(found[3]), int(found[4]))

    @classmethod
    def of(cls, system: str, line: Row[Any]) -> FeedCursor:
        """The place right behind ``line``."""
        at = (line.created_at - _EPOCH) // timedelta(microseconds=1)
        return cls(system, int(line.xid), line.id, at)

    def __str__(self) -> str:
        return f"{self.system}.{self.xid}.{self.id}.{self.at}"


@dataclass(frozen=True)
class FeedPage:
    """Lines in the order of the feed.

    ``next``: where to go on, also behind the last line there is. ``more``: there are more already.
    ``held_back_s``: the age of the oldest transaction that writes, behind which lines wait; None
    without one, or where it may not be seen.
    """

    lines: Sequence[Row[Any]]
    next: FeedCursor
    more: bool
    held_back_s: float | None


def read_feed(database: Database, after: FeedCursor | None, *, limit: int = 100) -> FeedPage:
    """The lines behind ``after``; from the oldest that is kept without one. Raises CursorGone."""
    [state] = run(database, _STATE)
    here = after or FeedCursor(state.system, 0, 0, 0)
    if here.system != state.system:
        raise CursorGone("this cursor was given by another database; begin again without one")
    begins = here.id == 0
    rows = run(database, _FEED, xid=str(here.xid), id=here.id, limit=limit + (1 if begins else 2))
    if not begins:
        if not rows or FeedCursor.of(state.system, rows[0]) != here:
            raise CursorGone(
                "the line at this cursor is not in the ledger any more, so lines behind it may be"
                " gone as well: begin again without a cursor"
            )
        rows = rows[1:]
    lines = rows[:limit]
    last = FeedCursor.of(state.system, lines[-1]) if lines else here
    return FeedPage(lines, last, len(rows) > limit, state.held_back_s)


def end_of_feed(database: Database) -> FeedPage:
    """An empty page whose ``next`` is behind all that the feed has now."""
    [state] = run(database, _STATE)
    newest = run(database, _NEWEST)
    beginning = FeedCursor(state.system, 0, 0, 0)
    last = FeedCursor.of(state.system, newest[0]) if newest else beginning
    return FeedPage((), last, more=False, held_back_s=state.held_back_s)
