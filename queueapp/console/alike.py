"""The filter that finds the jobs with the payload of a given one, where a filter can say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from queueapp.jobs.queries import Body, PayloadField, payload_field, payload_fields
from queueapp.redaction import Hidden

# An address is sent to others, and is read by them.
LONGEST_VALUE = 100
_LARGEST = 2_000


def same_payload(body: Body | None, hidden: Hidden) -> Mapping[str, str] | None:
    """The parameters of a list of jobs whose payload has all fields of ``body``, and their values.

    None where that cannot be asked for: lists and long texts have no place in an address, and what
    is ``hidden`` from anybody is not to stand there.
    """
    if body is None or body.cut or body.size > _LARGEST:
        return None
    try:
        # Numbers with the digits that they have there.
        payload = json.loads(body.text, parse_int=str, parse_float=str)
        fields = payload_fields(_fields(payload, (), hidden))
    except (ValueError, RecursionError):
        return None
    return {f"payload.{field.path}": field.value for field in fields} or None


def _fields(value: Any, path: tuple[str, ...], hidden: Hidden) -> Iterator[PayloadField]:
    """Each scalar of it with its place. Raises ValueError for what cannot be asked for."""
    if not isinstance(value, dict):
        yield _field(".".join(path), _text(value))
        return
    if not value and path:
        raise ValueError("no address says that an object is empty")
    for name, item in value.items():
        here = (*path, name)
        if "." in name or name != name.strip() or hidden.covers(here):
            raise ValueError("no address names this field")
        yield from _fields(item, here, hidden)


def _text(value: Any) -> str:
    """The value as the filter is asked for it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str):
        raise ValueError("no address has a list")
    return value


def _field(path: str, value: str) -> PayloadField:
    # An address has no empty values, and none with blanks around.
    if not value or value != value.strip() or value.startswith('"') or len(value) > LONGEST_VALUE:
        raise ValueError("no address has this value")
    return payload_field(path, value)
