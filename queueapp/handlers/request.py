"""A request for one job, and the check of every field of it.

All problems are found, not just the first. The check never says a value back: problems go into
answers and logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from queueapp.errors import InvalidJob
from queueapp.handlers import policy, registry
from queueapp.handlers.context import LONGEST_DELAY_S
from queueapp.handlers.json_limits import encode_payload, text_problem
from queueapp.handlers.problems import Problem, problem
from queueapp.jobs.names import KIND

LONGEST_KEY = 200
LEAST_PRIORITY, MOST_PRIORITY = -(2**15), 2**15 - 1
# Rows and their ledger have years of four digits; nobody means a time before this one.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class NotSent(Enum):
    """The type of ``NOT_SENT``, which no JSON value equals."""

    NOT_SENT = "not sent"

    def __repr__(self) -> str:
        return self.name


NOT_SENT: Final = NotSent.NOT_SENT
_NotSent: TypeAlias = Literal[NotSent.NOT_SENT]


# Not frozen: thousands are made at once, and each of its fields would cost a call.
@dataclass(kw_only=True)
class EnqueueRequest:
    """One job as asked for; what was not sent stays ``NOT_SENT`` (None is a value, and refused).

    ``priority``: higher runs first. ``delay``: seconds or timedelta from now; ``available_at``: an
    aware datetime or RFC 3339 text; not both. ``timeout``: whole seconds for one attempt, 0 for
    none. ``key``: the idempotency key. ``payload``: an object, empty when not sent.
    """

    kind: str
    payload: dict[str, Any] | _NotSent = NOT_SENT
    priority: int | _NotSent = NOT_SENT
    delay: float | timedelta | _NotSent = NOT_SENT
    available_at: datetime | str | _NotSent = NOT_SENT
    max_attempts: int | _NotSent = NOT_SENT
    timeout: int | _NotSent = NOT_SENT
    key: str | _NotSent = NOT_SENT

    def sent(self) -> dict[str, Any]:
        """The fields that were sent, by name."""
        return {name: value for name, value in vars(self).items() if value is not NOT_SENT}


def instant(value: datetime | str) -> datetime:
    """Read ``available_at``. Raises ValueError that says what is wanted."""
    if isinstance(value, str):
        if not _RFC_3339.fullmatch(value):
            raise ValueError("must be an RFC 3339 time with an offset, as 2030-01-31T08:00:00Z")
        # Finer than microseconds is nothing that PostgreSQL keeps.
        value = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value.upper()))
    if not isinstance(value, datetime):
        raise ValueError("must be a time with an offset, as 2030-01-31T08:00:00Z")
    if value.tzinfo is None:
        raise ValueError("must have an offset or time zone")
    return value.astimezone(UTC)


def request_problems(request: EnqueueRequest) -> list[Problem]:
    """List everything that is wrong with ``request``; empty when it can be enqueued."""
    return check_sent(request.sent())[1]


def check_sent(sent: dict[str, Any]) -> tuple[str, list[Problem]]:
    """The payload as JSON text, and everything that is wrong with the fields of a request.

    The text is written once, for the check and for the database.
    """
    found = []
    for name, value in sent.items():
        if name != "payload" and (detail := _CHECKS[name](value)):
            found.append(problem((name,), detail))
    if "delay" in sent and "available_at" in sent:
        found.append(problem(("delay",), "give either delay or available_at"))
    text, of_payload = _check_payload(sent["kind"], sent.get("payload", {}))
    return text, found + of_payload if found else of_payload


def is_unknown(kind: Any) -> bool:
    """Whether ``kind`` could be a kind, but nothing here runs it and no setting lets it in."""
    rules = policy.current()
    return (
        _known(kind) is None
        and _kind_fault(kind) is None
        and not rules.accept_unknown_kinds
        and kind not in rules.external_kinds
    )


def _check_payload(kind: Any, payload: Any) -> tuple[str, list[Problem]]:
    text, found = encode_payload(payload)
    known = _known(kind)
    if found or known is None:
        return text, found
    try:
        known.check_json(text)
    except InvalidJob as error:
        return text, list(error.context["errors"])
    return text, []


def _known(kind: Any) -> registry.Handler | None:
    return registry.find(kind) if isinstance(kind, str) else None


def _kind_fault(kind: Any) -> str | None:
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        return "must be a lower-case letter, then at most 99 of a-z 0-9 _ . -"
    return None


def _unfit_kind(kind: Any) -> str | None:
    if _known(kind) is not None:
        return None
    return "no handler here runs this kind" if is_unknown(kind) else _kind_fault(kind)


def _whole(least: int, most: int) -> Callable[[Any], str | None]:
    def fault(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return f"must be a whole number from {least} to {most}"
        return None

    return fault


def _delay_fault(value: Any) -> str | None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "must be a number of seconds"
    return None if 0 <= seconds <= LONGEST_DELAY_S else "must be from 0 seconds to 10 years"


def _available_at_fault(value: Any) -> str | None:
    try:
        ahead = instant(value) - datetime.now(UTC)
    except ValueError as error:
        # A date that is well written but does not exist, such as 30 February, or is out of range.
        wanted = str(error)
        return wanted if wanted.startswith("must") else "is no such date or time"
    except OverflowError:
        return "is no such date or time"
    if instant(value) < EARLIEST:
        return "must be 1970-01-01T00:00:00Z or later"
    return "must be at most 10 years ahead" if ahead.total_seconds() > LONGEST_DELAY_S else None


def _key_fault(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_KEY:
        return f"must be text of 1 to {LONGEST_KEY} characters, not only white space"
    return text_problem(value)


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "kind": _unfit_kind,
    "priority": _whole(LEAST_PRIORITY, MOST_PRIORITY),
    "delay": _delay_fault,
    "available_at": _available_at_fault,
    "max_attempts": _whole(1, registry.MOST_ATTEMPTS),
    "timeout": _whole(0, registry.LONGEST_TIMEOUT_S),
    "key": _key_fault,
}
