"""What a worker's database connections are called, so that they are known for its own. Pure."""

from __future__ import annotations

# PostgreSQL keeps 63 bytes of a name. The end of a worker's tells it apart from its neighbours.
_KEPT = 45


def connection_name(purpose: str, worker: str = "") -> str:
    """The ``application_name`` of a connection: ``queueapp-work web-1:4711:9f3a1c``."""
    return f"queueapp-{purpose} {short_name(worker)}".rstrip()


def told_by(name: str) -> str:
    """What the name of a connection tells of its worker: as much as ``short_name`` has of it."""
    return name.partition(" ")[2]


def short_name(worker: str) -> str:
    """As much of a worker's name as its connections bear."""
    # The server writes other characters in a way of its own, which differs by its version.
    return "".join(char if "!" <= char <= "~" else "?" for char in worker[-_KEPT:])
