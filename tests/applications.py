"""Applications of a test's own, with settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask

from queueapp import create_app
from queueapp.extensions import db

# Nobody listens there.
NOWHERE = "postgresql://127.0.0.1:1/none"


@contextmanager
def application(url: str, **settings: str) -> Iterator[Flask]:
    """An application over the database at ``url``; its connections are closed at the end."""
    app = create_app({"DATABASE_URL": url, "TESTING": True, **settings})
    try:
        yield app
    finally:
        with app.app_context():
            db.engine.dispose()
