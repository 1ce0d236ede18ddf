"""What only this product is asked: what its design promises beyond the workloads of all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException

import psycopg

from bench import processes
from bench.drain import Load
from bench.errors import Failed
from bench.ladder import ladder
from bench.place import Database
from bench.workloads import Figures, Subject
from queueapp.local_postgres import free_port

# As the Procfile has them.
WEB_PROCESSES = 2
WEB_THREADS = 4
_BOOT_S = 60.0
_SAMPLE_EVERY_S = 0.25


def through_the_api(subject: Subject) -> dict[str, Figures]:
    """One job a request, on as many connections as the web processes have threads."""
    subject.place.fresh()
    port = free_port()
    bind = ["--bind", f"127.0.0.1:{port}", "--no-control-socket"]
    size = ["--workers", str(WEB_PROCESSES), "--threads", str(WEB_THREADS)]
    serve = ["-m", "gunicorn", *size, *bind, "wsgi:app"]
    web = subject.caller.start(serve, "web.log")
    count, connections = subject.size.api, WEB_PROCESSES * WEB_THREADS
    try:
        _wait_until_ready(web, port)
        answer = subject.caller.run_module("api_client", port, connections, count)
    finally:
        processes.stop([web])
    enqueued = subject.place.count("SELECT count(*) FROM jobs")
    if not answer["created"] == enqueued == count:
        raise Failed(f"{answer['created']} of {count} were acknowledged, {enqueued} exist")
    return {"api": {"rate": count / answer["secs"], "jobs": count}}


def behind_scheduled(subject: Subject) -> dict[str, Figures]:
    """A million jobs of a higher priority wait for a later day."""
    subject.place.fresh("scheduled")
    subject.caller.call("bulk", subject.jobs)
    return {"scheduled": subject.drain(subject.jobs, subject.cap_s)}


def under_a_snapshot(subject: Subject) -> dict[str, Figures]:
    """A transaction that began before the drain stays open: no dead row can be removed."""
    subject.place.fresh("pinned")
    assert isinstance(subject.place, Database)
    with _held_snapshot(subject.place.url):
        figures = subject.drain(subject.size.pinned, subject.size.pinned_s)
    return {"snapshot": figures}


def steady_memory(subject: Subject) -> dict[str, Figures]:
    """What the worker holds while 200,000 jobs pass through it."""
    subject.place.fresh()
    count = subject.size.steady
    subject.caller.call("bulk", count)
    samples: list[tuple[int, float]] = []
    next_at = 0.0

    def watch(begun: int, pids: list[int]) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at or begun == count:
            next_at = time.monotonic() + _SAMPLE_EVERY_S
            samples.append((begun, sum(map(processes.resident_mib, pids))))

    figures = subject.drain_load(Load(count, cap_s=600.0, watch=watch))
    marks = {str(share): _held_at(samples, count * share // 100) for share in (25, 50, 75, 100)}
    return {"memory": {**figures, "mib_at": marks}}


def _held_at(samples: list[tuple[int, float]], begun: int) -> float:
    """What was held when ``begun`` jobs had begun: the first sample from there on."""
    held = [mib for jobs, mib in samples if jobs >= begun] or [mib for _, mib in samples[-1:]]
    return round(held[0], 1) if held else 0.0


def _wait_until_ready(web: processes.Process, port: int) -> None:
    deadline = time.monotonic() + _BOOT_S
    while time.monotonic() < deadline and web.is_running():
        with suppress(OSError, HTTPException):
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise Failed(f"the web processes do not serve: {web.said()}")


@contextmanager
def _held_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT txid_current()")
        try:
            yield
        finally:
            with suppress(psycopg.Error):
                connection.rollback()


OWN_WORKLOADS = {
    "api": through_the_api,
    "scheduled": behind_scheduled,
    "snapshot": under_a_snapshot,
    "memory": steady_memory,
    "ladder": ladder,
}
