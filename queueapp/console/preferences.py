"""What readers have chosen for themselves: the zone and form of times, density, refresh and theme.

All of it stands in cookies, so that a page is drawn right from the start, without a script and
without a table of people. A cookie that says nothing usable is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from flask import g, has_request_context, request

# The first of each is the default.
DENSITIES = ("normal", "compact", "roomy")
# ``page``: each page at its own pace; else seconds at the least.
REFRESHES = ("page", "10", "30", "60", "off")
THEMES = ("auto", "light", "dark")
# ``both``: how long ago something was, and by the clock: what is written needs no pointer.
TIMES = ("ago", "both")
UTC_NAME = "UTC"
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Preferences:
    """How one reader wants to see the console. ``zone``: the name of a time zone."""

    zone: str = UTC_NAME
    density: str = DENSITIES[0]
    refresh: str = REFRESHES[0]
    theme: str = THEMES[0]
    times: str = TIMES[0]

    @property
    def tz(self) -> tzinfo:
        """The zone itself."""
        return UTC if self.zone == UTC_NAME else ZoneInfo(self.zone)

    @property
    def pace_s(self) -> int | None:
        """Seconds between two refreshes at the least; None: as the page has it, or never."""
        return int(self.refresh) if self.refresh.isdigit() else None


def present() -> Preferences:
    """Those of whoever asks; the defaults outside of a request."""
    if not has_request_context():
        return Preferences()
    if "preferences" not in g:
        g.preferences = read(request.cookies)
    found: Preferences = g.preferences
    return found


def read(cookies: Mapping[str, str]) -> Preferences:
    """What the cookies say."""
    zone = cookies.get("zone", UTC_NAME)
    return Preferences(
        zone if is_zone(zone) else UTC_NAME,
        _one_of(DENSITIES, cookies.get("density")),
        _one_of(REFRESHES, cookies.get("refresh")),
        _one_of(THEMES, cookies.get("theme")),
        _one_of(TIMES, cookies.get("times")),
    )


def is_zone(name: str) -> bool:
    """Whether this machine knows a time zone of that name."""
    return name == UTC_NAME or (len(name) <= _LONGEST_NAME and name in _known())


def zone_called(name: str) -> str | None:
    """The zone of that name, in whatever case it is written; None for what is no zone."""
    return name if is_zone(name) else _in_lower_case().get(name.lower())


@cache
def zones() -> tuple[str, ...]:
    """The zones to choose from: UTC and those of places."""
    places = (name for name in _known() if "/" in name and not name.startswith("Etc/"))
    return (UTC_NAME, *sorted(places))


@cache
def _known() -> frozenset[str]:
    # Found by a walk through the files of the zones: once is enough.
    return frozenset(available_timezones())


@cache
def _in_lower_case() -> dict[str, str]:
    return {name.lower(): name for name in (*_known(), UTC_NAME)}


def _one_of(choices: tuple[str, ...], wanted: str | None) -> str:
    return wanted if wanted in choices else choices[0]
