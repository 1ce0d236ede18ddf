"""How the text of a setting is read: each reader raises ValueError that says what it wants."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from queueapp.jobs.names import KIND
from queueapp.jobs.verdict.thresholds import KINDS, Thresholds

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_TAKEN = ("authorization", "cookie", "host", "origin", "referer", "x-forwarded-for")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+")


def duration(text: str) -> float:
    """Seconds in ``text``; raises ValueError when it is no duration."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError("expected a duration such as 90, 90s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def positive_duration(text: str) -> float:
    """A duration above zero."""
    seconds = duration(text)
    if seconds <= 0:
        raise ValueError("expected a duration above zero")
    return seconds


def up_to_a_day(text: str) -> float:
    """A duration from a second to a day: what a lost lease costs."""
    seconds = duration(text)
    if not 1 <= seconds <= _UNITS["d"]:
        raise ValueError("expected 1s to 1d: a lost job waits that long")
    return seconds


def up_to_a_year(text: str) -> float:
    """A duration from a minute to a year."""
    seconds = duration(text)
    if not _UNITS["m"] <= seconds <= 365 * _UNITS["d"]:
        raise ValueError("expected 1m to 365d")
    return seconds


def a_day_at_least(text: str) -> float:
    """A duration of a day or more."""
    seconds = duration(text)
    if seconds < _UNITS["d"]:
        raise ValueError("expected a duration of at least 1d")
    return seconds


def size(text: str) -> int:
    """Bytes in ``text``, a kilobyte being 1024; raises ValueError when it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError("expected a size such as 512MB or 2GB, 0 for no limit")
    return int(float(match[1]) * 1024 ** _SIZES[match[2].lower()])


def kinds(text: str) -> tuple[str, ...]:
    """Names that can be kinds."""
    found = names(text)
    for name in found:
        if not KIND.fullmatch(name):
            raise ValueError(f"{name!r} is no kind: a lower-case letter, then a-z 0-9 _ . -")
    return found


def whole(least: int, most: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from ``least`` to ``most``."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?\d+", text.strip()) or not least <= int(text) <= most:
            raise ValueError(f"expected a whole number from {least} to {most}")
        return int(text)

    return read


def switch(text: str) -> bool:
    """Read on or off."""
    known = {"1": True, "true": True, "yes": True, "on": True}
    known |= {"0": False, "false": False, "no": False, "off": False, "": False}
    if text.strip().lower() not in known:
        raise ValueError("expected 1 or 0")
    return known[text.strip().lower()]


def prefix(text: str) -> str:
    """A path without a slash at its end; empty for none."""
    path = text.strip().rstrip("/")
    if path and not _PREFIX.fullmatch(path):
        raise ValueError("expected a path such as /queue: letters, digits, - _ . ~")
    return path


class Redacted(NamedTuple):
    """A field that only admins see, of the jobs of ``kind`` (``*``: of any)."""

    kind: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{'.'.join(self.path)}"


def redactions(text: str) -> tuple[Redacted, ...]:
    """Fields as kind and path: ``mail.send:to``, ``*:password``, ``pay:card.number``."""
    found = []
    for entry in text.replace(",", " ").split():
        kind, _, path = entry.partition(":")
        names = tuple(path.split("."))
        if not all(names) or (kind != "*" and not KIND.fullmatch(kind)):
            raise ValueError(f"expected entries such as mail.send:to or *:password, not {entry!r}")
        found.append(Redacted(kind, names))
    return tuple(found)


def thresholds(text: str) -> Thresholds:
    """Thresholds of the verdict by their names; those that are not named keep their defaults."""
    given: dict[str, float] = {}
    for part in names(text):
        name, sign, value = part.partition("=")
        if not sign or name not in KINDS:
            raise ValueError(f"expected name=value, of the names {', '.join(KINDS)}")
        given[name] = _THRESHOLDS[KINDS[name]](value)
    return Thresholds(**given)


def percent(text: str) -> float:
    """A share from 0 to 1 in ``20%``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if not match or float(match[1]) > 100:
        raise ValueError("expected a share such as 20%")
    return float(match[1]) / 100


_THRESHOLDS: dict[str, Callable[[str], float]] = {
    "span": positive_duration,
    "percent": percent,
    "whole": whole(1, 1_000_000),
}


def secret_key(text: str) -> str:
    """Nothing, or text that nobody guesses."""
    if text and len(text) < 32:
        raise ValueError(
            "expected at least 32 characters: python -c 'import secrets;"
            " print(secrets.token_hex(32))'"
        )
    return text


def rate_store(text: str) -> str:
    """Nothing, or the address of a Redis."""
    address = text.strip()
    if address and not re.match(r"(rediss?|unix|redis\+(sentinel|cluster))://.", address):
        raise ValueError("expected nothing, or an address such as redis://host:6379/0")
    return address


def names(text: str) -> tuple[str, ...]:
    """Split names at commas and white space."""
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks; not all there are."""
    found = []
    for name in names(text):
        try:
            network = ipaddress.ip_network(name)
        except ValueError:
            raise ValueError("expected addresses or networks: 10.0.0.5, 10.1.0.0/16") from None
        if network.prefixlen == 0:
            raise ValueError("expected the addresses of proxies: with all of them, anybody is one")
        found.append(network)
    return tuple(found)


def header(text: str) -> str:
    """Nothing, or the name of a header that no request has for other reasons."""
    name = text.strip()
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}", name):
        raise ValueError("expected the name of a header: letters, digits and -")
    if name.lower() in _TAKEN:
        raise ValueError("expected a header of its own, such as X-Forwarded-User")
    return name


def one_of(*choices: str) -> Callable[[str], str]:
    """Make a reader that takes one of ``choices``, whatever its case."""

    def read(text: str) -> str:
        for choice in choices:
            if text.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"expected one of {', '.join(choices)}")

    return read
