"""Handlers that behave well and badly."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sqlalchemy import text

from queueapp import JobContext, handler
from queueapp.extensions import db
from queueapp.handlers import Fail, Retry

LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP

RESULTS: dict[str, Any] = {
    "set": {1, 2},
    "bytes": b"x",
    "nan": float("nan"),
    "loop": LOOP,
    "tuple_keys": {(1, 2): 3},
    "file": sys.stderr,
    "huge": "x" * 300_000,
    "nul": {"a\x00b": ["\ud800"]},
    "plain": {"ok": [1, None, "żółć"]},
}


class Odd(BaseException):
    """No Exception."""


ERRORS: dict[str, BaseException] = {
    "value": ValueError("no such thing"),
    "exit": SystemExit(0),
    "interrupt": KeyboardInterrupt(),
    "generator": GeneratorExit(),
    "cancelled": asyncio.CancelledError(),
    "odd": Odd("odd"),
    "nul": ValueError("a\x00b \ud800"),
    "huge": ValueError("x" * 1_000_000),
    "fail": Fail("never again"),
    "retry": Retry("later", after=77),
}


@handler("test.returns")
def returns(name: str) -> Any:
    """Return something odd."""
    return RESULTS[name]


@handler("test.raises")
def raises(name: str) -> None:
    """Raise something odd."""
    raise ERRORS[name]


@handler("test.defers")
def defers(job: JobContext) -> None:
    """Ask to wait."""
    job.defer(33)


@handler("test.stops")
def stops(job: JobContext) -> None:
    """Wait until asked to stop."""
    job.wait(60)


@handler("test.reports")
def reports(job: JobContext) -> None:
    """Report progress, then wait until asked to stop."""
    job.progress(40, "half-way, nearly")
    job.wait(60)


@handler("test.writes")
def writes(job: JobContext, note: str, fails: bool = False) -> str:
    """Write a control event in the job's own transaction."""
    job.session.execute(
        text(
            "INSERT INTO job_events (scope, event, actor, reason)"
            " VALUES ('op:test', 'op_done', 'app', :note)"
        ),
        {"note": note},
    )
    if fails:
        raise ValueError("after writing")
    return note


@handler("test.spoils")
def spoils() -> None:
    """Leave the thread's session in a failed transaction."""
    try:
        db.session.execute(text("SELECT 1/0"))
    except Exception:
        return


@handler("test.uses_session")
def uses_session() -> int:
    """Use the thread's session."""
    return int(db.session.execute(text("SELECT 41 + 1")).scalar_one())
