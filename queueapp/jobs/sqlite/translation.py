"""PostgreSQL's words in SQLite's: what differs in spelling only.

Statements that differ in more than that have a replacement (``replacements``). A translation is
made once for each statement and kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from re import Match, Pattern

from queueapp.jobs.sqlite.values import INSTANT, JSON, TOKEN


@dataclass(frozen=True, slots=True)
class Translated:
    """``writes``: the transaction must be the writing one from here on."""

    text: str
    writes: bool


_UNITS = {"ms": 0.001, "s": 1, "second": 1, "seconds": 1, "min": 60, "minute": 60, "minutes": 60,
          "h": 3600, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400}  # fmt: skip
_TYPES = {"timestamptz": INSTANT, "uuid": TOKEN, "jsonb": JSON}

# About the session or the server: nothing of that kind is here.
_UTILITY = re.compile(r"\s*(SET|NOTIFY|LISTEN|LOCK TABLE)\b")
_NOTHING = "SELECT NULL WHERE 0"
_WRITE = re.compile(
    r"\b(INSERT|UPDATE|DELETE|CREATE|DROP|ALTER)\b|^\s*SAVEPOINT\b|advisory_xact_lock"
)
_LOCK = re.compile(
    r"\s+FOR (?:NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED| NOWAIT)?"
)

_VALUE = r"(:\w+|\?)"
_AN_INSTANT = r"(\w+\(\)|[\w.]*_at|at\('[^']*'\))"
_NUMBER = r"([\w.]+ % \d+|[\w.]+|\([^()]*\))"


def _interval(match: Match[str]) -> str:
    seconds = float(match[3]) * _UNITS[match[4]]
    return f"shifted({match[1]}, {match[2]}{seconds!r})"


def _intervals(match: Match[str]) -> str:
    return f"shifted({match[1]}, {match[2]}({match[3]}) * {float(_UNITS[match[4]])!r})"


def _named(match: Match[str]) -> str:
    """A cast that a column's name follows says what the column holds."""
    return f'{match[1]} AS "{match[3]} [{_TYPES[match[2]]}]"'


_Replacement = str | Callable[[Match[str]], str]
_RULES: list[tuple[Pattern[str], _Replacement]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # parameters
        (r"%\((\w+)\)s", r":\1"),
        (r"(?<![%\w'])%s", "?"),
        (r"%%", "%"),
        # lists
        (rf"<> ALL ?\({_VALUE}(?:::\w+\[\])?\)", r"NOT IN (SELECT value FROM json_each(\1))"),
        (rf"= ANY ?\({_VALUE}(?:::\w+\[\])?\)", r"IN (SELECT value FROM json_each(\1))"),
        (r"= ANY ?\(ARRAY\[([^\]]*)\]\)", r"IN (\1)"),
        # instants
        (r"\bCURRENT_TIMESTAMP\b", "now()"),
        (r"\btimestamptz '(\d{4}-\d\d-\d\d)'", r"at('\1')"),
        (rf"{_AN_INSTANT} ([+-]) {_NUMBER} \* interval '1 (\w+)'", _intervals),
        (rf"{_AN_INSTANT} ([+-]) {_VALUE}", r"shifted(\1, \2\3)"),
        (rf"{_AN_INSTANT} ([+-]) interval '([\d.]+) ?(\w+)'", _interval),
        (rf"{_AN_INSTANT} ([+-]) make_interval\(secs => ([^()]*)\)", r"shifted(\1, \2(\3))"),
        (rf"extract\(epoch FROM {_AN_INSTANT} - {_AN_INSTANT}\)", r"(epoch(\1) - epoch(\2))"),
        (r"extract\(epoch FROM ([\w.]+(?:\(\))?)\)", r"epoch(\1)"),
        (r"((?:min|max)\([\w.]*_at\)|\b(?:now|clock_timestamp|statement_timestamp)\(\)) AS (\w+)",
         rf'\1 AS "\2 [{INSTANT}]"'),
        (r"^(\s*SELECT )((?:min|max)\([\w.]*_at\)|(?:now|clock_timestamp)\(\))(?=\s*$|\s+FROM)",
         rf'\1\2 AS "at [{INSTANT}]"'),
        # casts
        (r"([\w.]+|\([^()]*\))::(timestamptz|uuid|jsonb) AS (\w+)", _named),
        (r"\b([\w.]+)::text AS (\w+)", r"\1 || '' AS \2"),  # as it is stored
        (r"::\w+(?:\[\])?", ""),
        # the rest
        (r"\bSELECT FROM\b", "SELECT 1 FROM"),
        (r"(?<![\w.])left\(", "leftmost("),
        (r"\bOFFSET (\S+) LIMIT (\S+)", r"LIMIT \2 OFFSET \1"),
        (r"\bOFFSET 0\b", "LIMIT -1"),
    )
]  # fmt: skip


@lru_cache(maxsize=2000)
def translate(statement: str) -> Translated:
    """Say ``statement`` in SQLite's words."""
    if _UTILITY.match(statement):
        return Translated(_NOTHING, writes=False)
    if statement.startswith("BEGIN"):
        return Translated("BEGIN IMMEDIATE", writes=False)
    writes = bool(_WRITE.search(statement))  # a row lock has UPDATE in it
    text = _LOCK.sub("", statement)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return Translated(text, writes)
