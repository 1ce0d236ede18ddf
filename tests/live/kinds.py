"""The kinds of job that the journeys run, in real workers: each notes its starts and ends.

Only worker and web processes import this (``QUEUE_HANDLERS``); the tests know the kinds by name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import text

from queueapp import JobContext, enqueue, handler
from queueapp.extensions import db
from tests.live import ledger

# A gate that a failed test never opens must not outlive it for long.
_GATE_PATIENCE_S = 110.0


@contextlib.contextmanager
def noted(context: JobContext) -> Iterator[dict[str, Any]]:
    """Note start and end around the work; gives what the work may return as its result."""
    ledger.note("start", context.id, context.attempt)
    try:
        yield {"attempt": context.attempt, "pid": os.getpid()}
    finally:
        ledger.note("end", context.id, context.attempt)


def wait_for_gate(context: JobContext) -> None:
    """Wait until the test opens this attempt's gate."""
    opened = Path(os.environ[ledger.GATES]) / f"{context.id}-{context.attempt}"
    deadline = time.monotonic() + _GATE_PATIENCE_S
    while not opened.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened {opened.name}")
        time.sleep(0.01)


@handler("journey.tick")
def tick(context: JobContext, ms: float = 1.0) -> dict[str, Any]:
    """Take ``ms`` milliseconds."""
    with noted(context) as result:
        time.sleep(ms / 1000)
        return result


@handler("journey.shared")
def shared(context: JobContext, seconds: float = 0.0, echo: Any = None) -> dict[str, Any]:
    """Do what the reference workers in other languages do with such a job."""
    with noted(context):
        context.wait(seconds)
        return {"echo": echo}


@handler("journey.gate")
def gate(context: JobContext) -> dict[str, Any]:
    """Run until the test opens this attempt's gate, deaf to every request to stop."""
    with noted(context) as result:
        wait_for_gate(context)
        return result


@handler("journey.parent")
def parent(context: JobContext) -> dict[str, Any]:
    """Run until its gate is open, then create a job in the transaction of this one's success."""
    with noted(context) as result:
        wait_for_gate(context)
        enqueue(context.session, "journey.tick")
        return result


@handler("journey.polite")
def polite(context: JobContext, seconds: float = 60.0) -> dict[str, Any]:
    """Work in steps, tell the progress, stop when asked to."""
    began = time.monotonic()
    with noted(context) as result:
        while (done := time.monotonic() - began) < seconds:
            context.progress(100 * done / seconds, f"{done:.1f} of {seconds:g} s")
            context.wait(0.05)
        return result


@handler("journey.exit")
def leave(context: JobContext, with_claims: bool = False) -> None:
    """Take the whole process down, as a crash in a C library does.

    With ``with_claims`` once other claims wait in a worker for their beginning.
    """
    ledger.note("start", context.id, context.attempt)
    deadline = time.monotonic() + _GATE_PATIENCE_S
    while with_claims and not _claims_wait(context) and time.monotonic() < deadline:
        time.sleep(0.002)
    os._exit(1)


_has_frozen = threading.Event()


@handler("journey.freeze")
def freeze(context: JobContext) -> dict[str, Any]:
    """Freeze the whole process, once in its life, as soon as its pump waits for a lock."""
    with noted(context) as result:
        if not _has_frozen.is_set():
            # Not in the job's own session: that would be committed before its thread is free.
            with db.engine.connect() as connection:
                while not connection.scalar(text(_LOCK_IS_AWAITED)):
                    time.sleep(0.002)
            _has_frozen.set()
            looked = time.monotonic()
            os.kill(os.getpid(), signal.SIGSTOP)
            # The stop may reach this thread a moment later: then the clock jumps.
            while (now := time.monotonic()) - looked < _JUMP_S:
                looked = now
        return result


_JUMP_S = 1.0
_LOCK_IS_AWAITED = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"


def _claims_wait(context: JobContext) -> bool:
    found = context.session.scalar(
        text(
            "SELECT true FROM jobs WHERE status = 'running' AND started_at IS NULL AND id <> :id "
            "LIMIT 1"
        ),
        {"id": context.id},
    )
    return found is not None


@handler("journey.forks")
def forks(context: JobContext, raises: bool = False) -> dict[str, Any]:
    """Copy the whole process, and let the copy come back like the original."""
    with noted(context) as result:
        pass
    copy = os.fork()
    if copy == 0 and raises:
        raise SystemExit(3)
    if copy:
        # Nobody else waits for it.
        _, status = os.waitpid(copy, 0)
        return {**result, "status": os.waitstatus_to_exitcode(status)}
    return {"pid": os.getpid()}


@handler("journey.flaky")
def flaky(context: JobContext, fail_first: int = 1) -> dict[str, Any]:
    """Fail the first attempts."""
    with noted(context) as result:
        if context.attempt <= fail_first:
            raise RuntimeError(f"attempt {context.attempt} is meant to fail")
        return result


@handler("journey.session")
def session(context: JobContext, ms: float = 50.0) -> dict[str, Any]:
    """Keep the database busy for ``ms`` milliseconds in the job's own session."""
    with noted(context) as result:
        context.session.execute(text("SELECT pg_sleep(:s)"), {"s": ms / 1000})
        return result


@handler("journey.large")
def large(context: JobContext, text: str) -> dict[str, Any]:
    """Have a payload of any size."""
    with noted(context) as result:
        return {**result, "length": len(text)}
