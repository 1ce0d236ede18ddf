"""A deliberately small PostgreSQL job queue with an ops console.

The public Python API by name: ``handler`` registers what runs a kind of job, ``enqueue`` creates
jobs inside your own transaction, ``JobContext`` is what a handler may ask for.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask

from queueapp import (
    api,
    auth,
    checkup,
    commands,
    compression,
    config,
    connections,
    console,
    counts,
    error_handlers,
    handlers,
    judgement,
    mounted,
    notifier,
)
from queueapp.auth import Host, Identify
from queueapp.extensions import db, migrate
from queueapp.handlers import JobContext, enqueue, handler
from queueapp.jobs import autocommit

__all__ = ["JobContext", "create_app", "enqueue", "handler"]

# For producers that only import ``enqueue`` as well: their commits wake the workers.
notifier.install()
autocommit.announce_with(lambda engine: notifier.notifier_of(engine).notify())

ROOT = Path(__file__).resolve().parent.parent


def create_app(
    overrides: Mapping[str, Any] | None = None,
    *,
    identify: Identify | None = None,
    sign_in: str = "",
) -> Flask:
    """Build the application: web and command line alike.

    ``overrides`` are settings by their documented names (``{"DATABASE_URL": ...}``) and win over
    the environment; ``TESTING`` and ``INSTANCE_PATH`` are taken too. ``identify``: who makes a
    request and in which role, as the application around this one knows, ``("ana", "operator")`` or
    None; ``sign_in``: its page that asks, ``/login``. Raises SettingError that names the first
    unusable setting.
    """
    given = dict(overrides or {})
    testing = bool(given.pop("TESTING", False))
    instance = given.pop("INSTANCE_PATH", None)
    settings = config.load(os.environ, given)
    app = Flask(
        __name__,
        root_path=str(ROOT),
        instance_path=str(instance or ROOT / "instance"),
    )
    app.config["TESTING"] = testing
    app.extensions["queue_settings"] = settings
    _bind_database(app, settings)
    handlers.configure(
        handlers.Policy(
            max_attempts=settings.max_attempts,
            accept_unknown_kinds=settings.accept_unknown_kinds,
            external_kinds=settings.external_kinds,
            http_allowed_hosts=settings.http_allowed_hosts,
            http_allow_private=settings.http_allow_private,
            handlers=settings.handlers,
        )
    )
    # Before all that changes answers.
    compression.init_app(app)
    auth.init_app(app, Host(identify, sign_in) if identify else None)
    # Last: it looks at all routes.
    for edge in (judgement, counts, checkup, error_handlers, api, console, commands, mounted):
        edge.init_app(app)
    return app


def _bind_database(app: Flask, settings: config.Settings) -> None:
    address = connections.Address(settings, Path(app.instance_path))
    atexit.register(address.close)
    app.extensions["queue_address"] = address
    app.config["SQLALCHEMY_DATABASE_URI"] = address.engine_url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = connections.engine_options(settings)
    db.init_app(app)
    migrate.init_app(app, db, directory=str(ROOT / "migrations"))
    with app.app_context():
        connections.bind_address(db.engine, address)
        # The same pool. Told at each use instead, it would cost half a checkout.
        committing = db.engine.execution_options(isolation_level="AUTOCOMMIT")
        app.extensions["queue_at_once"] = committing
