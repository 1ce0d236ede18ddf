"""What a field of a payload has to be, for a list that is narrowed to it.

No index knows payloads: each job that comes in would pay for it. What looks for a field looks at
rows, so it is for the newest of them, or for those that something else has named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, literal, or_
from sqlalchemy.types import NULLTYPE

from queueapp.jobs.models import Job

# Fields of one filter.
MOST_FIELDS = 5
_LONGEST_PATH, _LONGEST_VALUE, _DEEPEST = 200, 1_000, 20
# What the database can keep as a number: an exponent of any length would be an error there.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)


class PayloadField(NamedTuple):
    """``path``: names from the root, joined by dots; ``value``: as somebody writes it."""

    path: str
    value: str


def payload_field(path: str, value: str) -> PayloadField:
    """A field that a payload may have. Raises ValueError that says what cannot be."""
    names = path.split(".")
    if not all(names) or len(names) > _DEEPEST or len(path) > _LONGEST_PATH:
        raise ValueError(
            f"“{path[:100]}” is no field of a payload: write its name, or names joined by dots"
        )
    if len(value) > _LONGEST_VALUE:
        raise ValueError(f"a value to look for has at most {_LONGEST_VALUE:,} characters")
    if not (_is_storable(path) and _is_storable(value)):
        raise ValueError("no payload holds such a text")
    return PayloadField(path, value)


def payload_fields(found: Iterable[PayloadField]) -> tuple[PayloadField, ...]:
    """The fields in one order. Raises ValueError for two of one place, and for too many."""
    fields = sorted(set(found))
    for one, next_ in pairwise(fields):
        if one.path == next_.path:
            raise ValueError(f"the field “{one.path}” has one value, not two")
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"at most {MOST_FIELDS} fields of the payload")
    return tuple(fields)


def read_payload_field(text: str) -> PayloadField:
    """Read ``path=value``. Raises ValueError."""
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"“{text[:100]}” has no value: write field=value")
    return payload_field(path.strip(), value.strip())


def is_held(field: PayloadField) -> ColumnElement[bool]:
    """Whether a job's payload holds the field with its value, whichever way that is read."""
    documents = [_within(field.path, value) for value in _readings(field.value)]
    # The function behind the operator @>, for SQLite has it as well. Its text is not known for
    # one, so that the database takes it for JSON.
    return or_(*(func.jsonb_contains(Job.payload, literal(it, NULLTYPE)) for it in documents))


def _readings(value: str) -> list[str]:
    """The JSON that may be meant: a text in any case, and what 42, true, null or "42" says."""
    texts = [json.dumps(value, ensure_ascii=False)]
    if value in ("true", "false", "null") or _NUMBER.fullmatch(value):
        return [value, *texts]
    if value.startswith('"'):
        try:
            quoted = json.loads(value)
        except ValueError:
            return texts
        if isinstance(quoted, str) and _is_storable(quoted):
            return [json.dumps(quoted, ensure_ascii=False), *texts]
    return texts


def _within(path: str, value: str) -> str:
    for name in reversed(path.split(".")):
        value = f"{{{json.dumps(name, ensure_ascii=False)}: {value}}}"
    return value


def _is_storable(text: str) -> bool:
    return "\x00" not in text and text.encode("utf-8", "replace").decode() == text
