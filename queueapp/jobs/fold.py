"""What a job's events lead to: its history replayed, and every step that is not legal. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from queueapp.jobs.status import ASIDE, CONTROL_EVENTS, Event, Status, is_legal

# What events carry in ``data`` when they change it.
FOLDED = (
    "attempts",
    "handbacks",
    "priority",
    "available_at",
    "cancel_requested_at",
    "error_fingerprint",
)
_INSTANTS = ("available_at", "cancel_requested_at")
_OF_JOBS = frozenset(Event) - frozenset(CONTROL_EVENTS)


@dataclass
class Folded:
    """What a job's events say its row must be. ``status`` None: no row."""

    status: str | None = None
    attempts: int = 0
    handbacks: int = 0
    priority: int = 0
    available_at: datetime | str | None = None
    cancel_requested_at: datetime | str | None = None
    error_fingerprint: str | None = None
    lease_token: UUID | None = None


def fold(events: Iterable[Any]) -> tuple[Folded, list[str]]:
    """Replay ``events`` (in id order) and return the state they lead to, and every illegal step."""
    state, problems = Folded(), []
    for event in events:
        if event.event in ASIDE:
            continue
        problems += [f"event {event.id}: {problem}" for problem in _problems(state, event)]
        _apply(state, event)
    return state, problems


def _problems(state: Folded, event: Any) -> list[str]:
    name, source, target = event.event, event.from_status, event.to_status
    if name not in _OF_JOBS:
        return [f"a job has no event {name}"]
    problems = []
    if not is_legal(name, source, target):
        problems.append(f"{name} from {source} to {target} is no legal move")
    if source != state.status:
        problems.append(f"{name} starts at {source}, the job was {state.status}")
    if name == Event.CLAIMED and event.attempt != state.attempts + 1:
        problems.append(f"attempt {event.attempt} was claimed after {state.attempts}")
    # A person's event names no token: it takes the job from whoever has it.
    if source == Status.RUNNING and event.lease_token not in (None, state.lease_token):
        problems.append(f"{name} for token {event.lease_token}, not for the one claimed last")
    return problems


def _apply(state: Folded, event: Any) -> None:
    state.status = event.to_status
    if event.event == Event.CLAIMED:
        state.attempts, state.lease_token = event.attempt, event.lease_token
    elif event.event == Event.SUCCEEDED:
        state.error_fingerprint = None
    if state.status != Status.RUNNING:
        state.lease_token = None
    data = event.data or {}
    for part in FOLDED:
        if part in data:
            setattr(state, part, _instant(data[part]) if part in _INSTANTS else data[part])


def _instant(text: Any) -> datetime | str | None:
    """The instant that an event carries as text in some zone; the text itself if it is none."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        return str(text)
