"""Run one claim: find the handler, call it, turn whatever happens into an outcome.

No transaction of the worker's own is open meanwhile. A handler that used ``context.session`` has
its success written in that session, with its own writes: both happen, or neither.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextvars import copy_context

from flask import Flask, has_app_context
from flask.ctx import AppContext
from flask.globals import app_ctx
from sqlalchemy.orm import Session

from queueapp.errors import InvalidJob
from queueapp.handlers import find
from queueapp.jobs import backoff, transitions
from queueapp.jobs.database import run
from queueapp.jobs.result import storable
from queueapp.jobs.transitions import Outcome
from queueapp.worker.attempts import Attempt
from queueapp.worker.outcomes import Ended
from queueapp.worker.terms import Terms

# To its end that transaction obeys these limits, not what the handler may have set.
_OWN_LIMITS = """
SELECT set_config('statement_timeout', '30s', true), set_config('lock_timeout', '30s', true)
"""
# A handler's own transaction waits for its row: the keeper holds it for a moment at a time.
_OWN_ROW = "SELECT FROM jobs WHERE id = %(id)s AND lease_token = %(token)s FOR NO KEY UPDATE"


def execute(attempt: Attempt, app: Flask, terms: Terms, *, slot: int) -> tuple[Outcome, bool]:
    """Run the attempt. Returns its outcome, and whether it is already written and committed."""
    ended = Ended(attempt.claim, terms, slot, time.monotonic())
    # In a copy: what a handler sets in context variables ends with its job.
    return copy_context().run(_within, attempt, app, ended)


def _within(attempt: Attempt, app: Flask, ended: Ended) -> tuple[Outcome, bool]:
    done: tuple[Outcome, bool] | None = None
    # A handler may raise anything, SystemExit and KeyboardInterrupt too, and what it leaves behind
    # may raise when it is cleared away: none of it may end the thread, or its slot would be gone
    # without a word.
    try:
        with app.app_context() as ours:
            done = _call_and_clear(attempt, ended, ours)
    except BaseException as error:
        done = done or (ended.with_error(attempt, error), False)
    return done


def _call_and_clear(attempt: Attempt, ended: Ended, ours: AppContext) -> tuple[Outcome, bool]:
    try:
        return _call(attempt, ended)
    except BaseException as error:
        return ended.with_error(attempt, error), False
    finally:
        _clear_away(attempt, ours)


def _clear_away(attempt: Attempt, ours: AppContext) -> None:
    """Close what the handler has left open; whatever that raises, its outcome stands."""
    if attempt.context.has_session:
        with contextlib.suppress(BaseException):
            attempt.context.session.close()
    # Contexts of the application that it pushed and never popped hold sessions of their own.
    while has_app_context() and (left := app_ctx._get_current_object()) is not ours:  # type: ignore[attr-defined]
        with contextlib.suppress(BaseException):
            left.pop()
        if has_app_context() and app_ctx._get_current_object() is left:  # type: ignore[attr-defined]
            return  # it cannot be popped here


def _call(attempt: Attempt, ended: Ended) -> tuple[Outcome, bool]:
    handler = find(attempt.claim.kind)
    if handler is None:
        return ended.by(backoff.unknown_kind(attempt.claim.handbacks)), False
    try:
        arguments = handler.check_json(attempt.claim.payload)
    except InvalidJob as error:
        return ended.invalid(error), False
    with _in_one_process():
        result = handler.invoke(attempt.context, arguments)
    outcome = ended.well(storable(result))
    if attempt.context.has_session:
        return outcome, _commit(attempt.context.session, outcome, ended)
    return outcome, False


@contextlib.contextmanager
def _in_one_process() -> Iterator[None]:
    """End a copy of this process that a handler has made with fork and let come back here.

    It has our connections and our claims, and would write over them what the original writes.
    """
    process = os.getpid()
    try:
        yield
    except BaseException:
        if os.getpid() != process:
            os._exit(1)
        raise
    if os.getpid() != process:
        os._exit(0)


def _commit(session: Session, outcome: Outcome, ended: Ended) -> bool:
    """Write the success in the handler's own transaction; False when the lease was lost."""
    run(session, _OWN_LIMITS)
    run(session, _OWN_ROW, id=outcome.id, token=outcome.token)
    accepted = transitions.settle(session, [outcome], actor=ended.terms.actor)
    if outcome.token not in accepted:
        session.rollback()
        return False
    session.commit()
    return True
