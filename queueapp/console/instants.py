"""Instants as people write them into a filter: so long ago, or a time by their own clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from queueapp.console.filters import iso

_AGO = re.compile(r"-([0-9]{1,5})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def canonical(text: str, zone: tzinfo) -> str:
    """``text`` so that it means the same to everybody: ``-2h``, or an instant in UTC.

    A time without an offset is one of ``zone``; of one that the clocks showed twice, the first.
    Raises ValueError that says what is wanted.
    """
    if _AGO.fullmatch(text):
        return text
    match = _WRITTEN.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        at = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ''}")
        at = at.replace(tzinfo=zone) if at.tzinfo is None else at
        if not _EARLIEST <= at < _LATEST:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(
            f"“{text[:100]}” is no time: write -2h, 2026-11-29 02:30 or 2026-11-29T02:30:00Z"
        ) from None
    return iso(at)


def instant_of(text: str, now: datetime) -> datetime:
    """The instant that a canonical text stands for."""
    if match := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    return datetime.fromisoformat(text)
