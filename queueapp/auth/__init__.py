"""Who may call: principals, roles, tokens, and the check before every request."""

from __future__ import annotations

from flask import Flask

from queueapp.auth.access import current_principal, guard, open_to_all, permits
from queueapp.auth.principal import Principal
from queueapp.auth.roles import Permission, Role
from queueapp.auth.tokens import read_tokens

__all__ = [
    "Permission",
    "Principal",
    "Role",
    "current_principal",
    "init_app",
    "open_to_all",
    "permits",
]


def init_app(app: Flask) -> None:
    """Read the tokens and guard every request. Raises SettingError for a bad entry."""
    settings = app.extensions["queue_settings"]
    app.extensions["queue_tokens"] = read_tokens(settings.tokens, settings.tokens_file)
    app.before_request(guard)
