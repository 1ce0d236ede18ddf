"""How jobs look in a terminal: an aligned table, one job whole, its history as a time line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from queueapp.api.describe import whole_job
from queueapp.jobs.failure import printable
from queueapp.jobs.models import Job
from queueapp.jobs.status import FINAL

_COLUMNS = ("id", "status", "kind", "priority", "attempts", "available", "producer")
_RIGHT = ("id", "priority", "attempts")


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 job``, ``2 jobs``; ``many`` where the plural has more than an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def table(jobs: Iterable[Job]) -> Iterable[str]:
    """One line a job under a heading."""
    return aligned([[name.upper() for name in _COLUMNS], *map(_cells, jobs)], _right_columns())


def whole(job: Job) -> Iterable[str]:
    """Every field of a job that has a value, in the order of the API; progress until it ends."""
    left_out = ("progress", "progress_note") if job.status in FINAL else ()
    fields = {
        name: value
        for name, value in whole_job(job).items()
        if value is not None and name not in left_out
    }
    width = max(map(len, fields))
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *more = one_line(text).splitlines() or [""]
        yield f"{name:<{width}}  {first}"
        yield from (f"{'':<{width}}  {line}" for line in more)


def time_line(events: Sequence[Any]) -> Iterable[str]:
    """One line an event, the oldest on top."""
    return aligned([_event(event) for event in events], ())


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int]) -> Iterable[str]:
    """Pad the cells so that columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def one_line(text: str) -> str:
    """Make control characters visible: what a job says must not move the reader's cursor."""
    shown = (
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in printable(text)
    )
    return "".join(shown)


def moment(value: datetime) -> str:
    """An instant to the second, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _right_columns() -> tuple[int, ...]:
    return tuple(_COLUMNS.index(name) for name in _RIGHT)


def _cells(job: Job) -> list[str]:
    attempts = f"{job.attempts}/{job.max_attempts}"
    return [
        str(job.id), job.status, job.kind, str(job.priority), attempts, moment(job.available_at),
        one_line(job.producer),
    ]  # fmt: skip


def _event(event: Any) -> list[str]:
    move = f"{event.from_status or '–'} → {event.to_status or '–'}"
    attempt = "" if event.attempt is None else f"attempt {event.attempt}"
    said = one_line(event.reason or "").replace("\n", " ")
    return [moment(event.created_at), event.event, move, attempt, one_line(event.actor), said]
