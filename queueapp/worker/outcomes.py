"""How an attempt ended, as the outcome that the pump will write. Decisions are ``backoff``'s."""

from __future__ import annotations

import time
from typing import Any

from psycopg.errors import ReadOnlySqlTransaction

from queueapp.errors import InvalidJob
from queueapp.handlers import Defer, Fail, Retry, Stop
from queueapp.jobs import backoff
from queueapp.jobs.backoff import Decision
from queueapp.jobs.claim import Claim
from queueapp.jobs.failure import Failure, described, of_exception
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions import Outcome
from queueapp.worker.attempts import Attempt
from queueapp.worker.result import Result
from queueapp.worker.terms import Terms

# The database takes no writes while it fails over: a job that met that has not used its attempt.
READ_ONLY_WAIT_S = 1.0


class Ended:
    """Makes outcomes of one attempt: the facts that all of them carry."""

    def __init__(self, claim: Claim, terms: Terms, slot: int, began: float) -> None:
        self.claim = claim
        self.terms = terms
        self.slot = slot
        self.began = began

    def well(self, result: Result) -> Outcome:
        """The handler returned."""
        return self._outcome("succeed", result=result.value, size=result.size)

    def by(self, decision: Decision, failure: Failure | None = None) -> Outcome:
        """What backoff decided."""
        return self._outcome(
            decision.verb, delay_s=decision.delay_s, reason=decision.reason, failure=failure
        )

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
            return self._given_back("defer", error.delay_s, None)
        if attempt.context.has_session and _met_a_read_only_server(error):
            # In the session that the job's success is written in: nothing has happened there.
            return self._given_back("defer", READ_ONLY_WAIT_S, Reason.DATABASE_READ_ONLY)
        return self.by(self._after(error), of_exception(error))

    def _after(self, error: BaseException) -> Decision:
        claim, kind = self.claim, {"permanent": isinstance(error, Fail)}
        after_s = error.after_s if isinstance(error, Retry) else None
        reason = Reason.ASKED_TO_RETRY if isinstance(error, Retry) else None
        return backoff.after_failure(
            claim.attempt,
            claim.max_attempts,
            self.terms.backoff,
            after_s=after_s,
            reason=reason,
            **kind,
        )

    def _stopped(self, attempt: Attempt, stop: Stop) -> Outcome:
        reason = attempt.context.stop_reason or stop.reason
        if reason == "cancel":
            return self._outcome("cancel")
        if reason == "timeout":
            return timed_out(attempt, self.terms)
        return self._given_back("release", None, Reason.SHUTDOWN)

    def _given_back(self, verb: Any, delay_s: float | None, reason: str | None) -> Outcome:
        claim, terms = self.claim, self.terms
        return self.by(
            backoff.after_handback(
                verb, claim.handbacks, terms.backoff, delay_s=delay_s, reason=reason
            )
        )

    def _outcome(self, verb: Any, **fields: Any) -> Outcome:
        ran = time.monotonic() - self.began
        failure: Failure | None = fields.get("failure")
        data: dict[str, Any] = {"run_ms": round(ran * 1000, 3), "slot": self.slot}
        if failure is not None:
            data |= {
                "error_class": failure.error_class,
                "error_message": failure.message,
                "traceback": failure.traceback,
            }
            fields["size"] = 2 * len(failure.message) + len(failure.traceback or "")
        return Outcome(
            id=self.claim.id,
            token=self.claim.token,
            verb=verb,
            claimed_at=self.claim.claimed_at,
            ran_s=ran,
            data=data,
            **fields,
        )


def _met_a_read_only_server(error: BaseException) -> bool:
    return isinstance(getattr(error, "orig", error), ReadOnlySqlTransaction)


def timed_out(attempt: Attempt, terms: Terms) -> Outcome:
    """The outcome of an attempt that ran longer than it may."""
    claim = attempt.claim
    failure = described("JobTimeout", "the attempt ran longer than its time-out")
    decision = backoff.after_failure(
        claim.attempt, claim.max_attempts, terms.backoff, reason=Reason.TIMED_OUT
    )
    ended = Ended(claim, terms, -1, attempt.began or time.monotonic())
    return ended.by(decision, failure)


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
