"""What of payloads and results only admins see: fields by their names, by kind.

Everybody else who may read finds a mark in their place, in pages, answers and exports alike. Whom a
job belongs to sees it whole: the producer that made it, and the worker that runs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from flask import current_app

from queueapp.auth import Permission, current_principal
from queueapp.config import Settings

MARK = "•••"
Path: TypeAlias = tuple[str, ...]

_BODIES = ("payload", "result")
# A line of indented JSON that begins with a name. No text has a line end in it.
_NAMED = re.compile(r'( *)"((?:[^"\\]|\\.)*)": (.*)', re.DOTALL)


@dataclass(frozen=True)
class Hidden:
    """What is hidden of one kind. ``anywhere``: names at any depth; ``paths``: from the root, lists
    left out.
    """

    anywhere: frozenset[str] = frozenset()
    paths: frozenset[Path] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.anywhere or self.paths)

    def has(self, path: Path) -> bool:
        """Whether the field at ``path`` is hidden, its names as ``plain`` writes them."""
        return path[-1] in self.anywhere or path in self.paths

    def covers(self, path: Path) -> bool:
        """Whether the value at ``path`` is hidden, by itself or with what it stands in."""
        names = tuple(map(plain, path))
        ends = range(1, len(names) + 1)
        return any(self.has(names[:end]) for end in ends)

    def of_value(self, value: Any, path: Path = ()) -> Any:
        """The value without what is hidden."""
        if isinstance(value, list):
            return [self.of_value(item, path) for item in value]
        if not isinstance(value, dict):
            return value
        shown = {}
        for name, item in value.items():
            here = (*path, plain(name))
            shown[name] = MARK if self.has(here) else self.of_value(item, here)
        return shown

    def of_text(self, text: str) -> str:
        """The same of indented JSON, one name a line, also of its beginning alone.

        Digits stay as they are, which no number of Python's would keep.
        """
        return "\n".join(self._lines(text.split("\n"))) if self else text

    def of_field(self, name: str, text: str) -> str:
        """The JSON of one field of the first level; a mark where anything in it might be hidden."""
        deeper = {path[-1] for path in self.paths if path[:1] == (plain(name),)} | self.anywhere
        within = (plain(_unquoted(found)) for found in _names_in(text))
        hidden = self.has((plain(name),)) or not deeper.isdisjoint(within)
        return MARK if hidden else text

    def _lines(self, lines: Iterable[str]) -> Iterator[str]:
        open_: list[tuple[int, str]] = []
        closing: str | None = None
        masked = ""
        for line in lines:
            if closing is not None:
                # What is hidden goes on to the line that closes it.
                if line.rstrip(",") == closing:
                    closing = None
                    yield masked + ("," if line.endswith(",") else "")
                continue
            found = _NAMED.fullmatch(line)
            if found is None:
                yield line
                continue
            indent, name, value = found.groups()
            open_ = [one for one in open_ if one[0] < len(indent)]
            open_.append((len(indent), plain(_unquoted(name))))
            if not self.has(tuple(name for _, name in open_)):
                yield line
                continue
            masked = f'{indent}"{name}": "{MARK}"'
            if value.strip() in ("{", "["):
                closing = indent + ("}" if value.strip() == "{" else "]")
            else:
                yield masked + ("," if value.endswith(",") else "")
        if closing is not None:
            yield masked  # cut before its end


NOTHING = Hidden()


@dataclass(frozen=True)
class Redaction:
    """What is hidden from somebody, by kind; ``*`` is any."""

    rules: tuple[tuple[str, Path], ...] = ()

    def of(self, kind: str) -> Hidden:
        """What is hidden of the jobs of ``kind``."""
        return self._of(path for whose, path in self.rules if whose in ("*", kind))

    def of_any(self) -> Hidden:
        """What is hidden of the jobs of some kind or other."""
        return self._of(path for _, path in self.rules)

    def covered(self, kind: str | None, paths: Iterable[str]) -> str | None:
        """The first of these fields (names joined by dots) that is hidden: who may not see what is
        there may not ask for it either. ``kind``: whose jobs are asked for, None for any.
        """
        hidden = self.of_any() if kind is None else self.of(kind)
        return next((path for path in paths if hidden.covers(tuple(path.split(".")))), None)

    @staticmethod
    def _of(found: Iterable[Path]) -> Hidden:
        paths = [tuple(map(plain, path)) for path in found]
        if not paths:
            return NOTHING
        return Hidden(
            frozenset(path[0] for path in paths if len(path) == 1),
            frozenset(path for path in paths if len(path) > 1),
        )

    def of_job(self, kind: str, job: dict[str, Any]) -> dict[str, Any]:
        """A job as JSON, its payload and result without what is hidden."""
        if hidden := self.of(kind):
            shown = {name: hidden.of_value(job[name]) for name in _BODIES if name in job}
            return {**job, **shown}
        return job


def for_reader() -> Redaction:
    """What is hidden from whoever asks."""
    reader = current_principal()
    if reader.may(Permission.ADMIN) or not reader.may(Permission.READ):
        return Redaction()
    return for_all_readers()


def for_all_readers() -> Redaction:
    """What is hidden from most of those who may read; what is kept for all to read holds none."""
    settings: Settings = current_app.extensions["queue_settings"]
    return Redaction(settings.redact)


def plain(name: str) -> str:
    """A name as it is compared: ``API-Key``, ``api_key`` and ``apikey`` are one."""
    return name.casefold().replace("-", "").replace("_", "")


def _unquoted(name: str) -> str:
    try:
        return str(json.loads(f'"{name}"'))
    except ValueError:
        return name


def _names_in(text: str) -> list[str]:
    return re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', text)
