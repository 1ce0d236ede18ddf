"""What statements a piece of code sends, and how PostgreSQL would run them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

Sent = tuple[str, Any]


@contextmanager
def statements_of(engine: sa.Engine) -> Iterator[list[Sent]]:
    """Collect every statement with its parameters, SAVEPOINT and the like left out."""
    sent: list[Sent] = []

    def note(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        sent.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def sequential_scans(session: Session, sent: list[Sent]) -> list[str]:
    """The tables of ``jobs`` and ``job_events`` that a plan reads from end to end."""
    found = []
    for statement, parameters in sent:
        if "set_config" in statement or statement.startswith("EXPLAIN"):
            continue
        explain = f"EXPLAIN (FORMAT JSON) {statement}"
        [[plan]] = session.connection().exec_driver_sql(explain, parameters).all()
        plan = json.loads(plan) if isinstance(plan, str) else plan
        found += [f"{table}: {statement}" for table in _scanned(plan[0]["Plan"])]
    return found


def _scanned(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Seq Scan" and node["Relation Name"].startswith("job"):
        yield node["Relation Name"]
    for child in node.get("Plans", []):
        yield from _scanned(child)
