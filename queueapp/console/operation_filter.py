"""What an operation was asked for, as names and values, and the list of just these jobs. Pure."""

from __future__ import annotations

from datetime import datetime

from queueapp.console import preferences
from queueapp.console.filters import iso, stamp
from queueapp.console.instants import ENDS
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.queries.filters import written_filter


def filter_of(where: JobFilter) -> list[tuple[str, str]]:
    """The filter as names and values."""
    written = written_filter(where)
    return [
        *((n.replace("_", " "), _text(value)) for n, value in written.items() if n != "payload"),
        *((f"payload {field.path}", field.value) for field in where.payload),
    ]


def list_of(where: JobFilter) -> dict[str, object] | None:
    """The parameters of the list of just these jobs; None where no list can be narrowed so."""
    names = {
        "status": "status", "kind": "kind", "producer": "producer", "priority": "priority",
        "fingerprint": "fingerprint", "idempotency_key": "key", "operation": "operation",
        "worker": "worker", "attempts": "attempts",
    }  # fmt: skip
    asked: dict[str, object] = {}
    for name, value in written_filter(where).items():
        if name == "created":
            ends = zip(ENDS, (where.created.start, where.created.end), strict=True)
            asked |= {end: iso(at) for end, at in ends if at}
        elif name == "attempts_min" and where.attempts is None:
            asked["attempts"] = f">={value}"
        elif name == "payload":
            asked |= {f"payload.{path}": wanted for path, wanted in value}
        elif name in names:
            asked[names[name]] = value
        else:
            return None
    return asked


def _text(value: object) -> str:
    if isinstance(value, list):
        zone = preferences.present().tz
        start, end = (at and stamp(datetime.fromisoformat(at), zone=zone) for at in value)
        return " ".join([f"from {start}"] * bool(start) + [f"before {end}"] * bool(end))
    return ", ".join(value) if isinstance(value, tuple) else str(value)
