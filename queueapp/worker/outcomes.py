"""How an attempt of this worker ended, as the outcome that the pump will write."""

from __future__ import annotations

import time

from psycopg.errors import ReadOnlySqlTransaction

from queueapp.errors import InvalidJob
from queueapp.handlers import Defer, Fail, Retry, Stop
from queueapp.jobs import backoff
from queueapp.jobs.backoff import Decision
from queueapp.jobs.claim import Claim
from queueapp.jobs.endings import Endings
from queueapp.jobs.failure import described, of_exception
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions import Outcome
from queueapp.worker.attempts import Attempt
from queueapp.worker.terms import Terms

# The database takes no writes while it fails over: a job that met that has not used its attempt.
READ_ONLY_WAIT_S = 1.0


class Ended(Endings):
    """Makes outcomes of one attempt that a handler of this process has run."""

    def __init__(self, claim: Claim, terms: Terms, slot: int, began: float) -> None:
        super().__init__(claim, terms.backoff, {"slot": slot})
        self.terms = terms
        self._began = began

    def ran_s(self) -> float:
        """How long it has run by now."""
        return time.monotonic() - self._began

    def invalid(self, error: InvalidJob) -> Outcome:
        """The stored payload does not fit the handler of today: trying again cannot help."""
        problems = error.context.get("errors", [])
        places = "; ".join(f"{p['pointer']}: {p['detail']}" for p in problems)
        failure = described("InvalidPayload", f"{error}: {places}" if places else str(error))
        decision = Decision("fail", reason=Reason.INVALID_PAYLOAD)
        return self.by(decision, failure)

    def with_error(self, attempt: Attempt, error: BaseException) -> Outcome:
        """The handler raised."""
        if isinstance(error, Stop):
            return self._stopped(attempt, error)
        if isinstance(error, Defer):
            return self.given_back("defer", error.delay_s, None)
        if attempt.context.has_session and _met_a_read_only_server(error):
            # In the session that the job's success is written in: nothing has happened there.
            return self.given_back("defer", READ_ONLY_WAIT_S, Reason.DATABASE_READ_ONLY)
        return self.failed(
            of_exception(error),
            permanent=isinstance(error, Fail),
            after_s=error.after_s if isinstance(error, Retry) else None,
            reason=Reason.ASKED_TO_RETRY if isinstance(error, Retry) else None,
        )

    def _stopped(self, attempt: Attempt, stop: Stop) -> Outcome:
        reason = attempt.context.stop_reason or stop.reason
        if reason == "cancel":
            return self.outcome("cancel")
        if reason == "timeout":
            return timed_out(attempt, self.terms)
        return self.given_back("release", None, Reason.SHUTDOWN)


def _met_a_read_only_server(error: BaseException) -> bool:
    return isinstance(getattr(error, "orig", error), ReadOnlySqlTransaction)


def timed_out(attempt: Attempt, terms: Terms) -> Outcome:
    """The outcome of an attempt that ran longer than it may."""
    claim = attempt.claim
    failure = described("JobTimeout", "the attempt ran longer than its time-out")
    ended = Ended(claim, terms, -1, attempt.began or time.monotonic())
    return ended.failed(failure, reason=Reason.TIMED_OUT)


def handed_back(attempt: Attempt, terms: Terms, reason: Reason) -> Outcome:
    """The outcome of an attempt that this worker will not finish: it is given back unused."""
    claim = attempt.claim
    decision = backoff.after_handback("release", claim.handbacks, terms.backoff, reason=reason)
    return Outcome(
        id=claim.id,
        token=claim.token,
        verb=decision.verb,
        claimed_at=claim.claimed_at,
        reason=decision.reason,
    )


def unstorable(outcome: Outcome, error: Exception) -> Outcome:
    """The outcome in place of one that the database refuses to store, whatever is in it."""
    failure = described("OutcomeNotStorable", f"the database refused it: {type(error).__name__}")
    return Outcome(
        id=outcome.id,
        token=outcome.token,
        verb="fail",
        claimed_at=outcome.claimed_at,
        ran_s=outcome.ran_s,
        reason=Reason.PERMANENT,
        failure=failure,
        data={"error_class": failure.error_class, "error_message": failure.message},
    )
