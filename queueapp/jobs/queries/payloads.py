"""The fields of a few payloads side by side: which differ, and which are the same in all.

Cut in SQL: no more than ``SHOWN`` characters of a value leave the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from queueapp.jobs.database import Database, run

SHOWN = 200
MOST_FIELDS = 40
_LONGEST_NAME = 100

# Only the names and values of the first level; a payload that is no object is one field.
_FIELDS = f"""
SELECT j.id, left(f.key, {_LONGEST_NAME}) AS name, left(f.value, {SHOWN}) AS shown,
  length(f.value) > {SHOWN} AS cut, md5(f.value) AS mark
FROM jobs j CROSS JOIN LATERAL (
  SELECT e.key, e.value::text AS value FROM jsonb_each(
    CASE jsonb_typeof(j.payload) WHEN 'object' THEN j.payload
      ELSE jsonb_build_object('', j.payload) END) e
  ORDER BY e.key LIMIT {MOST_FIELDS}
) f
WHERE j.id = ANY(%(ids)s::bigint[]) ORDER BY f.key, j.id
"""


@dataclass(frozen=True)
class Value:
    """A field of one payload, as JSON; ``cut``: ``text`` is its beginning."""

    text: str
    cut: bool
    mark: str


@dataclass(frozen=True)
class Field:
    """One name, and its value in each payload that has it, by the job's id."""

    name: str
    values: dict[int, Value]

    def differs(self, ids: Sequence[int]) -> bool:
        """Whether it is not the same in the payloads of all ``ids``."""
        found = {self.values[i].mark if i in self.values else None for i in ids}
        return len(found) > 1


def fields_of(database: Database, ids: Sequence[int]) -> list[Field]:
    """The fields of the payloads of ``ids``, up to ``MOST_FIELDS`` of each, by their names."""
    found: dict[str, Field] = {}
    for row in run(database, _FIELDS, ids=list(ids)):
        one = found.setdefault(row.name, Field(row.name, {}))
        one.values[row.id] = Value(row.shown, row.cut, row.mark)
    return list(found.values())
