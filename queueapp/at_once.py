"""Where an edge of ours does one thing and nothing else: committed by itself, one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flask import current_app
from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from queueapp.extensions import db


@contextmanager
def at_once() -> Iterator[Session | Connection]:
    """Give what commits each statement; where that cannot be, it is committed at the end.

    A transaction pooler may hand us a server's connection of any isolation, which only a
    transaction can set.
    """
    if current_app.extensions["queue_settings"].pooler or db.engine.dialect.name == "sqlite":
        yield db.session()
        db.session.commit()
    else:
        engine: Engine = current_app.extensions["queue_at_once"]
        with engine.connect() as connection:
            yield connection
