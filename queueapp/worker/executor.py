"""Run one claim: find the handler, call it, turn whatever happens into an outcome.

No transaction of the worker's own is open meanwhile. A handler that used ``context.session`` has
its success written in that session, with its own writes: both happen, or neither.
"""

from __future__ import annotations

import time

from flask import Flask
from sqlalchemy.orm import Session

from queueapp.errors import InvalidJob
from queueapp.handlers import find
from queueapp.jobs import backoff, transitions
from queueapp.jobs.database import run
from queueapp.jobs.transitions import Outcome
from queueapp.worker.attempts import Attempt
from queueapp.worker.outcomes import Ended
from queueapp.worker.result import storable
from queueapp.worker.terms import Terms

# A handler's own transaction waits for its row: the keeper holds it for a moment at a time.
_OWN_ROW = "SELECT FROM jobs WHERE id = %(id)s AND lease_token = %(token)s FOR NO KEY UPDATE"


def execute(attempt: Attempt, app: Flask, terms: Terms, *, slot: int) -> tuple[Outcome, bool]:
    """Run the attempt. Returns its outcome, and whether it is already written and committed."""
    ended = Ended(attempt.claim, terms, slot, time.monotonic())
    done: tuple[Outcome, bool] | None = None
    # A handler may raise anything, SystemExit and KeyboardInterrupt too, and what it leaves behind
    # may raise when it is cleared away: none of it may end the thread, or its slot would be gone
    # without a word.
    try:
        with app.app_context():
            done = _call_and_close(attempt, ended)
    except BaseException as error:
        done = done or (ended.with_error(attempt, error), False)
    return done


def _call_and_close(attempt: Attempt, ended: Ended) -> tuple[Outcome, bool]:
    try:
        return _call(attempt, ended)
    except BaseException as error:
        return ended.with_error(attempt, error), False
    finally:
        if attempt.context.has_session:
            attempt.context.session.close()


def _call(attempt: Attempt, ended: Ended) -> tuple[Outcome, bool]:
    handler = find(attempt.claim.kind)
    if handler is None:
        return ended.by(backoff.unknown_kind(attempt.claim.handbacks)), False
    try:
        arguments = handler.check(attempt.claim.payload)
    except InvalidJob as error:
        return ended.invalid(error), False
    outcome = ended.well(storable(handler.invoke(attempt.context, arguments)))
    if attempt.context.has_session:
        return outcome, _commit(attempt.context.session, outcome, ended)
    return outcome, False


def _commit(session: Session, outcome: Outcome, ended: Ended) -> bool:
    """Write the success in the handler's own transaction; False when the lease was lost."""
    run(session, _OWN_ROW, id=outcome.id, token=outcome.token)
    accepted = transitions.settle(session, [outcome], actor=ended.terms.actor)
    if outcome.token not in accepted:
        session.rollback()
        return False
    session.commit()
    return True
