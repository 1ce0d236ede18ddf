"""The filter of a list as it stands in the address: read, checked, written back in one order.

A value that no job can have is never dropped silently: it becomes a sentence, and nothing matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flask import url_for
from werkzeug.datastructures import MultiDict

from queueapp.console.forms import Problem
from queueapp.jobs.queries import JobFilter, View
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.status import Status

FIELDS = ("kind", "producer", "priority", "fingerprint", "key", "operation")
FILTER = ("status", *FIELDS)
# What may stand in an address beside the filter: places in the list, and how the page was reached.
BESIDE = ("before", "after", "upto", "refresh", "done")
_STATUSES = {status.value for status in Status}
_VIEWS = {view.value for view in View}
_PRIORITY = re.compile(r"-?[0-9]{1,5}", re.ASCII)
_OPERATION = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True)
class Criteria:
    """``given``: the non-empty values as they were asked for; ``problems``: why nothing matches."""

    given: dict[str, list[str]]
    where: JobFilter
    problems: tuple[str, ...]

    def value(self, name: str) -> str:
        """What was asked for in a field, or nothing."""
        return self.given.get(name, [""])[0]

    @property
    def statuses(self) -> list[str]:
        """The statuses and views asked for."""
        return self.given.get("status", [])

    @property
    def is_narrow(self) -> bool:
        """Whether anything was asked for at all."""
        return bool(self.given)

    def url(self, **changes: Any) -> str:
        """The address of the same list with ``changes`` to the filter or the place in it."""
        merged: dict[str, Any] = {**self.given, **changes}
        kept = {name: value for name, value in merged.items() if value not in (None, "", [])}
        return url_for("console.jobs", **kept)


def read_criteria(args: MultiDict[str, str]) -> Criteria:
    """Read the filter from an address."""
    given = _given(args)
    problems = (*_unknown(args), *_bad_statuses(given), *_bad_fields(given))
    where = JobFilter() if problems else _filter(given)
    return Criteria(given, where, problems)


def has_empty_fields(args: MultiDict[str, str]) -> bool:
    """Whether a browser without scripts has sent fields that nobody filled in."""
    return any(not value.strip() for value in args.values())


def read_place(args: MultiDict[str, str], name: str) -> int | None:
    """An id in the address, None when it is missing or none."""
    text = args.get(name, "")
    if not re.fullmatch("[0-9]{1,19}", text) or not 0 < int(text) <= LARGEST_ID:
        return None
    return int(text)


def _given(args: MultiDict[str, str]) -> dict[str, list[str]]:
    # One order for everybody: two people who ask the same get the same address.
    found = {name: [v.strip() for v in args.getlist(name)] for name in FILTER}
    return {name: kept for name, values in found.items() if (kept := [v for v in values if v])}


def _unknown(args: MultiDict[str, str]) -> Iterable[str]:
    for name in args:
        if name not in (*FILTER, *BESIDE):
            yield f"There is no filter “{name[:100]}”."


def _bad_statuses(given: dict[str, list[str]]) -> Iterable[str]:
    statuses = given.get("status", [])
    for status in statuses:
        if status not in _STATUSES | _VIEWS:
            yield f"There is no status “{status[:100]}”."
    if len(statuses) > 1 and _VIEWS & set(statuses):
        yield "Due, scheduled and retrying cannot be combined with another status."


def _bad_fields(given: dict[str, list[str]]) -> Iterable[str]:
    for name in FIELDS:
        if any("\x00" in value for value in given.get(name, [])):
            yield Problem(f"No job has such a {name}.", name)
    priority = given.get("priority", ["0"])[0]
    if not _PRIORITY.fullmatch(priority) or not -(2**15) <= int(priority) < 2**15:
        said = f"“{priority[:100]}” is no priority: whole numbers from -32768 to 32767 are."
        yield Problem(said, "priority")
    for operation in given.get("operation", [])[:1]:
        if not _OPERATION.fullmatch(operation):
            said = f"“{operation[:100]}” is no operation: sixteen digits from 0 to f are."
            yield Problem(said, "operation")


def _filter(given: dict[str, list[str]]) -> JobFilter:
    first = {name: values[0] for name, values in given.items()}
    statuses = given.get("status", [])
    views = [View(status) for status in statuses if status in _VIEWS]
    return JobFilter(
        status=tuple(Status(status) for status in statuses if status in _STATUSES),
        view=views[0] if views else None,
        kind=first.get("kind"),
        producer=first.get("producer"),
        priority=int(first["priority"]) if "priority" in first else None,
        fingerprint=first.get("fingerprint"),
        idempotency_key=first.get("key"),
        operation=first.get("operation"),
    )
