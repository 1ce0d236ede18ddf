"""Whether nothing may be changed from here, whoever asks, and why.

By the setting, or because the database takes no writes. The latter is known from the look that the
process takes at the queue anyway; where it is not known, whoever may is let through, and the
database decides. Workers are no matter of the setting: what has begun goes on.
"""

from __future__ import annotations

from queueapp import judgement
from queueapp.application import this_app
from queueapp.auth.roles import Permission
from queueapp.config import Settings
from queueapp.errors import DatabaseUnavailable, ReadOnly
from queueapp.jobs.verdict import NoWrites

CLOSES = frozenset({Permission.PRODUCE, Permission.CANCEL, Permission.ACT, Permission.ADMIN})

SETTING = "QUEUE_READ_ONLY is set"
_DATABASE = {
    NoWrites.STANDBY: "the database is a standby",
    NoWrites.READ_ONLY: "the database takes no writes",
}
_RETRY_AFTER = 5


def why() -> str | None:
    """Why nothing may be changed, in words behind "read-only:"; None where it may, or may well."""
    app = this_app()
    settings: Settings = app.extensions["queue_settings"]
    if settings.read_only:
        return SETTING
    found = judgement.no_writes(app)
    return _DATABASE[found] if found else None


def refuse(reason: str) -> None:
    """Raise what answers whoever would change something: a setting lasts, a database comes back."""
    if reason == SETTING:
        raise ReadOnly(
            "this console and API are read-only (QUEUE_READ_ONLY), for everybody: change it where"
            " they are not, or on a machine of the queue with flask jobs"
        )
    raise DatabaseUnavailable(
        f"the database is read-only at the moment: {reason}; try again", retry_after=_RETRY_AFTER
    )
