"""How the console writes instants, durations and numbers. Pure functions, used as Jinja filters.

As filters those that write a time of day do so in the zone that the reader has chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import wraps
from typing import Any

from flask import Flask
from markupsafe import Markup

from queueapp.console import preferences
from queueapp.jobs.queries import COUNT_LIMIT, Counted
from queueapp.jobs.status import Reason
from queueapp.jobs.why.words import elapsed

UNKNOWN = "–"
_OWN = {reason.value for reason in Reason}
_STOPPED = {
    Reason.CANARY_FAILED: "canary stopped: too few succeeded",
    Reason.CANARY_TIMED_OUT: "canary stopped: too few succeeded in time",
}


def init_app(app: Flask) -> None:
    """Make the functions known to templates, and let no text in them hide or turn others."""
    app.jinja_env.finalize = visible
    for function in (age, at_least, count, cut, duration, elapsed, event_words, iso, plural, rate,
                     reason_words, pretty, size, visible):  # fmt: skip
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.filters |= {
        "clock": _as_chosen(clock),
        "stamp": _as_chosen(stamp),
        "time_of": _as_chosen(time_of),
        "zone_of": _as_chosen(zone_of),
        "in_zone": _as_chosen(in_zone),
    }


def _as_chosen(write: Callable[..., str]) -> Callable[..., str]:
    """The same in the zone of whoever reads."""

    @wraps(write)
    def in_chosen(value: Any, *args: Any) -> str:
        return write(value, *args, zone=preferences.present().tz)

    return in_chosen


def iso(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, for programs: ``2026-11-29T15:04:05.123Z``."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp(instant: datetime, *, zone: tzinfo = UTC) -> str:
    """A full instant for people: ``2026-11-29 15:04:05 UTC``."""
    at = instant.astimezone(zone)
    return f"{at:%Y-%m-%d %H:%M:%S} {_short_name(at)}"


def clock(instant: datetime, *, zone: tzinfo = UTC) -> str:
    """The time of day alone: ``15:04:05``."""
    return f"{instant.astimezone(zone):%H:%M:%S}"


def time_of(instant: datetime, now: datetime, *, zone: tzinfo = UTC) -> str:
    """The time of day, with the date before it unless it is today's: ``11-28 23:59:59``.

    Where the clocks were put back or on since then, what they showed is named: ``02:30:00 CEST``.
    """
    at, today = instant.astimezone(zone), now.astimezone(zone)
    text = f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%m-%d %H:%M:%S}"
    return text if at.utcoffset() == today.utcoffset() else f"{text} {_short_name(at)}"


def zone_of(instant: datetime, *, zone: tzinfo = UTC) -> str:
    """What the clocks of the zone go by at an instant: ``UTC``, ``CET``, ``UTC-03``."""
    return _short_name(instant.astimezone(zone))


_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b", re.ASCII)


def in_zone(sentence: str, *, zone: tzinfo = UTC) -> str:
    """A sentence of the domain, which writes instants in UTC, with those of the zone instead."""

    def moved(match: re.Match[str]) -> str:
        try:
            return stamp(datetime.fromisoformat(f"{match[1]}+00:00"), zone=zone)
        except (ValueError, OverflowError):
            return match[0]

    return sentence if zone is UTC else _STAMP.sub(moved, sentence)


def _short_name(at: datetime) -> str:
    name = at.tzname() or "UTC"
    # Zones without letters of their own go by their offset.
    return name if name[0].isalpha() else f"UTC{name}"


def age(instant: datetime, now: datetime) -> str:
    """How far ``instant`` is from ``now``, in either direction: ``4 min 12 s``."""
    return elapsed(abs((now - instant).total_seconds()))


def duration(milliseconds: Any) -> str:
    """How long something took, finer below a minute: ``3 ms``, ``1.25 s``, ``4 min 12 s``."""
    if not isinstance(milliseconds, int | float):
        return UNKNOWN
    if 0 < milliseconds < 0.5:
        return "<1 ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.2f} s"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return elapsed(milliseconds / 1000)


def count(number: int | None, most: int | None = None, *, is_least: bool = False) -> str:
    """A bounded count: ``1,234``, ``10,000+`` past the bound, ``–`` when it is not known.

    ``most``: another bound; ``is_least``: there may be more.
    """
    if number is None:
        return UNKNOWN
    bound = COUNT_LIMIT if most is None else most
    return f"{min(number, bound):,}{'+' if is_least or number > bound else ''}"


def at_least(found: Counted) -> str:
    """A bounded count of some jobs: ``12+``, ``–`` where none was found and there may be some."""
    if not found.capped:
        return count(found.count)
    return f"{found.count:,}+" if found.count else UNKNOWN


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


def event_words(event: str) -> str:
    """The name of an event for people: ``operation stopped``."""
    return re.sub(r"^op_", "operation ", event).replace("_", " ")


def reason_words(reason: str | None) -> str:
    """A reason for people: theirs as they wrote it, the product's own in words."""
    if reason in _STOPPED:
        return _STOPPED[Reason(reason)]
    return reason.replace("_", " ") if reason in _OWN else reason or ""


def size(octets: int) -> str:
    """``512 bytes``, ``1.5 KiB``, ``2.0 MiB``."""
    if octets < 1024:
        return plural(octets, "byte")
    if octets < 1024 * 1024:
        return f"{octets / 1024:.1f} KiB"
    return f"{octets / 1024 / 1024:.1f} MiB"


# What shows nothing and acts on what is beside it: controls but for line ends and tabs, marks that
# turn the direction of text, and characters without a width.
_HIDDEN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    r"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def visible(value: Any) -> Any:
    """What every expression of a template gives, hidden characters as escapes: ``\\u202e``.

    Markup is as it was made. ``| e`` keeps the value of a field that a form sends back.
    """
    if not isinstance(value, str) or value.isprintable() or isinstance(value, Markup):
        return value
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value)


def cut(text: str, length: int) -> str:
    """``text``, or its beginning and ``…``; the whole belongs into a title beside it."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
