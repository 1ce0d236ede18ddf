"""The ops console: server-rendered pages that say what is wrong and let an operator act.

Each page has one URL and two bodies, the whole page or its panel alone, rendered from the same
template and the same context.
"""

from __future__ import annotations

from flask import Flask

from queueapp.console import (
    anew,
    banner,
    errors,
    failures,
    filters,
    frame,
    inventory,
    kinds,
    overview,
    readings,
    workers,
)
from queueapp.console.routes import bp


def init_app(app: Flask) -> None:
    """Register the pages, the template filters and what every page's frame needs."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals["group_address"] = errors.group_address
    app.jinja_env.globals["kind_address"] = kinds.kind_address
    filters.init_app(app)
    anew.init_app(app)
    frame.init_app(app)
    banner.init_app(app)
    overview.init_app(app)
    readings.init_app(app)
    workers.init_app(app)
    inventory.init_app(app)
    failures.init_app(app)
    app.register_blueprint(bp)
