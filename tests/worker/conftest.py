"""A worker's parts over the test database, each to be ticked by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from queueapp import notifier
from queueapp.connections import listen_connection, worker_engine
from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.database import CHANNEL
from queueapp.jobs.models import Job
from queueapp.jobs.transitions import Keep, NewJob
from queueapp.worker import Terms, Worker
from tests.worker import kinds

Enqueue = Callable[..., int]


@pytest.fixture
def app(app: Flask) -> Flask:
    """The application, with the handlers of these tests registered."""
    assert kinds.RESULTS
    return app


class Statements:
    """Counts what an engine sends."""

    def __init__(self, engine: Engine) -> None:
        self.sent: list[str] = []
        event.listen(engine, "before_cursor_execute", self._note)

    def _note(self, _c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.sent.append(statement)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that the driver is given from now on."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, statement: Any, *given: Any, **more: Any) -> Any:
        statements.append(str(statement))
        return execute(cursor, statement, *given, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    return statements


@pytest.fixture
def engine_for_work(app: Flask) -> Iterator[Engine]:
    engine = worker_engine(app, app.extensions["queue_settings"], connections=30)
    yield engine
    engine.dispose()


@dataclass
class Bench:
    """A worker whose threads do not run: the test ticks its parts."""

    app: Flask
    engine: Engine
    workers: list[Worker] = field(default_factory=list)

    def worker(self, **terms: Any) -> Worker:
        """Build one."""
        defaults = {"concurrency": 4, "backoff": Backoff(base_s=60), "poll": 0.2, "grace": 0.5}
        worker = Worker(self.app, Terms(**{**defaults, **terms}), self.engine, Keep())
        self.workers.append(worker)
        return worker

    def run_one(self, worker: Worker) -> None:
        """Claim, run and settle everything that is due, in this thread."""
        worker.pump._inbox.wake()
        worker.pump.turn()
        while not worker.slots.todo.empty():
            worker.slots.handle(worker.slots.todo.get(), 0)
        worker.pump._inbox.wake()
        worker.pump.claiming = False
        worker.pump.turn()
        worker.pump.claiming = True


@pytest.fixture
def bench(app: Flask, engine_for_work: Engine) -> Iterator[Bench]:
    bench = Bench(app, engine_for_work)
    yield bench
    for worker in bench.workers:
        worker.close()


@pytest.fixture
def enqueue(session: Session) -> Enqueue:
    """Enqueue a job of these tests and commit; its id."""

    def put(kind: str = "demo.echo", payload: Any = None, **fields: Any) -> int:
        payload = {"message": "hello"} if payload is None and kind == "demo.echo" else payload or {}
        new = NewJob(kind=kind, payload=payload, **fields)
        [made] = transitions.enqueue(session, [new], producer="app", actor="app", via="python")
        session.commit()
        return made.id

    return put


@pytest.fixture
def job(session: Session) -> Callable[[int], Job]:
    """Read a job afresh."""

    def read(job_id: int) -> Job:
        session.rollback()
        return session.get_one(Job, job_id, populate_existing=True)

    return read


@pytest.fixture
def listener(app: Flask) -> Iterator[psycopg.Connection[Any]]:
    # What an earlier test has committed is told of by now.
    notifier._notifiers.finish()
    connection = listen_connection(app, "listen")
    connection.execute(f"LISTEN {CHANNEL}")
    while heard(connection, 0.1):
        pass
    yield connection
    connection.close()


def heard(listener: psycopg.Connection[Any], timeout: float) -> int:
    return len(list(listener.notifies(timeout=timeout, stop_after=1)))
