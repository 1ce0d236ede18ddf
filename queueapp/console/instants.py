"""Instants as people write them into a filter: so long ago, or a time by their own clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime, timedelta, tzinfo

from queueapp.console.filters import iso, stamp
from queueapp.console.forms import Problem
from queueapp.jobs.queries import Span

# The ends of a span in an address.
ENDS = ("since", "until")
_AGO = re.compile(r"-([0-9]{1,5})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def canonical(text: str, zone: tzinfo) -> str:
    """``text`` so that it means the same to everybody: ``-2h``, or an instant in UTC.

    A time without an offset is one of ``zone``. Raises ValueError that says what is wanted: also
    for a time that the clocks there leapt over, and for one that they showed twice.
    """
    return text if _AGO.fullmatch(text) else written(text, zone, others="-2h, ")


def written(text: str, zone: tzinfo, *, others: str = "") -> str:
    """The same for a time alone. ``others``: what else could have been written."""
    match = _WRITTEN.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        at = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ''}")
        earlier, later = (at, at) if at.tzinfo else _readings(at, zone)
        if not _EARLIEST <= earlier < _LATEST:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(
            f"“{text[:100]}” is no time: write {others}2026-11-29 02:30 or 2026-11-29T02:30:00Z"
        ) from None
    if earlier == later:
        return iso(earlier)
    if earlier.astimezone(zone).replace(tzinfo=None, fold=0) == at:
        raise ValueError(
            f"“{text}” came twice by the clock of {zone}, which was set back: write {iso(earlier)}"
            f" or {iso(later)}"
        )
    raise ValueError(
        f"“{text}” never came by the clock of {zone}, which was set forward: did you mean"
        f" {iso(later)} or {iso(earlier)}?"
    )


def write_canonically(given: MutableMapping[str, str], zone: tzinfo) -> Iterator[Problem]:
    """Write the ends of the span among ``given`` canonically; tell of what is none."""
    for name in ENDS:
        if name in given:
            try:
                given[name] = canonical(given[name], zone)
            except ValueError as error:
                yield Problem(as_sentence(str(error)), name)


def as_sentence(said: str) -> str:
    """With a full stop, unless it ends as a sentence already."""
    return said if said.endswith(("?", "!", ".")) else f"{said}."


def span_of(given: MutableMapping[str, str], now: datetime) -> Span:
    """The span that canonical ends among ``given`` stand for at an instant."""
    return Span(*(instant_of(given[name], now) if name in given else None for name in ENDS))


def is_moving(given: MutableMapping[str, str]) -> bool:
    """Whether the span goes along with the clock."""
    return any(_AGO.fullmatch(given.get(name, "")) for name in ENDS)


def nothing_between(span: Span, zone: tzinfo) -> Problem | None:
    """What is wrong with a span that holds no instant."""
    if span.start is None or span.end is None or span.start < span.end:
        return None
    since, until = (stamp(at, zone=zone) for at in (span.start, span.end))
    said = f"No time lies between: since is {since}, and until is {until}."
    return Problem(said, "until")


def _readings(at: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """What a time by the clock of ``zone`` may stand for, in UTC: the same twice, but twice a year
    before and after the clock is set.
    """
    first, second = (at.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def instant_of(text: str, now: datetime) -> datetime:
    """The instant that a canonical text stands for."""
    if match := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    return datetime.fromisoformat(text)
