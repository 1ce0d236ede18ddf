"""This product: its own commands, and its public Python API for the producer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from bench.adaptors import ours_handlers  # noqa: F401 - registers the kind that is enqueued
from bench.adaptors.harness import DSN, PAD, VARIANT, chunks, run
from queueapp import create_app, enqueue
from queueapp.handlers import EnqueueRequest, enqueue_many

KIND = "bench.noop"
engine = create_engine(DSN.replace("postgresql://", "postgresql+psycopg://"))


def setup() -> None:
    """Migrate, as ``flask db upgrade`` does."""
    import flask_migrate

    with create_app({"DATABASE_URL": os.environ["DATABASE_URL"]}).app_context():
        flask_migrate.upgrade()


def lone(job: int) -> None:
    """One job in a transaction of its own."""
    with Session(engine) as session:
        enqueue(session, KIND, {"n": job, "pad": PAD})
        session.commit()


def connected() -> Callable[[int], None]:
    """The same on a connection in autocommit mode, as docs/handlers.md has it."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def lone(job: int) -> None:
        enqueue(connection, KIND, {"n": job, "pad": PAD})

    return lone


def bulk(count: int) -> None:
    """A thousand jobs in each transaction."""
    for numbers in chunks(count):
        with Session(engine) as session:
            enqueue_many(
                session,
                [EnqueueRequest(kind=KIND, payload={"n": n, "pad": PAD}) for n in numbers],
            )
            session.commit()


if __name__ == "__main__":
    lone_way = connected() if VARIANT == "autocommit" and "lone" in sys.argv else lone
    run(setup, lone_way, bulk)
