"""The filter of a list as it stands in the address: read, checked, written back in one order.

A value that no job can have is never dropped silently: it becomes a sentence, and nothing matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from flask import url_for
from werkzeug.datastructures import MultiDict

from queueapp.console import preferences
from queueapp.console.forms import Problem
from queueapp.console.instants import (
    ENDS,
    is_moving,
    nothing_between,
    span_of,
    write_canonically,
)
from queueapp.handlers.registry import MOST_ATTEMPTS
from queueapp.jobs.names import OPERATION
from queueapp.jobs.queries import (
    JobFilter,
    PayloadField,
    View,
    payload_field,
    payload_fields,
    read_payload_field,
)
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.status import Status
from queueapp.redaction import Redaction, for_reader

T = TypeVar("T")

# Behind “More filters”.
MORE = (*ENDS, "worker", "attempts")
FIELDS = ("kind", "producer", "priority", "fingerprint", "key", "operation", *MORE)
FILTER = ("status", *FIELDS)
# One field of the payload each: ``payload.order.id=42``; a form sends ``payload=order.id=42``.
PAYLOAD = "payload"
# What may stand in an address beside the filter: places in the list, and how the page was reached.
BESIDE = ("before", "after", "upto", "refresh", "done")
_STATUSES = {status.value for status in Status}
_VIEWS = {view.value for view in View}
_PRIORITY = re.compile(r"-?[0-9]{1,5}", re.ASCII)
_ATTEMPTS = re.compile(r"(>=|≥)? ?([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True)
class Criteria:
    """``given``: the non-empty values as they were asked for; ``problems``: why nothing matches.

    ``is_written_otherwise``: the address has empty fields, or values by another spelling.
    ``is_moving``: what matches depends on the clock.
    """

    given: dict[str, list[str]]
    where: JobFilter
    problems: tuple[str, ...]
    is_written_otherwise: bool = False
    is_moving: bool = False

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

    @property
    def narrows_within(self) -> bool:
        """Whether anything but a status or a view was asked for."""
        return any(name != "status" for name in self.given)

    @property
    def payload(self) -> list[str]:
        """The fields of the payload as a form has them: ``path=value``."""
        return [
            value if name == PAYLOAD else f"{name.removeprefix(f'{PAYLOAD}.')}={value}"
            for name, values in self.given.items()
            if is_of_payload(name)
            for value in values
        ]

    @property
    def has_more(self) -> bool:
        """Whether anything was asked for that is seldom asked."""
        return any(name in MORE or is_of_payload(name) for name in self.given)

    def url(self, endpoint: str = "console.jobs", /, **changes: Any) -> str:
        """The address of the same list with ``changes`` to the filter or the place in it.

        ``endpoint``: another page that takes the same filter.
        """
        merged: dict[str, Any] = {**self.given, **changes}
        kept = {name: value for name, value in merged.items() if value not in (None, "", [])}
        return url_for(endpoint, **kept)


def read_criteria(
    args: MultiDict[str, str], now: datetime, hidden: Redaction | None = None
) -> Criteria:
    """Read the filter from an address, at an instant of the database's clock.

    ``hidden``: the fields of payloads that may not be asked for; the reader's own unless given.
    """
    given = _given(args)
    asked = {name: list(values) for name, values in given.items()}
    problems = [*_unknown(args), *given_twice(args, FIELDS), *_bad_statuses(given)]
    problems += [*_bad_fields(given), *_bad_payload(given), *_bad_times(given, now)]
    where = JobFilter() if problems else _filter(given, now)
    hides = for_reader() if hidden is None else hidden
    if path := hides.covered(where.kind, (field.path for field in where.payload)):
        why = "only admins see it" if hidden is None else "a plan is kept for all to read"
        said = f"“{path[:100]}” is hidden, so it cannot be asked for: {why}."
        problems, where = [Problem(said, PAYLOAD)], JobFilter()
    is_of_form = PAYLOAD in args and PAYLOAD not in given
    otherwise = asked != given or has_empty_fields(args) or is_of_form
    return Criteria(given, where, tuple(problems), otherwise, is_moving(_firsts(given)))


def has_empty_fields(args: MultiDict[str, str]) -> bool:
    """Whether a browser without scripts has sent fields that nobody filled in."""
    return any(not value.strip() for value in args.values())


def no_filter(name: str) -> str:
    """What is said of a parameter that a list does not know."""
    return f"There is no filter “{name[:100]}”."


def given_twice(args: MultiDict[str, str], names: Iterable[str]) -> Iterable[Problem]:
    """Fields that have one value each, for which the address has several."""
    for name in names:
        values = dict.fromkeys(value.strip() for value in args.getlist(name) if value.strip())
        if len(values) > 1:
            first, second, *_ = (value[:100] for value in values)
            yield Problem(f"Only one {name} can be asked for, not “{first}” and “{second}”.", name)


def is_of_payload(name: str) -> bool:
    """Whether a parameter is about the payload."""
    return name.partition(".")[0] == PAYLOAD


def read_place(args: MultiDict[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    """A place in a list; None when the address has none, or one that ``parse`` refuses."""
    text = args.get(name, "")
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def parse_id(text: str) -> int:
    """The id of a job. Raises ValueError for what cannot be one."""
    if not re.fullmatch("[0-9]{1,19}", text) or not 0 < int(text) <= LARGEST_ID:
        raise ValueError("expected the id of a job")
    return int(text)


def unread_place(args: MultiDict[str, str], places: Mapping[str, object]) -> str:
    """What the address has for a place in the list and is none, or nothing.

    ``places``: by their parameters those that were read.
    """
    lost = (args.get(name, "").strip() for name, place in places.items() if place is None)
    return next(filter(None, lost), "")


def _given(args: MultiDict[str, str]) -> dict[str, list[str]]:
    # One order for everybody: two people who ask the same get the same address.
    found = [(name, args.getlist(name)) for name in FILTER]
    found += sorted(_payload_of(args).items())
    stripped = ((name, [v.strip() for v in values]) for name, values in found)
    return {name: kept for name, values in stripped if (kept := [v for v in values if v])}


def _payload_of(args: MultiDict[str, str]) -> dict[str, list[str]]:
    """What is asked of the payload, ``path=value`` of a form under ``payload.path``."""
    found: dict[str, list[str]] = {}
    for name, values in args.lists():
        for value in values if is_of_payload(name) else ():
            path, equals, rest = value.partition("=") if name == PAYLOAD else ("", "", value)
            as_field = f"{PAYLOAD}.{path.strip()}" if equals else name
            found.setdefault(as_field, []).append(rest if equals else value)
    return found


def _unknown(args: MultiDict[str, str]) -> Iterable[str]:
    for name in args:
        if name not in (*FILTER, *BESIDE) and not is_of_payload(name):
            yield no_filter(name)


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
        if not OPERATION.fullmatch(operation):
            said = f"“{operation[:100]}” is no operation: sixteen digits from 0 to f are."
            yield Problem(said, "operation")
    yield from _bad_attempts(given)


def _bad_attempts(given: dict[str, list[str]]) -> Iterable[str]:
    for text in given.get("attempts", [])[:1]:
        found = _ATTEMPTS.fullmatch(text)
        if found is None or int(found[2]) > MOST_ATTEMPTS:
            said = f"“{text[:100]}” is no number of attempts: write 3, or >=3 for three and more."
            yield Problem(said, "attempts")
        else:
            canonical = f"{'>=' if found[1] else ''}{int(found[2])}"
            given["attempts"] = [canonical, *given["attempts"][1:]]


def _bad_times(given: dict[str, list[str]], now: datetime) -> Iterable[Problem]:
    firsts, zone = _firsts(given), preferences.present().tz
    bad = list(write_canonically(firsts, zone))
    given |= {name: [text, *given[name][1:]] for name, text in firsts.items()}
    nothing = None if bad else nothing_between(span_of(firsts, now), zone)
    return bad if nothing is None else [nothing]


def _firsts(given: dict[str, list[str]]) -> dict[str, str]:
    """The ends of the span, which have one value each."""
    return {name: given[name][0] for name in ENDS if name in given}


def _bad_payload(given: dict[str, list[str]]) -> Iterable[Problem]:
    try:
        _fields(given)
    except ValueError as error:
        said = str(error)
        yield Problem(f"{said[:1].upper()}{said[1:]}.", PAYLOAD)


def _fields(given: dict[str, list[str]]) -> tuple[PayloadField, ...]:
    """The fields of the payload that are asked for. Raises ValueError."""
    found = [
        read_payload_field(value)
        if name == PAYLOAD
        else payload_field(name.removeprefix(f"{PAYLOAD}."), value)
        for name, values in given.items()
        if is_of_payload(name)
        for value in values
    ]
    return payload_fields(found)


def _filter(given: dict[str, list[str]], now: datetime) -> JobFilter:
    first = {name: values[0] for name, values in given.items()}
    statuses = given.get("status", [])
    views = [View(status) for status in statuses if status in _VIEWS]
    attempts = first.get("attempts", "")
    number = int(attempts.removeprefix(">=")) if attempts else None
    is_least = attempts.startswith(">=")
    return JobFilter(
        status=tuple(Status(status) for status in statuses if status in _STATUSES),
        view=views[0] if views else None,
        kind=first.get("kind"),
        producer=first.get("producer"),
        priority=int(first["priority"]) if "priority" in first else None,
        fingerprint=first.get("fingerprint"),
        idempotency_key=first.get("key"),
        operation=first.get("operation"),
        worker=first.get("worker"),
        attempts=None if is_least else number,
        attempts_min=number if is_least else None,
        payload=_fields(given),
        created=span_of(_firsts(given), now),
    )
