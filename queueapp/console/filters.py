"""How the console writes instants, durations and numbers. Pure functions, used as Jinja filters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from flask import Flask

from queueapp.jobs.queries import COUNT_LIMIT

UNKNOWN = "–"
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def init_app(app: Flask) -> None:
    """Make the functions known to templates."""
    for function in (
        age,
        clock,
        count,
        cut,
        duration,
        elapsed,
        iso,
        plural,
        rate,
        pretty,
        size,
        stamp,
        time_of,
    ):
        app.jinja_env.filters[function.__name__] = function


def iso(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, for programs: ``2026-11-29T15:04:05.123Z``."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp(instant: datetime) -> str:
    """A full instant for people: ``2026-11-29 15:04:05 UTC``."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(instant: datetime) -> str:
    """The time of day alone: ``15:04:05``."""
    return f"{instant.astimezone(UTC):%H:%M:%S}"


def time_of(instant: datetime, now: datetime) -> str:
    """The time of day, with the date before it unless it is today's: ``11-28 23:59:59``."""
    at, today = instant.astimezone(UTC), now.astimezone(UTC)
    return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%m-%d %H:%M:%S}"


def age(instant: datetime, now: datetime) -> str:
    """How far ``instant`` is from ``now``, in either direction: ``4m 12s``."""
    return elapsed(abs((now - instant).total_seconds()))


def elapsed(seconds: float) -> str:
    """Whole seconds in the two largest units: ``45s``, ``4m 12s``, ``2d 04h``."""
    whole = int(seconds)
    for place, (unit, length) in enumerate(_UNITS[:-1]):
        if whole >= length:
            smaller, below = _UNITS[place + 1]
            return f"{whole // length}{unit} {whole % length // below:02d}{smaller}"
    return f"{whole}s"


def duration(milliseconds: Any) -> str:
    """How long something took, finer below a minute: ``3 ms``, ``1.25 s``, ``4m 12s``."""
    if not isinstance(milliseconds, int | float):
        return UNKNOWN
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.2f} s"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return elapsed(milliseconds / 1000)


def count(number: int | None) -> str:
    """A bounded count: ``1,234``, ``10,000+`` past the bound, ``–`` when it is not known."""
    if number is None:
        return UNKNOWN
    return f"{COUNT_LIMIT:,}+" if number > COUNT_LIMIT else f"{number:,}"


def rate(number: float | None) -> str:
    """How many a minute: whole from 10 on, else with a decimal, ``–`` when it is not known."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


def plural(number: int, word: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def size(octets: int) -> str:
    """``512 bytes``, ``1.5 KiB``, ``2.0 MiB``."""
    if octets < 1024:
        return plural(octets, "byte")
    if octets < 1024 * 1024:
        return f"{octets / 1024:.1f} KiB"
    return f"{octets / 1024 / 1024:.1f} MiB"


def cut(text: str, length: int) -> str:
    """``text``, or its beginning and ``…``; the whole belongs into a title beside it."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
