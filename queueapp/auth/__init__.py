"""Who may call: principals, roles, tokens, people, and the check before every request."""

from __future__ import annotations

from flask import Flask

from queueapp.auth import session
from queueapp.auth.access import current_principal, guard, open_to_all, permits, refuse_unless
from queueapp.auth.host import Host, Identify
from queueapp.auth.people import read_people
from queueapp.auth.principal import Principal
from queueapp.auth.proxies import Proxies
from queueapp.auth.rates import Rates
from queueapp.auth.roles import Permission, Role
from queueapp.auth.throttle import LoginThrottle
from queueapp.auth.tokens import read_tokens
from queueapp.config import Settings

__all__ = [
    "Host",
    "Identify",
    "Permission",
    "Principal",
    "Role",
    "current_principal",
    "init_app",
    "open_to_all",
    "permits",
    "refuse_unless",
]


def init_app(app: Flask, host: Host | None = None) -> None:
    """Read tokens and people, and guard every request. Raises SettingError for a bad entry.

    ``host``: the application around this one, where that says who is there.
    """
    settings: Settings = app.extensions["queue_settings"]
    if host:
        host.check(settings)
    app.extensions["queue_host"] = host
    proxies = Proxies.of(settings)
    has_proxy = bool(proxies.header)
    people = read_people(settings.users, settings.users_file, has_proxy=has_proxy)
    app.extensions["queue_tokens"] = read_tokens(settings.tokens, settings.tokens_file)
    app.extensions["queue_people"] = people
    app.extensions["queue_rates"] = Rates(settings.rate_store)
    app.extensions["queue_proxies"] = proxies
    app.extensions["queue_login_throttle"] = LoginThrottle()
    session.init_app(app, people, secret=settings.secret_key, length_s=settings.session_length)
    app.before_request(guard)
