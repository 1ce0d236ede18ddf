"""Whether two requests with one idempotency key ask for the same, and if not, what differs.

A hash is ``field=8 hex`` pairs separated by spaces, one for each field that was sent, in order of
name. It is taken from the request as sent: before defaults, ``delay`` not resolved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def request_hash(sent: Mapping[str, Any]) -> str:
    """Hash the fields of one request that were sent. They must have been checked."""
    return " ".join(f"{name}={_digest(sent[name])}" for name in sorted(sent))


def differing_fields(sent_hash: str, stored_hash: str | None) -> tuple[str, ...]:
    """Name the fields in which two requests differ, one-sided ones included."""
    sent, stored = _pairs(sent_hash), _pairs(stored_hash or "")
    return tuple(sorted(name for name in sent | stored if sent.get(name) != stored.get(name)))


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(_by_value(value)).encode()).hexdigest()[:8]


def _by_value(value: Any) -> Any:
    """Give equal values one form: 1, 1.0 and 1e0; an instant in any zone; tuple and list."""
    if isinstance(value, dict):
        return {key: _by_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(item) for item in value]
    if isinstance(value, timedelta):
        return _by_value(value.total_seconds())
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    # A float above 2^53 that is whole equals exactly one int, so no two values become one.
    return int(value) if isinstance(value, float) and value.is_integer() else value
