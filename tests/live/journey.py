"""What a journey has at hand: a database, processes on it, the outside ledger, gates."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from queueapp.database_address import database_url
from queueapp.jobs import transitions
from queueapp.jobs.transitions import NewJob
from tests.live import ledger
from tests.live.processes import Process, Processes, until

# What the cases assume, and retries soon enough for a test.
SETTINGS = {
    "QUEUE_HANDLERS": "tests.live.kinds",
    "QUEUE_POLL": "0.5s",
    "QUEUE_BACKOFF_BASE": "0.1s",
}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, its JSON read; a page is text."""

    status: int
    body: Any
    headers: dict[str, str]


class Web:
    """gunicorn, and how to ask it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        at = process.wait_until_it_says(r"Listening at: http://127\.0\.0\.1:(\d+)")
        self.port = int(at[1])
        # The sockets listen before the application is loaded, and the first request waits for it.
        until(self._answers, "the web process answers")

    def _answers(self) -> bool:
        # On a busy machine the application may take longer to load than one request waits.
        with contextlib.suppress(TimeoutError):
            return self.ask("GET", "/healthz").status == 200
        return False

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", **headers}
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            said = answer.read().decode()
            is_json = "json" in answer.headers.get("Content-Type", "")
            body = json.loads(said) if is_json else said
            return Answer(answer.status, body, dict(answer.headers.items()))


class Journey:
    """One test's queue, from the outside."""

    def __init__(self, url: str, folder: Path, **settings: str) -> None:
        """``url``: how the test itself connects; its processes too, unless ``settings`` differ."""
        self.url = url
        # Whether the standing checks have been made.
        self.stood = False
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.ledger = ledger.Ledger(folder / "ledger.jsonl")
        places = {ledger.LEDGER: str(self.ledger.path), ledger.GATES: str(self.gates)}
        environment = {"DATABASE_URL": url, **SETTINGS, **places, **settings}
        self.processes = Processes(folder, environment)
        # Checked before use: a journey may have restarted the server.
        self.engine = sa.create_engine(database_url(url), pool_pre_ping=True)

    # Processes

    def work(self, *options: str, ready: bool = True, **settings: str) -> Process:
        """Start ``flask work``; wait until it has looked at the database once, unless not asked."""
        seen = self.workers_seen()
        process = self.processes.start(
            "work", "flask", "--app", "wsgi", "work", *options, **settings
        )
        if ready:
            until(lambda: not process.is_running or self.workers_seen() > seen, "a worker is seen")
            assert process.is_running, process.said()
        return process

    def workers(self, count: int, *options: str, **settings: str) -> list[Process]:
        """Start several at once."""
        seen = self.workers_seen()
        started = [self.work(*options, ready=False, **settings) for _ in range(count)]
        until(lambda: self.workers_seen() == seen + count, f"{count} workers are seen")
        return started

    def workers_seen(self) -> int:
        return int(self.one("SELECT count(*) FROM job_events WHERE event = 'worker_seen'"))

    def web(self, *, workers: int = 1, threads: int = 4, **settings: str) -> Web:
        """Start gunicorn as the Procfile does, on a free port."""
        numbers = ("--workers", str(workers), "--threads", str(threads))
        options = ("--bind", "127.0.0.1:0", "--no-control-socket", "--access-logfile", "-")
        words = ("gunicorn", *options, *numbers, "wsgi:app")
        return Web(self.processes.start("web", *words, **settings))

    # The database

    def rows(self, statement: str, **values: Any) -> list[Row[Any]]:
        """Ask as an outsider would, in a transaction of its own."""
        with self.engine.begin() as connection:
            return list(connection.exec_driver_sql(statement, values).all())

    def one(self, statement: str, **values: Any) -> Any:
        """The only value of the only row."""
        return self.rows(statement, **values)[0][0]

    def job(self, job: int) -> Row[Any]:
        """The row as it is now."""
        [row] = self.rows("SELECT * FROM jobs WHERE id = %(id)s", id=job)
        return row

    def events(self, job: int) -> list[str]:
        """The names of a job's events, oldest first."""
        rows = self.rows("SELECT event FROM job_events WHERE job_id = %(id)s ORDER BY id", id=job)
        return [row.event for row in rows]

    @contextlib.contextmanager
    def locked(self, job: int) -> Iterator[Connection]:
        """Hold the row of ``job``, as a forgotten transaction in psql does."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql("SELECT FROM jobs WHERE id = %s FOR UPDATE", (job,))
            yield connection
            connection.rollback()

    # Jobs

    def enqueue(self, kind: str, payload: Any = None, count: int = 1, **fields: Any) -> list[int]:
        """Create ``count`` equal jobs in one transaction, the workers woken by it."""
        new = NewJob(kind=kind, payload=payload or {}, **fields)
        with self.engine.begin() as connection:
            made = transitions.enqueue(
                connection, [new] * count, producer="app", actor="app", via="python"
            )
        return [job.id for job in made]

    def enqueue_one(self, kind: str, payload: Any = None, **fields: Any) -> int:
        """Create one job."""
        return self.enqueue(kind, payload, **fields)[0]

    def open(self, job: int, attempt: int = 1) -> None:
        """Let this attempt of a gated job return."""
        (self.gates / f"{job}-{attempt}").touch()

    # Waiting

    def wait_for_start(self, job: int, attempt: int = 1) -> ledger.Line:
        """Wait until the handler has begun; its line in the ledger."""
        found = until(
            lambda: [line for line in self.ledger.starts(job) if line.attempt == attempt],
            f"attempt {attempt} of job {job} starts",
        )
        return found[0]

    def wait_for_more_starts(self, count: int) -> None:
        """Wait until handlers have begun ``count`` times in all."""
        until(lambda: len(self.ledger.starts()) >= count, f"{count} starts")

    def wait_for_status(self, job: int, *statuses: str, within: float = 40.0) -> Row[Any]:
        """Wait until the row says one of ``statuses``; the row."""
        wanted = f"job {job} is {' or '.join(statuses)}"
        until(lambda: self.job(job).status in statuses, wanted, within)
        return self.job(job)

    def wait_for_end(self, jobs: list[int], within: float = 60.0) -> None:
        """Wait until ``jobs``, and all between them, have come to an end, whichever."""
        open_ = """
            SELECT EXISTS (SELECT FROM jobs WHERE id BETWEEN %(first)s AND %(last)s
              AND status IN ('queued', 'running', 'held'))"""
        span = {"first": min(jobs), "last": max(jobs)}
        until(lambda: not self.one(open_, **span), "all jobs end", within)

    def close(self) -> None:
        """Kill the processes, leave the database."""
        self.processes.close()
        self.engine.dispose()
