"""The server itself: whether it takes writes, its settings, its clock, the schema, the days."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from queueapp.jobs import partitions
from queueapp.jobs.database import Database, run
from queueapp.jobs.system.told import Asked, Said, Table, Tone, columns, tone_of
from queueapp.jobs.why.facts import signs
from queueapp.jobs.why.words import counted, span
from queueapp.jobs.workers.attendance import clock_ahead_s

CLOCK_CAREFUL_S, CLOCK_BAD_S = 5.0, 60.0
_SHOWN = 10
_MOST_IN_DEFAULT = 1_000

READ_ONLY = """
SELECT current_setting('transaction_read_only')::boolean AS read_only,
  pg_is_in_recovery() AS in_recovery"""

REVISIONS = "SELECT version_num FROM alembic_version ORDER BY version_num"

DEFAULT_DAY = """
SELECT count(*) AS number, min(d.created_at) AS oldest, max(d.created_at) AS newest
FROM (SELECT created_at FROM job_events_default ORDER BY xid, id LIMIT %(most)s) d"""

SETTINGS = """
SELECT name, setting || coalesce(CASE WHEN unit ~ '^[0-9]' THEN ' × ' ELSE ' ' END || unit, '')
  AS value, setting
FROM pg_settings WHERE name = ANY(%(names)s) ORDER BY name"""

# What must not be so, what it means, how to mend it.
_WRONG = (
    ("autovacuum", "off", Tone.BAD, "autovacuum is off: dead rows stay for ever"),
    ("track_counts", "off", Tone.BAD, "track_counts is off: autovacuum never begins"),
    ("fsync", "off", Tone.BAD, "fsync is off: a crash of the machine may lose the database"),
    ("full_page_writes", "off", Tone.BAD,
     "full_page_writes is off: a crash of the machine may spoil pages"),
    ("synchronous_commit", "off", Tone.CAREFUL,
     "synchronous_commit is off: a crash forgets the last moments, so jobs that ended may run"
     " again and jobs that were accepted may be gone"),
)  # fmt: skip
_TELLING = (
    *(name for name, *_ in _WRONG),
    *("autovacuum_naptime", "autovacuum_max_workers", "max_connections", "shared_buffers"),
    *("max_prepared_transactions", "max_wal_size", "synchronous_standby_names", "wal_level"),
)


def read_only(database: Database, asked: Asked) -> Said:
    """Whether the server takes writes."""
    [row] = run(database, READ_ONLY)
    if row.in_recovery:
        return Said(
            Tone.BAD,
            "This server is a standby: it takes no writes, so nothing is enqueued or settled.",
            "Promote it, or name the primary in DATABASE_URL (docs/scaling.md).",
        )
    if row.read_only:
        return Said(
            Tone.BAD,
            "The database takes no writes: default_transaction_read_only is on.",
            "Find out who turned it on, for a full disk or a failover, and turn it off.",
        )
    if asked.is_closed:
        return Said(
            Tone.OK,
            "The database takes writes, from workers and commands: the console and the API change"
            " nothing, for QUEUE_READ_ONLY is set.",
        )
    return Said(Tone.OK, "The database takes writes.")


def schema(database: Database, asked: Asked) -> Said:
    """Whether the schema is the one that this release needs."""
    found = ", ".join(row.version_num for row in run(database, REVISIONS)) or "none"
    if asked.revision is None:
        return Said(Tone.UNKNOWN, f"The database has the schema {found}.")
    if found == asked.revision:
        return Said(Tone.OK, f"The schema is {found}, as this release needs it.")
    newer = found != "none" and found > asked.revision
    said = f"The schema is {found}, this release needs {asked.revision}."
    if newer:
        return Said(Tone.BAD, said, "Deploy the release that it belongs to.")
    return Said(Tone.BAD, said, "Bring it up:", "flask db upgrade")


def days(database: Database, asked: Asked) -> Said:
    """Whether the ledger has its days ahead, and whether any row missed its own."""
    ahead, have = partitions.days_ahead(database), sorted(partitions.days(database))
    [row] = run(database, DEFAULT_DAY, most=_MOST_IN_DEFAULT)
    span_of = f", from {have[0]} to {have[-1]}" if have else ""
    said = f"{counted(len(have), 'day')} of the ledger{span_of}"
    if ahead < 0:
        return Said(Tone.BAD, f"{said}; today has no partition.",
                    "Start flask work: it makes them.")  # fmt: skip
    if ahead < partitions.WARN_BELOW_DAYS:
        return Said(Tone.CAREFUL, f"{said}; only {counted(ahead, 'day')} ahead.",
                    "Start flask work: it makes them.")  # fmt: skip
    if row.number:
        capped = row.number == _MOST_IN_DEFAULT
        least = f"{row.number:,}+ lines" if capped else counted(row.number, "line")
        between = f"{row.oldest:%Y-%m-%d} and {row.newest:%Y-%m-%d}"
        return Said(
            Tone.CAREFUL,
            f"{said}; {least} between {between} {'lies' if row.number == 1 else 'lie'} in the"
            " default partition, where reading by day does not leave them out.",
            "Retention removes them in time; a day still to come takes its own along.",
        )
    return Said(Tone.OK, f"{said}: {ahead} ahead; the default partition is empty.")


def clocks(database: Database, asked: Asked) -> Said:
    """How far the clocks of this process and of the workers are from the database's."""
    before = time.time()
    [row] = run(database, "SELECT clock_timestamp() AS now")
    after = time.time()
    here = datetime.fromtimestamp((before + after) / 2, UTC) - row.now
    ahead = {"this web process": here.total_seconds()}
    known = [sign for sign in signs(database, row.now)[0] if sign.is_live(row.now)]
    ahead |= {s.name: skew for s in known if (skew := clock_ahead_s(s)) is not None}
    far = max(ahead.values(), key=abs)
    tone = tone_of(abs(far), CLOCK_CAREFUL_S, CLOCK_BAD_S)
    ranked = sorted(ahead.items(), key=lambda one: -abs(one[1]))[:_SHOWN]
    table = Table(
        columns("clock of", "ahead of the database's", numbers=("ahead of the database's",)),
        [(name, f"{round(skew, 1) + 0:+.1f} s") for name, skew in ranked],
    )
    others = counted(len(ahead) - 1, "worker")
    if tone is Tone.OK:
        return Said(tone, f"This process and {others} agree with the database within"
                    f" {max(abs(far), 0.1):.1f} s.", table=table)  # fmt: skip
    name = ranked[0][0]
    return Said(
        tone,
        f"The clock of {name} is {span(abs(far))} {'ahead of' if far > 0 else 'behind'} the"
        " database's. Jobs are due by the database's alone; logs, signatures of webhooks and"
        " certificates go by the others.",
        "Set the clocks by NTP.",
        table=table,
    )


def settings(database: Database, asked: Asked) -> Said:
    """The server's version and the settings that matter to a queue."""
    [version] = run(database, "SELECT current_setting('server_version') AS text")
    rows = run(database, SETTINGS, names=list(_TELLING))
    found = {row.name: row.setting for row in rows}
    table = Table(columns("setting", "value"), [(row.name, row.value) for row in rows])
    wrong = [(tone, told) for name, value, tone, told in _WRONG if found.get(name) == value]
    said = f"PostgreSQL {version.text.split()[0]}"
    if not wrong:
        return Said(Tone.OK, f"{said}; nothing is set against the queue.", table=table)
    tone = min((tone for tone, _ in wrong), key=list(Tone).index)
    what = "it" if len(wrong) == 1 else "them"
    return Said(tone, f"{said}; {'; '.join(told for _, told in wrong)}.",
                f"Turn {what} on, unless this server is only tried out.", table=table)  # fmt: skip
