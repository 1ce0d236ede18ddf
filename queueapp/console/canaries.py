"""Canary retries that were stopped for their first jobs, as lists of lines tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from queueapp.console.operation_story import stopped_canary
from queueapp.console.readings import tried
from queueapp.errors import OperationNotFound
from queueapp.jobs import operations
from queueapp.jobs.status import Event, Reason

# Of one page, so many are looked up; the others are told without their numbers.
MOST = 20
STOPS = (Reason.CANARY_FAILED, Reason.CANARY_TIMED_OUT)


def ends_of(session: Session, lines: Iterable[Any]) -> Mapping[int, str]:
    """By the id of its line, what stopped a canary: ``canary stopped: 2 of 5 succeeded``.

    ``lines``: each with ``id``, ``event``, ``reason`` and ``scope``.
    """
    ended = [line for line in lines if line.event == Event.OP_STOPPED and line.reason in STOPS]
    told = {line.id: _said(session, line.scope) for line in ended[:MOST]}
    return {line_id: said for line_id, said in told.items() if said}


def _said(session: Session, scope: str | None) -> str | None:
    made = tried(session, _found, (scope or "").removeprefix("op:")).value
    return stopped_canary(made) if made else None


def _found(session: Session, operation_id: str) -> operations.Operation | None:
    try:
        return operations.find(session, operation_id)
    # Also lines as another release may have written them.
    except (OperationNotFound, LookupError, TypeError, ValueError):
        return None
