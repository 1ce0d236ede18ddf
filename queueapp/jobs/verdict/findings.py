"""What the verdict consists of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is. Not known is never green."""

    GREEN = "green"
    AMBER = "amber"
    RED = "red"
    UNKNOWN = "unknown"

    @property
    def number(self) -> int:
        """The exit status of ``flask verdict``, and the number for graphs."""
        return list(Level).index(self)


@dataclass(frozen=True)
class Step:
    """What to do next. ``paths``: pages that help, the best first; not every release has each."""

    text: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What one rule says: the cause with its numbers, since when, one next step."""

    rule: str
    title: str
    level: Level
    sentence: str
    step: Step
    since: datetime | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unread:
    """A reading that could not be had, and why."""

    reading: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """The answer, the worst first. ``others``: what the other rules found.

    They stand red before not known before amber, within a level in the order of the rules.
    ``notes``: sentences of what is no fault, and has to be known with it.
    """

    first: Finding
    others: tuple[Finding, ...]
    as_of: datetime
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """How bad it is."""
        return self.first.level

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of it, the banner's first."""
        return (self.first, *self.others)
