"""The two tables and their indexes: what is dead, how large they are, whether all is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Index, Row
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex

from queueapp.base import Base
from queueapp.jobs.database import Database, run
from queueapp.jobs.system import activity
from queueapp.jobs.system.told import Asked, Said, Table, Tone, columns, joined, octets, worst
from queueapp.jobs.why.words import counted, moment

TABLES = ("jobs", "job_events")
# Dead rows beyond what starts an autovacuum, many times: it does not keep up, or is held back.
CAREFUL_TIMES, BAD_TIMES = 3, 10
CAREFUL_DEAD, BAD_DEAD = 10_000, 100_000
# Transactions until ids run out: two billion.
CAREFUL_AGE, BAD_AGE = 500_000_000, 1_500_000_000
_MOST_INDEXES = 200
_SHOWN = 12
_GIB = 1024**3

# The parts of each table: itself, or the days of the ledger.
_PARTS = """
parts AS (
  SELECT 'jobs' AS name, 'jobs'::regclass AS relid
  UNION ALL
  SELECT 'job_events', t.relid FROM pg_partition_tree('job_events') t WHERE t.isleaf
)"""

DEAD = f"""
WITH {_PARTS},
options AS (
  SELECT p.name, p.relid, c.reltuples, (
    SELECT jsonb_object_agg(o.option_name, o.option_value) FROM pg_options_to_table(c.reloptions) o
  ) AS set FROM parts p JOIN pg_class c ON c.oid = p.relid
)
SELECT o.name, count(*) AS parts, coalesce(sum(s.n_live_tup), 0)::bigint AS live,
  coalesce(sum(s.n_dead_tup), 0)::bigint AS dead,
  max(greatest(s.last_vacuum, s.last_autovacuum)) AS vacuumed_at,
  max(s.last_autovacuum) AS autovacuumed_at,
  bool_and(coalesce((o.set->>'autovacuum_enabled')::boolean, true)) AS is_enabled,
  sum(coalesce((o.set->>'autovacuum_vacuum_threshold')::float8,
        current_setting('autovacuum_vacuum_threshold')::float8)
    + coalesce((o.set->>'autovacuum_vacuum_scale_factor')::float8,
        current_setting('autovacuum_vacuum_scale_factor')::float8)
      * greatest(o.reltuples, 0))::float8 AS trigger
FROM options o LEFT JOIN pg_stat_all_tables s ON s.relid = o.relid
GROUP BY o.name ORDER BY o.name DESC"""

SIZES = f"""
WITH {_PARTS}
SELECT p.name, count(*) AS parts, sum(pg_table_size(p.relid))::bigint AS size,
  sum(pg_indexes_size(p.relid))::bigint AS indexes
FROM parts p GROUP BY p.name ORDER BY p.name DESC"""

INDEX_SIZES = """
SELECT i.indexrelid::regclass::text AS name, coalesce((
  SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(i.indexrelid) t WHERE t.isleaf
), pg_relation_size(i.indexrelid))::bigint AS size
FROM pg_index i WHERE i.indrelid IN ('jobs'::regclass, 'job_events'::regclass)
ORDER BY size DESC, name LIMIT %(most)s"""

# Those of the two tables, and what is invalid on any day of the ledger.
INDEXES = """
SELECT c.relname::text AS name, t.relname::text AS on_table,
  i.indisvalid AND i.indisready AS is_valid
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE i.indrelid IN ('jobs'::regclass, 'job_events'::regclass)
  OR (NOT (i.indisvalid AND i.indisready)
      AND i.indrelid IN (SELECT p.relid FROM pg_partition_tree('job_events') p))
ORDER BY i.indrelid, c.relname LIMIT %(most)s"""

IDS = """
SELECT d.datname::text AS name, age(d.datfrozenxid) AS age
FROM pg_database d WHERE d.datname = current_database()"""


def dead_rows(database: Database, asked: Asked) -> Said:
    """How many dead rows the two tables carry, and when they were last vacuumed."""
    rows = run(database, DEAD)
    table = Table(
        columns("table", "live rows", "dead rows", "autovacuum begins at", "last vacuum",
                "last autovacuum", numbers=("live rows", "dead rows", "autovacuum begins at")),
        [
            (_named(row), f"{row.live:,}", f"{row.dead:,}", f"{row.trigger:,.0f}",
             _moment(row.vacuumed_at), _moment(row.autovacuumed_at))
            for row in rows
        ],
    )  # fmt: skip
    off = [row.name for row in rows if not row.is_enabled]
    if off:
        return Said(
            Tone.BAD,
            f"Autovacuum is turned off for {joined(off)}: dead rows stay for ever.",
            "Turn it on again:",
            f"ALTER TABLE {off[0]} RESET (autovacuum_enabled);",
            table,
        )
    tones = {row.name: _tone_of_dead(row) for row in rows}
    tone = worst(tones.values())
    dead = joined([f"{row.dead:,} in {row.name}" for row in rows])
    if tone is Tone.OK:
        return Said(
            tone, f"Few enough dead rows: {dead}{_due(rows)}. They are estimates.", table=table
        )
    name = next(name for name, each in tones.items() if each is tone)
    return Said(
        tone,
        f"Autovacuum does not keep up with {name}, or is held back: dead rows are {dead}.",
        *vacuum(database, name, "(ANALYZE) "),
        table,
    )


def _due(rows: Sequence[Row[Any]]) -> str:
    """Why it is well where autovacuum has something to do; nothing where it has not."""
    due = [row for row in rows if row.dead > row.trigger]
    if not due:
        return ""
    begins = joined([f"{row.trigger:,.0f} in {row.name}" for row in due])
    careful = joined(
        [f"{max(CAREFUL_TIMES * row.trigger, CAREFUL_DEAD):,.0f} in {row.name}" for row in due]
    )
    return f"; autovacuum is due, from {begins} on, and takes them; it is late from {careful} on"


def vacuum(database: Database, name: str, options: str = "") -> tuple[str, str]:
    """How to be rid of a table's dead rows: a step, and its command."""
    rows = run(database, activity.HOLDERS, sees_queries=False)
    is_kept = any(activity.tone_of_holder(row) is not Tone.OK for row in rows)
    step = "End what holds the oldest snapshot first, then:" if is_kept else "Vacuum it now:"
    return step, f"VACUUM {options}{name};"


def sizes(database: Database, asked: Asked) -> Said:
    """How large tables and indexes are; days of the ledger are summed."""
    tables = run(database, SIZES)
    indexes = run(database, INDEX_SIZES, most=_SHOWN)
    table = Table(
        columns("table or index", "size", "its indexes", numbers=("size", "its indexes")),
        [(_named(row), octets(row.size), octets(row.indexes)) for row in tables]
        + [(row.name, octets(row.size), "") for row in indexes],
    )
    total = sum(row.size + row.indexes for row in tables)
    parts = joined([f"{row.name} {octets(row.size + row.indexes)}" for row in tables])
    said = f"{octets(total)} with indexes: {parts}."
    swollen = [r for r in tables if r.indexes > 2 * r.size and r.indexes > _GIB]
    if swollen:
        command = f"REINDEX TABLE CONCURRENTLY {swollen[0].name};"
        told = f"{said} The indexes are twice their table."
        return Said(Tone.CAREFUL, told, "Build them anew when it is quiet:", command, table)
    return Said(Tone.OK, said, table=table)


def indexes(database: Database, asked: Asked) -> Said:
    """Whether every index of the models is there and valid."""
    rows = run(database, INDEXES, most=_MOST_INDEXES)
    expected = _expected()
    there = {row.name for row in rows if row.on_table in TABLES}
    missing = [name for name in expected if name not in there]
    invalid = [row for row in rows if not row.is_valid]
    more = sorted(there - expected.keys())
    if not missing and not invalid:
        beside = f" {counted(len(more), 'other')} beside them: each makes every move dearer."
        extra = beside if more else ""
        return Said(Tone.OK, f"All {len(expected)} indexes are there and valid.{extra}")
    told = [f"{joined(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
    if invalid:
        names = joined([row.name for row in invalid[:_SHOWN]])
        told.append(f"{names} {'is' if len(invalid) == 1 else 'are'} not valid, so not used")
    step = ("Make it:", _create(expected[missing[0]])) if missing else _mend(invalid[0], expected)
    return Said(
        Tone.BAD,
        f"{'; '.join(told)}: what needs it reads the whole table.",
        *step,
        Table(
            columns("index", "table", "what it lacks"),
            [(name, _table_of(expected[name]), "missing") for name in missing]
            + [(row.name, row.on_table, "not valid") for row in invalid[:_SHOWN]],
        ),
    )


def ids(database: Database, asked: Asked) -> Said:
    """How near the database is to running out of transaction ids."""
    [row] = run(database, IDS)
    tone = Tone.BAD if row.age >= BAD_AGE else Tone.CAREFUL if row.age >= CAREFUL_AGE else Tone.OK
    step = ("", "") if tone is Tone.OK else vacuum(database, "", "(FREEZE)")
    return Said(
        tone,
        f"The oldest row not frozen is {row.age:,} transactions old, of two billion.",
        *step,
    )


def _named(row: Row[Any]) -> str:
    return row.name if row.parts == 1 else f"{row.name} ({row.parts} days)"


def _moment(at: datetime | None) -> str:
    return "never" if at is None else moment(at)


def _tone_of_dead(row: Row[Any]) -> Tone:
    times = row.dead / max(row.trigger, 1.0)
    if times >= BAD_TIMES and row.dead >= BAD_DEAD:
        return Tone.BAD
    return Tone.CAREFUL if times >= CAREFUL_TIMES and row.dead >= CAREFUL_DEAD else Tone.OK


def _expected() -> dict[str, Index | None]:
    """The indexes of the models by name; None for a primary key's, which is part of its table."""
    found: dict[str, Index | None] = {}
    for name in TABLES:
        table = Base.metadata.tables[name]
        if table.primary_key.columns:
            found[str(table.primary_key.name)] = None
        found |= {str(i.name): i for i in sorted(table.indexes, key=lambda i: str(i.name))}
    return found


def _table_of(index: Index | None) -> str:
    return TABLES[0] if index is None or index.table is None else index.table.name


def _create(index: Index | None) -> str:
    if index is None:
        return "ALTER TABLE jobs ADD CONSTRAINT pk_jobs PRIMARY KEY (id);"
    ddl = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    # Of a table of partitions it cannot be made beside its writers.
    beside = "" if _table_of(index) == "job_events" else " CONCURRENTLY"
    return ddl.replace("INDEX ", f"INDEX{beside} ", 1) + ";"


def _mend(row: Row[Any], expected: Mapping[str, Any]) -> tuple[str, str]:
    """What to do about an index that is not valid, and the command for it."""
    quoted = '"' + row.name.replace('"', '""') + '"'
    if row.name in expected and row.on_table == "jobs":
        return "Build it anew:", f"REINDEX INDEX CONCURRENTLY {quoted};"
    if row.name in expected:
        return "A day of the ledger lacks its part: make it there, and attach it.", ""
    # What a build that broke off has left, or an index of somebody else.
    return "A build that broke off has left it:", f"DROP INDEX {quoted};"
