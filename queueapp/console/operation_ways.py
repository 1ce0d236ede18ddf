"""Where the page of an operation leads on to: the rest of it, or another way to the same end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import url_for

from queueapp.console.kinds import kind_address
from queueapp.console.operation_filter import list_of
from queueapp.jobs.operations import Operation

# Who wants so of too many jobs wants them out of the way.
_STOPPING = ("cancel", "hold", "reschedule")


def rest_address(made: Operation) -> str | None:
    """Where the rest of one that was stopped is planned: the jobs that its verb can move."""
    alike: Mapping[str, Any] | None = list_of(made.where) if made.undoes is None else None
    if made.state != "stopped" or alike is None:
        return None
    return url_for(
        ".new_operation", **alike, verb=made.verb, reason=made.reason, **_place_again(made.how)
    )


def _place_again(how: Mapping[str, Any]) -> dict[str, Any]:
    """Where a reschedule put its jobs, for the form that puts the rest there.

    It has no field for an instant, nor for parts of a minute: those are asked for anew.
    """
    minutes, rest_s = divmod(how.get("delay_s") or 0, 60)
    place = {} if how.get("priority") is None else {"to_priority": how["priority"]}
    if spread := int((how.get("spread_s") or 0) // 60):
        place["spread"] = spread
    return place if rest_s or not minutes else {**place, "minutes": int(minutes)}


def kind_instead(made: Operation) -> str | None:
    """The kind that is held instead of moving so many of its jobs, where that helps as well."""
    kind = made.asked.kind if made.verb in _STOPPING else None
    return kind if kind_address(kind) else None
