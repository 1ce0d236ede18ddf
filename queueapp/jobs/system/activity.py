"""Who keeps dead rows, who blocks us, and how many connections are left."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.attempted import tried
from queueapp.jobs.queries.blocked import BLOCKED, BLOCKED_S
from queueapp.jobs.queries.clock import database_now
from queueapp.jobs.queries.depth import depth_by_priority
from queueapp.jobs.queries.oldest import OLD_S
from queueapp.jobs.system.told import Asked, Said, Table, Tone, columns, literal, tone_of, worst
from queueapp.jobs.why.words import counted, span

# The queue's own transactions last milliseconds.
CAREFUL_S = 60.0
# Of a replication slot, which has no age: transactions that have begun since.
CAREFUL_BEHIND, BAD_BEHIND = 100_000, 10_000_000
BLOCKED_LONG_S = 30.0
# With a job due for so long, a lock is what the queue stands still for.
LINE_WAITS_S = 60.0
CAREFUL_SHARE, BAD_SHARE = 0.8, 0.95
# From half on nobody is notified any more: see ``database.wake_on_commit``.
CAREFUL_FULL, BAD_FULL = 0.1, 0.5
_QUERY_LENGTH = 300
_SHOWN = 8

# Rows of other roles hide their age and query from whoever is no member of pg_read_all_stats; that
# they hold a snapshot, everybody sees. A vacuum holds nothing back; see ``oldest`` too.
HOLDERS = f"""
SELECT h.*, nullif(h.datname, current_database()) AS elsewhere,
  extract(epoch FROM clock_timestamp() - h.began)::float8 AS age_s,
  quote_ident(current_user) AS me
FROM (
  SELECT 'connection' AS what, a.pid::text AS id, a.application_name AS application,
    a.usename::text AS role, a.state, a.xact_start AS began,
    a.datname::text AS datname, greatest(age(a.backend_xmin), age(a.backend_xid)) AS behind,
    CASE WHEN %(sees_queries)s THEN left(a.query, {_QUERY_LENGTH}) END AS query
  FROM pg_stat_activity a
  WHERE a.pid <> pg_backend_pid()
    AND coalesce(a.backend_type, 'client backend') = 'client backend'
    AND (a.backend_xid IS NOT NULL
      OR a.backend_xmin IS NOT NULL AND a.datname = current_database())
  UNION ALL
  SELECT 'prepared', p.gid, NULL, p.owner::text, 'prepared', p.prepared, p.database::text,
    age(p.transaction), NULL
  FROM pg_prepared_xacts p
  UNION ALL
  SELECT 'slot', s.slot_name::text, NULL, NULL, CASE WHEN s.active THEN 'in use' ELSE 'unused' END,
    NULL, NULL, age(s.xmin), NULL
  FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
  UNION ALL
  SELECT 'standby', r.pid::text, r.application_name, r.usename::text, r.state, NULL,
    NULL, age(r.backend_xmin), NULL
  FROM pg_stat_replication r WHERE r.backend_xmin IS NOT NULL
) h ORDER BY h.behind DESC NULLS LAST, h.began LIMIT 50"""

# Of other roles it is hidden what they wait for, though not what they are called.
HIDDEN = """
SELECT count(*) AS number FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.backend_type IS NULL AND a.pid <> pg_backend_pid()
  AND starts_with(a.application_name, 'queueapp-')"""

CONNECTIONS = """
WITH client AS MATERIALIZED (
  SELECT a.datname = current_database() AS is_here, a.usename = session_user AS is_mine,
    a.application_name, a.state
  FROM pg_stat_activity a
  WHERE a.datid IS NOT NULL AND a.usesysid IS NOT NULL
    AND coalesce(a.backend_type, 'client backend') = 'client backend'
)
SELECT (SELECT count(*) FROM client) AS used,
  (SELECT count(*) FROM client WHERE is_here) AS here,
  (SELECT count(*) FROM client WHERE is_mine) AS mine,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int AS most,
  (SELECT nullif(d.datconnlimit, -1) FROM pg_database d
   WHERE d.datname = current_database()) AS most_here,
  (SELECT nullif(r.rolconnlimit, -1) FROM pg_roles r WHERE r.rolname = session_user) AS most_mine,
  (SELECT jsonb_agg(jsonb_build_array(c.name, c.number, c.in_transaction)
     ORDER BY c.number DESC, c.name)
   FROM (SELECT left(split_part(application_name, ' ', 1), 40) AS name, count(*) AS number,
           count(*) FILTER (WHERE state ~ '^idle in transaction') AS in_transaction
         FROM client GROUP BY 1 ORDER BY 2 DESC LIMIT 12) c) AS by_application"""

NOTIFY = """
SELECT pg_notification_queue_usage() AS used, (
  SELECT count(*) FROM pg_stat_activity a WHERE a.datname = current_database()
    AND starts_with(a.application_name, 'queueapp-listen')) AS listeners"""


def snapshot(database: Database, asked: Asked) -> Said:
    """What holds the oldest snapshot, or has written elsewhere: no dead row behind it can go."""
    rows = run(database, HOLDERS, sees_queries=asked.sees_queries)
    if not rows:
        return Said(Tone.OK, "Nothing holds a snapshot: every dead row can be removed.")
    aged = [(tone_of_holder(row), row) for row in rows]
    tone = worst(tone for tone, _ in aged)
    hidden = [row for row in rows if _is_hidden(row)]
    [worst_row, *_] = [row for each, row in aged if each is tone]
    table = Table(
        columns("what", "database", "application", "role", "state", "open for",
                "transactions since", *(["query"] if asked.sees_queries else []),
                numbers=("open for", "transactions since")),
        [_holder_cells(row, asked) for row in rows[:_SHOWN]],
    )  # fmt: skip
    if tone is Tone.UNKNOWN:
        said = f"{counted(len(hidden), 'connection')} of other roles may hold old snapshots"
        return Said(
            tone,
            f"{said}; since when is hidden from {rows[0].me}.",
            "Let it see them:",
            f"GRANT pg_read_all_stats TO {rows[0].me};",
            table,
        )
    if tone is Tone.OK:
        oldest = max((row.age_s or 0.0 for row in rows), default=0.0)
        return Said(tone, f"The oldest snapshot is {span(oldest)} old.", table=table)
    also = f" {counted(len(hidden), 'other')} cannot be judged by {rows[0].me}." if hidden else ""
    return Said(
        tone,
        f"{_who(worst_row)} has held its snapshot {_since(worst_row)}: until it ends the tables"
        f" grow, and claims read more.{also}",
        *_end_of(worst_row),
        table,
    )


def locks(database: Database, asked: Asked) -> Said:
    """Which of our connections wait for a lock, and who holds it."""
    rows = run(database, BLOCKED, sees_queries=asked.sees_queries)
    if not rows:
        return _no_locks(database)
    first, longest_s = rows[0], max(row.waits_s or 0.0 for row in rows)
    waiting = len({(row.application, row.waits_s) for row in rows})
    heads = ("waits", "for", "blocked by", "application", "role", "state", "open for")
    table = Table(
        columns(*heads, *(["query"] if asked.sees_queries else []), numbers=("for", "open for")),
        [
            (row.application, span(row.waits_s or 0.0), f"pid {row.pid}", row.by_application or "",
             row.by_role or "", row.by_state or "hidden", _span(row.by_age_s),
             *([row.query or ""] if asked.sees_queries else []))
            for row in rows[:_SHOWN]
        ],
    )  # fmt: skip
    return Said(
        _tone_of_wait(database, longest_s),
        f"{counted(waiting, 'connection')} of the queue {'waits' if waiting == 1 else 'wait'} for a"
        f" lock, the longest for {span(longest_s)}; {_blocker(first)} holds it.",
        *_end_of_blocker(first),
        table,
    )


def _tone_of_wait(database: Database, waits_s: float) -> Tone:
    """Bad also where jobs wait meanwhile: then the verdict blames the lock, and so does this."""
    tone = tone_of(waits_s, BLOCKED_S, BLOCKED_LONG_S)
    if tone is not Tone.CAREFUL:
        return tone
    depths = tried(database, depth_by_priority).value
    oldest_at = min((one.oldest_at for one in depths or () if one.oldest_at), default=None)
    is_late = oldest_at and (database_now(database) - oldest_at).total_seconds() > LINE_WAITS_S
    # A line that cannot be read is locked itself.
    return Tone.BAD if depths is None or is_late else tone


def _no_locks(database: Database) -> Said:
    """None is seen to wait; those of another role may, unseen."""
    [hidden] = run(database, HIDDEN)
    if not hidden.number:
        return Said(Tone.OK, "No connection of the queue waits for a lock.")
    return Said(
        Tone.UNKNOWN,
        f"Whether {counted(hidden.number, 'connection')} of the queue under another role"
        f" {'waits' if hidden.number == 1 else 'wait'} for a lock is hidden from this one.",
        "Let it see them: GRANT pg_read_all_stats, or use one role.",
    )


def connections(database: Database, asked: Asked) -> Said:
    """How many connections are taken, against every limit there is."""
    [row] = run(database, CONNECTIONS)
    share, whose, used, most = nearest_limit(row)
    table = Table(
        columns("application", "connections", "idle in transaction",
                numbers=("connections", "idle in transaction")),
        [(name or "no name", str(n), str(waits)) for name, n, waits in row.by_application or ()],
    )  # fmt: skip
    tone = tone_of(share, CAREFUL_SHARE, BAD_SHARE)
    pooler = " They are those of the pooler." if asked.pooled else ""
    step = ""
    if tone is not Tone.OK:
        step = "Fewer processes or threads, a larger limit, or a pooler (docs/scaling.md)."
    return Said(
        tone,
        f"{used} of {most} connections {whose} are taken ({share:.0%}).{pooler}",
        step,
        table=table,
    )


def nearest_limit(row: Row[Any]) -> tuple[float, str, int, int]:
    """Of a row of ``CONNECTIONS``: the part of a limit that is taken, whose, how many, of what."""
    limits = [("of the server", row.used, row.most), ("of this database", row.here, row.most_here),
              ("of this role", row.mine, row.most_mine)]  # fmt: skip
    return max((used / most, whose, used, most) for whose, used, most in limits if most)


def notify(database: Database, asked: Asked) -> Said:
    """How full the server's one queue of notifications is."""
    [row] = run(database, NOTIFY)
    tone = tone_of(row.used, CAREFUL_FULL, BAD_FULL)
    told = f"The queue of notifications is {row.used:.1%} full"
    listens = f"{counted(row.listeners, 'worker')} {'listens' if row.listeners == 1 else 'listen'}"
    if tone is Tone.OK:
        return Said(tone, f"{told}; {listens}.")
    what = (
        "workers are told of nothing any more and find jobs by looking"
        if row.used >= BAD_FULL
        else ""
    )
    return Said(
        tone,
        f"{told}{': ' + what if what else ''}; {listens}.",
        "A connection that listens stays in an old transaction: see the oldest snapshot.",
    )


def _blocker(row: Row[Any]) -> str:
    if not row.pid:
        return "a prepared transaction"
    return f"pid {row.pid} ({row.by_application or 'no name'}, {row.by_role or 'role hidden'})"


def _end_of_blocker(row: Row[Any]) -> tuple[str, str]:
    if not row.pid:
        return "Find it, and have its owner end it:", "SELECT * FROM pg_prepared_xacts;"
    return "Have its owner end it; the last resort:", f"SELECT pg_terminate_backend({row.pid});"


def _is_hidden(row: Row[Any]) -> bool:
    return bool(row.what == "connection" and row.age_s is None)


def tone_of_holder(row: Row[Any]) -> Tone:
    """How much one row of ``HOLDERS`` holds back."""
    if row.age_s is not None:
        return tone_of(row.age_s, CAREFUL_S, OLD_S)
    if _is_hidden(row):
        return Tone.UNKNOWN
    return tone_of(row.behind or 0, CAREFUL_BEHIND, BAD_BEHIND)


def _holder_cells(row: Row[Any], asked: Asked) -> tuple[str, ...]:
    name = f"pid {row.id}" if row.what == "connection" else f"{row.what} {row.id}"
    query = [row.query or ""] if asked.sees_queries else []
    behind = "–" if row.behind is None else f"{row.behind:,}"
    return (name, row.elsewhere or "this one", row.application or "", row.role or "",
            row.state or "hidden", _span(row.age_s), behind, *query)  # fmt: skip


def _who(row: Row[Any]) -> str:
    if row.what == "connection":
        return (
            f"pid {row.id} ({row.application or 'no name'}, {row.role}, {row.state}{_where(row)})"
        )
    return {"prepared": "the prepared transaction", "slot": "the replication slot",
            "standby": "the standby"}[row.what] + f" {row.id}{_where(row)}"  # fmt: skip


def _where(row: Row[Any]) -> str:
    return f", in the database {row.elsewhere}" if row.elsewhere else ""


def _since(row: Row[Any]) -> str:
    if row.age_s is not None:
        return f"for {span(row.age_s)}"
    return f"while {row.behind:,} transactions began"


def _end_of(row: Row[Any]) -> tuple[str, str]:
    """What to do about a holder, and the command for it."""
    return {
        "connection": ("Have its owner commit; the last resort:",
                       f"SELECT pg_terminate_backend({row.id});"),
        "prepared": (f"Its owner commits it, or rolls it back{_where(row)}:",
                     f"ROLLBACK PREPARED {literal(row.id)};"),
        "slot": ("If nothing replicates from it any more:",
                 f"SELECT pg_drop_replication_slot({literal(row.id)});"),
        "standby": ("End the long query there, or turn off hot_standby_feedback there.", ""),
    }[row.what]  # fmt: skip


def _span(seconds: float | None) -> str:
    return "hidden" if seconds is None else span(seconds)
