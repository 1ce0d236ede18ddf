"""A job's attempts, told from its ledger: how long each waited, who ran it, how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from queueapp.jobs.status import Event, Status

WIDTH = 1000.0
# A run of a millisecond beside a wait of an hour is still to be seen.
_LEAST = 4.0


@dataclass
class Attempt:
    """One claim and what came of it. ``number`` counts within a life: a retry begins at 1 again.

    ``ready_at``: from when it could have been claimed, None when that part of the history is gone.
    ``outcome``: the event that ended it, None while it runs or waits. ``run_ms``: how long its
    handler ran, as its worker measured it.
    """

    number: int
    ready_at: datetime | None = None
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    token: str | None = None
    worker: str | None = None
    outcome: str | None = None
    reason: str | None = None
    run_ms: float | None = None
    error_class: str | None = None
    error_message: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bar:
    """A stretch of time on the common scale of all attempts, 0 to WIDTH."""

    x: float
    width: float


@dataclass(frozen=True)
class Line:
    """One attempt with its bars: the backoff before it, the wait for a worker, and what followed.

    ``held``, ``held_s``: at its worker, from the claim until its end was written: with the wait in
    that worker's line, and the writing. ``running``, ``run_s``: of that the handler itself, None
    before it begins; ``is_at_most``: nobody measured it, so all that it was held is taken.
    """

    attempt: Attempt
    backoff: Bar | None
    waiting: Bar | None
    held: Bar | None
    running: Bar | None
    wait_s: float | None
    held_s: float | None
    run_s: float | None
    is_at_most: bool


def attempts_of(events: Sequence[Any]) -> list[Attempt]:
    """Fold the events of one job, oldest first, into its attempts.

    The last one may not have been claimed yet. A history whose beginning is gone begins later.
    """
    told = _Teller()
    for event in events:
        told.hear(event)
    return told.attempts + ([told.next] if told.next else [])


def lines_of(
    attempts: Sequence[Attempt], now: datetime, started_at: datetime | None = None
) -> list[Line]:
    """Put the attempts on one scale of time, from the first wait to the last end (or ``now``).

    ``started_at``: when the last one began, as the row of the job has it.
    """
    instants = [at for attempt in attempts for at in _instants(attempt, now)]
    if not instants:
        return []
    scale = _Scale(instants)
    ends = [None, *(attempt.ended_at for attempt in attempts)]
    begun = [*[None] * (len(attempts) - 1), started_at]
    return [
        _line(attempt, end, scale, now, began)
        for attempt, end, began in zip(attempts, ends, begun, strict=False)
    ]


class _Teller:
    """Hears the events in order and remembers what is open."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.next: Attempt | None = None
        self._used = 0

    def hear(self, event: Any) -> None:
        """Take in one more event."""
        data = event.data if isinstance(event.data, dict) else {}
        if event.event == Event.CLAIMED:
            self._claim(event)
        elif event.event == Event.CANCEL_REQUESTED:
            self._note(None, f"asked to stop by {event.actor}")
        elif event.event == Event.LEASE_EXPIRED:
            self._note(event.lease_token, "lease expired")
        elif event.event == Event.STALE_WRITE_REJECTED:
            self._note(event.lease_token, f"late result refused ({event.reason or 'too late'})")
        elif event.from_status == Status.RUNNING and event.to_status != Status.RUNNING:
            self._end(event, data)
        if event.to_status == Status.QUEUED:
            self._wait(event, data)
        elif event.to_status is not None and event.event != Event.CLAIMED:
            self.next = None if event.to_status != Status.RUNNING else self.next

    def _wait(self, event: Any, data: dict[str, Any]) -> None:
        self._used = data.get("attempts", self._used)
        ready = _instant(data.get("available_at")) or event.created_at
        self.next = Attempt(self._used + 1, max(ready, event.created_at))

    def _claim(self, event: Any) -> None:
        attempt = self.next or Attempt(event.attempt or 1)
        attempt.number = event.attempt or attempt.number
        attempt.claimed_at, attempt.worker = event.created_at, event.actor
        attempt.token = str(event.lease_token)
        self._used, self.next = attempt.number, None
        self.attempts.append(attempt)

    def _end(self, event: Any, data: dict[str, Any]) -> None:
        attempt = self._by_token(data.get("released_token") or event.lease_token)
        if attempt is None:
            return
        attempt.ended_at, attempt.outcome, attempt.reason = (
            event.created_at,
            event.event,
            event.reason,
        )
        attempt.run_ms = data.get("run_ms")
        attempt.error_class = data.get("error_class")
        attempt.error_message = data.get("error_message")
        if event.actor != attempt.worker:
            attempt.notes.append(f"ended by {event.actor}")

    def _note(self, token: Any, text: str) -> None:
        attempt = self._by_token(token)
        if attempt:
            attempt.notes.append(text)

    def _by_token(self, token: Any) -> Attempt | None:
        if token is None:
            return self.attempts[-1] if self.attempts else None
        return next((a for a in reversed(self.attempts) if a.token == str(token)), None)


def _instants(attempt: Attempt, now: datetime) -> Iterable[datetime]:
    yield from (at for at in (attempt.ready_at, attempt.claimed_at, attempt.ended_at) if at)
    if attempt.ended_at is None:
        yield now


class _Scale:
    """Where an instant stands between the first and the last of all attempts."""

    def __init__(self, instants: Sequence[datetime]) -> None:
        self._first = min(instants)
        self._span_s = max((max(instants) - self._first).total_seconds(), 0.001)

    def bar(self, start: datetime | None, end: datetime | None) -> Bar | None:
        """The stretch between two instants; None where one is missing, or they are exchanged."""
        if start is None or end is None or end < start:
            return None
        x = (start - self._first).total_seconds() / self._span_s * WIDTH
        width = max((end - start).total_seconds() / self._span_s * WIDTH, _LEAST)
        return Bar(round(min(x, WIDTH - width), 2), round(width, 2))


def _line(
    attempt: Attempt,
    before: datetime | None,
    scale: _Scale,
    now: datetime,
    started_at: datetime | None,
) -> Line:
    ready, claimed = attempt.ready_at, attempt.claimed_at
    waited_to, held_to = claimed or now, attempt.ended_at or now
    begun, ended = _run_of(attempt, held_to, started_at)
    is_measured = attempt.run_ms is not None
    return Line(
        attempt,
        backoff=scale.bar(before, min(ready, waited_to) if ready else None),
        waiting=scale.bar(ready, waited_to),
        held=scale.bar(claimed, held_to),
        running=scale.bar(begun, ended),
        wait_s=_seconds(ready, waited_to),
        held_s=_seconds(claimed, held_to),
        run_s=attempt.run_ms / 1000 if attempt.run_ms is not None else _seconds(begun, ended),
        is_at_most=attempt.ended_at is not None and not is_measured,
    )


def _run_of(
    attempt: Attempt, held_to: datetime, started_at: datetime | None
) -> tuple[datetime | None, datetime]:
    """From when to when its handler ran, within the time that it was at its worker.

    Of an attempt whose beginning is not known it is taken to have ended when that was written.
    """
    claimed = attempt.claimed_at
    if claimed is None:
        return None, held_to
    # Its line in the ledger may be a moment younger than what the row says.
    began = min(max(started_at, claimed), held_to) if started_at else None
    if attempt.ended_at is None:
        return began, held_to
    if attempt.run_ms is None:
        return began or claimed, held_to
    ran = timedelta(milliseconds=attempt.run_ms)
    began = began or max(claimed, held_to - ran)
    return began, min(began + ran, held_to)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return max((end - start) / timedelta(seconds=1), 0.0)


def _instant(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
