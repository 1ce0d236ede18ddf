"""Spans, instants and texts of people as they stand in a sentence. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_LONGEST = 200


def span(seconds: float) -> str:
    """How long: ``0.4 s``, ``45 s``, ``4 min 12 s``, ``2 d 4 h``."""
    seconds = max(0.0, seconds)
    return f"{seconds:.1f} s" if seconds < 10 else elapsed(seconds)


def elapsed(seconds: float) -> str:
    """The same in whole seconds, as it goes on from second to second: ``4 s``, ``4 min 12 s``."""
    for length, unit, below, smaller in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} {int(seconds % length // below)} {smaller}"
    return f"{int(seconds)} s"


def moment(at: datetime) -> str:
    """An instant to the second, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def till(at: datetime | None) -> str:
    """What stands behind a pause or a hold that ends by itself."""
    return f", until {moment(at)}" if at else ""


def counted(number: int, one: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def because(reason: str | None) -> str:
    """What stands behind a sentence when somebody gave a reason; one line, not too long."""
    if not reason or not reason.strip():
        return ""
    said = " ".join(reason.split())
    return f" ({said if len(said) <= _LONGEST else said[: _LONGEST - 1] + '…'})"


def asked(whose: str) -> str:
    """What helps where a running job was asked to stop; ``whose`` check it waits for."""
    return (
        f"Wait for {whose} next check. A handler that never checks goes on: stop its worker"
        " (SIGTERM), and after its grace the job ends cancelled."
    )
