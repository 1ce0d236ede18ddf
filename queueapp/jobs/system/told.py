"""What a reading of the system comes to: how well it is, in plain words, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Tone(StrEnum):
    """How well it is; the worst one first. ``unknown`` is never taken for good."""

    BAD = "bad"
    CAREFUL = "careful"
    UNKNOWN = "unknown"
    OK = "ok"


@dataclass(frozen=True)
class Column:
    """One column of a table. Texts of others are cut by whoever shows them."""

    name: str
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """The evidence: cells are texts, as many in a row as there are columns."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Said:
    """What one reading says. ``next_step`` is empty where nothing is to be done.

    ``command``: the next step, or its last resort, as it may be copied.
    """

    tone: Tone
    sentence: str
    next_step: str = ""
    command: str = ""
    table: Table | None = None


@dataclass(frozen=True)
class Asked:
    """What a reading may need of whoever asks.

    ``revision``: the schema that this release needs. ``sees_queries``: whether the texts of
    others' queries are read, which may hold secrets. ``pooled``: connections come through a pooler.
    ``is_closed``: console and API change nothing, whatever the database would take.
    """

    revision: str | None = None
    sees_queries: bool = False
    pooled: bool = False
    is_closed: bool = False


@dataclass(frozen=True)
class Finding:
    """One reading by its code and title."""

    code: str
    title: str
    said: Said


@dataclass(frozen=True)
class System:
    """All readings as of ``now``, the worst first."""

    now: datetime
    findings: Sequence[Finding] = field(default_factory=tuple)

    @property
    def counts(self) -> Mapping[Tone, int]:
        """How many readings have each tone."""
        tones = [finding.said.tone for finding in self.findings]
        return {tone: tones.count(tone) for tone in Tone}


def columns(*names: str, numbers: Iterable[str] = ()) -> tuple[Column, ...]:
    """Columns by name; ``numbers`` are those of them that hold numbers."""
    return tuple(Column(name, name in set(numbers)) for name in names)


def tone_of(value: float, careful: float, bad: float) -> Tone:
    """The tone of a value that is the worse the higher it is."""
    if value >= bad:
        return Tone.BAD
    return Tone.CAREFUL if value >= careful else Tone.OK


def worst(tones: Iterable[Tone]) -> Tone:
    """The worst of some; ok of none."""
    order = list(Tone)
    return min(tones, key=order.index, default=Tone.OK)


def octets(number: float) -> str:
    """``512 bytes``, ``1.5 KiB``, ``2.0 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} bytes" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def joined(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def literal(text: str) -> str:
    """``text`` as it stands in a statement that somebody may copy."""
    return "'" + text.replace("'", "''") + "'"
