"""What a worker's database connections are called, so that they are known for its own. Pure."""

from __future__ import annotations

# PostgreSQL keeps 63 bytes of a name. The end of a worker's tells it apart from its neighbours.
_KEPT = 45


def connection_name(purpose: str, worker: str = "") -> str:
    """The ``application_name`` of a connection: ``queueapp-work web-1:4711:9f3a1c``."""
    return f"queueapp-{purpose} {_short(worker)}".rstrip()


def is_connection_of(worker: str, name: str) -> bool:
    """Whether the connection of this name is one of ``worker``'s."""
    return bool(worker) and name.partition(" ")[2] == _short(worker)


def _short(worker: str) -> str:
    # The server writes other characters in a way of its own, which differs by its version.
    return "".join(char if "!" <= char <= "~" else "?" for char in worker[-_KEPT:])
