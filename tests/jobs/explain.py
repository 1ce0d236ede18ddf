"""How PostgreSQL really ran a statement: its plan, executed, with the buffers it touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa
from psycopg import sql

_PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class Plan:
    """An executed plan."""

    tree: dict[str, Any]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Every node, the root first."""
        return list(_walk(self.tree))

    @property
    def indexes(self) -> set[str]:
        """The indexes that were planned for."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    def scans(self, kind: str) -> list[str]:
        """The relations read by nodes of ``kind``, such as "Seq Scan"."""
        return [n["Relation Name"] for n in self.nodes if n["Node Type"] == kind]

    @property
    def reading(self) -> int:
        """Buffers touched to find and lock rows of ``jobs``: all but what the writes cost."""
        scans = [n for n in self.nodes if "Relation Name" in n and n["Node Type"] != "ModifyTable"]
        locks = [n for n in self.nodes if n["Node Type"] == "LockRows"]
        return sum(map(_touched, scans)) + sum(_touched(n) - _touched(n["Plans"][0]) for n in locks)

    @property
    def writing(self) -> int:
        """Buffers touched to write rows and their index entries."""
        writes = [n for n in self.nodes if n["Node Type"] == "ModifyTable"]
        return sum(_touched(n) - sum(map(_touched, n["Plans"])) for n in writes)

    @property
    def sorted_rows(self) -> float:
        """The most rows that any one Sort had to take."""
        return max((n["Actual Rows"] for n in self.nodes if n["Node Type"] == "Sort"), default=0)


class Prepared:
    """A statement, prepared by name as the driver would: its plan may be older than its table."""

    def __init__(self, connection: sa.Connection, name: str, statement: str) -> None:
        self._cursor = connection.connection.cursor()
        self._name = sql.Identifier(name)
        self._parameters = list(dict.fromkeys(_PARAMETER.findall(statement)))
        numbered = _PARAMETER.sub(
            lambda found: f"${self._parameters.index(found[1]) + 1}", statement
        )
        self._cursor.execute(f"PREPARE {name} AS {numbered}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._cursor.execute(sql.SQL("DEALLOCATE {}").format(self._name))

    def run(self, **values: Any) -> Plan:
        """Execute it and return what was done."""
        arguments = sql.SQL(", ").join(sql.Literal(values[name]) for name in self._parameters)
        explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {}({})")
        self._cursor.execute(explain.format(self._name, arguments))
        [[plan]] = self._cursor.fetchall()
        return Plan(plan[0]["Plan"])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _walk(child)


def _touched(node: dict[str, Any]) -> int:
    return int(node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0))
