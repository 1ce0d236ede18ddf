"""What stands and has moved, kind by kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs import kinds
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made, reworded
from queueapp.jobs.sqlite.why import _LINES, kinds_of

_PARTS = {"events": "events", "waits": "wait", "runs": "run"}

reworded(
    kinds._HELD,
    """
SELECT kind, min(count(*), :bound) AS jobs FROM jobs
WHERE status = 'held' AND held_for = 'kind' AND kind IN (SELECT value FROM json_each(:kinds))
GROUP BY kind
""",
)


@instead_of(kinds._HOUR)
def _hour(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    since: datetime = given["since"]
    lines = [row for row in fetch(connection, _LINES, **given) if row.created_at > since]
    found: dict[str, dict[str, Counter[str]]] = defaultdict(
        lambda: {part: Counter() for part in (*_PARTS, "times")}
    )
    for row in lines:
        for kind, told in kinds_of(row.data).items():
            for part, name in _PARTS.items():
                found[kind][part].update(told[name])
            for name in ("later", "due"):
                found[kind]["times"][name] += told.get(name) or 0
    last, first = (lines[0], lines[-1]) if lines else (None, None)
    upto = last.created_at if last else None
    begun = (first.data.get("since") or first.created_at.isoformat()) if first else None
    return made(("upto", "since", "kinds"), [(upto, begun, found)])
