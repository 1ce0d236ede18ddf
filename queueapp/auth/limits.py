"""What one token may do within its role: which kinds, how urgent, how far ahead, large and fast.

Pure; the counting of rates stands in ``queueapp.auth.rates``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from queueapp.auth.roles import Role
from queueapp.config.readers import duration, kinds, size, whole
from queueapp.errors import BeyondLimit
from queueapp.handlers import check
from queueapp.handlers.problems import Place, Problem, problem
from queueapp.handlers.request import LEAST_PRIORITY, MOST_PRIORITY, EnqueueRequest, instant
from queueapp.jobs.transitions import NewJob

# Which limits a role can have; the others are made for people, who decide for themselves.
_OF_ROLE = {
    Role.PRODUCER: ("kinds", "priority", "delay", "payload", "rate", "burst"),
    Role.WORKER: ("kinds",),
}
_MOST_JOBS = 10_000_000
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FIELDS = {
    "kinds": "kinds",
    "priority": "highest_priority",
    "delay": "longest_delay_s",
    "payload": "largest_payload",
    "rate": "rate",
    "burst": "burst",
}


@dataclass(frozen=True)
class Rate:
    """So many jobs in so many seconds; at once as many as ``burst``."""

    jobs: int
    seconds: int
    burst: int


def _rate(text: str) -> Rate:
    match = re.fullmatch(r"(\d{1,9})/([smhd])", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= _MOST_JOBS:
        raise ValueError("expected a rate such as 100/s, 600/m or 5000/h")
    return Rate(int(match[1]), _SECONDS[match[2]], int(match[1]))


def _above_zero(text: str) -> int:
    if not (found := size(text)):
        raise ValueError("expected a size such as 64KB, above zero")
    return found


def _some(text: str) -> frozenset[str]:
    if not (found := kinds(text)):
        raise ValueError("expected one kind at least")
    return frozenset(found)


_READ: dict[str, Callable[[str], Any]] = {
    "kinds": _some,
    "priority": whole(LEAST_PRIORITY, MOST_PRIORITY),
    "delay": duration,
    "payload": _above_zero,
    "rate": _rate,
    "burst": whole(1, _MOST_JOBS),
}


@dataclass(frozen=True)
class Limits:
    """None: no limit. ``longest_delay_s``: seconds from now to the time when a job is due.

    ``largest_payload``: bytes as compact JSON.
    """

    kinds: frozenset[str] | None = None
    highest_priority: int | None = None
    longest_delay_s: float | None = None
    largest_payload: int | None = None
    rate: Rate | None = None

    @classmethod
    def read(cls, role: Role, texts: Sequence[str]) -> Limits:
        """Read ``kinds=a,b``, ``priority=5``, ``delay=1h``.

        Raises ValueError for what is none; it begins with the name of the limit.
        """
        found: dict[str, Any] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if name not in _OF_ROLE.get(role, ()):
                known = ", ".join(_OF_ROLE.get(role, ())) or "none"
                # Not what nobody knows: people paste a token in its place.
                asked = f"{name}: " if name in _FIELDS else ""
                raise ValueError(f"{asked}limits of the role {role} are {known}")
            if _FIELDS[name] in found or not re.fullmatch(r"\S+", value):
                raise ValueError(f"{name}: it is given once, as {name}=value")
            try:
                found[_FIELDS[name]] = _READ[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        burst = found.pop("burst", None)
        if burst is not None:
            if "rate" not in found:
                raise ValueError("burst: it needs a rate beside it")
            found["rate"] = replace(found["rate"], burst=burst)
        return cls(**found)

    def allow(self, kind: str) -> bool:
        """Whether the kind is one of those that the token may have to do with."""
        return self.kinds is None or kind in self.kinds

    def of_request(self, wanted: EnqueueRequest) -> list[tuple[str, Problem]]:
        """Each limit that the request is beyond, by name; what is invalid anyway is passed over."""
        if self == NONE:
            return []
        sent = wanted.sent()
        delay, due = sent.get("delay"), sent.get("available_at")
        found = []
        if not self.allow(wanted.kind):
            found.append(_beyond("kinds", ("kind",), "this token may not create jobs of this kind"))
        if _is_above(sent.get("priority", 0), self.highest_priority):
            said = f"this token may ask for {self.highest_priority} at most"
            found.append(_beyond("priority", ("priority",), said))
        said = f"this token may ask for {self.longest_delay_s or 0:g} seconds ahead at most"
        if _is_above(delay, self.longest_delay_s):
            found.append(_beyond("delay", ("delay",), said))
        if _is_above(_ahead(due), self.longest_delay_s):
            found.append(_beyond("delay", ("available_at",), said))
        return found

    def of_job(self, job: NewJob) -> list[tuple[str, Problem]]:
        """The limit that the checked job is beyond."""
        if self.largest_payload is None or len(job.payload.encode()) <= self.largest_payload:
            return []
        said = f"this token may send {self.largest_payload} bytes as compact JSON at most"
        return [_beyond("payload", ("payload",), said)]

    def of_lease(self, asked: Iterable[str]) -> list[tuple[str, Problem]]:
        """Each kind of a request for leases that the token may not lease."""
        return [
            _beyond("kinds", ("kinds", place), "this token may not lease jobs of this kind")
            for place, kind in enumerate(asked)
            if not self.allow(kind)
        ]


def checked_within(wanted: EnqueueRequest, limits: Limits) -> NewJob:
    """The job that is asked for. Raises BeyondLimit, and InvalidJob."""
    # First: what a token may not create, it need not learn about.
    refuse(limits.of_request(wanted))
    job = check(wanted)
    refuse(limits.of_job(job))
    return job


# Most tokens have none, and pay for none.
NONE = Limits()


def refuse(found: Sequence[tuple[str, Problem]]) -> None:
    """Raise BeyondLimit, which names the limits and the places, if there are any."""
    if found:
        errors = [problem for _, problem in found]
        said = f"{errors[0]['pointer']} {errors[0]['detail']}"
        raise BeyondLimit(said, errors=errors, limit=found[0][0])


def _beyond(limit: str, place: Place, detail: str) -> tuple[str, Problem]:
    return limit, problem(place, f"{detail} (its limit {limit})")


def _is_above(value: Any, limit: float | None) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return limit is not None and is_number and value > limit


def _ahead(due: Any) -> float | None:
    """Seconds from now; None for what is no instant."""
    try:
        return None if due is None else (instant(due) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
