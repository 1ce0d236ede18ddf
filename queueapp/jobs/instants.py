"""Instants within JSON, also those that Python has not: 'infinity' and years beyond 9999. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

# With room on both sides for whoever adds a span or takes one away.
EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def read_instant(text: str) -> datetime:
    """Read what the database writes; what is out of reach as the first or last that is not."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return nearest(text)


def nearest(text: str) -> datetime:
    """The first or the last instant, for one that lies before or after them."""
    return EARLIEST if text.startswith("-") or text.endswith("BC") else LATEST
