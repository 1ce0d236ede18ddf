"""How ended jobs are removed, by people and by age: the row goes, a line of the ledger stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.sqlite.events import event_of, log
from queueapp.jobs.sqlite.people import is_as_seen, told
from queueapp.jobs.sqlite.replacements import Parameters, execute_many, fetch, instead_of, made
from queueapp.jobs.sqlite.values import after
from queueapp.jobs.status import FINAL
from queueapp.jobs.transitions import people_statements, retention

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_FINAL = """
SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
  AND status IN ('succeeded', 'failed', 'cancelled') ORDER BY id
"""

_OLD = """
SELECT * FROM (
  SELECT * FROM jobs WHERE status = '{status}' AND finished_at < :old AND finished_at >= :oldest
    AND (idempotency_key IS NULL OR finished_at < :keyed)
  ORDER BY finished_at, id LIMIT :limit
) ORDER BY id
"""


def _gone(
    connection: Connection,
    rows: Sequence[Row[Any]],
    given: Parameters,
    data: Mapping[str, Any] = _NOTHING,
) -> Sequence[Row[Any]]:
    execute_many(connection, "DELETE FROM jobs WHERE id = :id", [{"id": row.id} for row in rows])
    how = {"actor": given["actor"], "reason": given["reason"]}
    kept = ("producer", "idempotency_key")
    log(
        connection,
        [
            event_of(
                row,
                "purged",
                from_status=row.status,
                attempt=row.attempts,
                data={**data, **{name: getattr(row, name) for name in kept}},
                **how,
            )
            for row in rows
        ],
    )
    names = ("id", "event", "from_status", "to_status")
    return made(names, [(row.id, "purged", row.status, None) for row in rows])


@instead_of(people_statements.PURGE, writes=True)
def _purge(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    found = fetch(connection, _FINAL, ids=given["ids"])
    rows = [row for row in found if is_as_seen(row, given)]
    return _gone(connection, rows, given, told(given))


def _bounds(given: Parameters) -> dict[str, Any]:
    return {
        "old": after(-given["age"]),
        "oldest": after(-given["back"]),
        "keyed": after(-given["keyed_age"]),
        "limit": given["limit"],
    }


def _purge_old(statement: str, old: str) -> None:
    @instead_of(statement, writes=True)
    def _replacement(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
        return _gone(connection, fetch(connection, old, **_bounds(given)), given)


for _status in FINAL:
    _purge_old(
        retention._PURGE_OLD.format(status=_status, gone=retention._GONE),
        _OLD.format(status=_status),
    )
