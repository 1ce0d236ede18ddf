"""How an attempt ended, as the outcome that will be written, whoever holds its lease.

What a failure or a hand-back comes to is decided by ``backoff``, here and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from queueapp.jobs import backoff
from queueapp.jobs.backoff import Backoff, Decision
from queueapp.jobs.failure import Failure
from queueapp.jobs.result import Result
from queueapp.jobs.transitions import Outcome


class Attempted(Protocol):
    """What an end needs to know of its attempt; a ``Claim`` does."""

    @property
    def id(self) -> int: ...
    @property
    def token(self) -> UUID: ...
    @property
    def claimed_at(self) -> datetime: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def handbacks(self) -> int: ...


class Endings(ABC):
    """Makes outcomes of one attempt: the facts that all of them carry."""

    def __init__(self, claim: Attempted, limits: Backoff, told: dict[str, Any]) -> None:
        self._claim = claim
        self._limits = limits
        self._told = told

    @abstractmethod
    def ran_s(self) -> float:
        """How long it has run by now."""

    def well(self, result: Result) -> Outcome:
        """The work is done."""
        return self.outcome("succeed", result=result.value, size=result.size)

    def failed(
        self,
        failure: Failure,
        *,
        permanent: bool = False,
        after_s: float | None = None,
        reason: str | None = None,
    ) -> Outcome:
        """The work was not done, and the attempt is used up."""
        claim = self._claim
        decision = backoff.after_failure(
            claim.attempt,
            claim.max_attempts,
            self._limits,
            permanent=permanent,
            after_s=after_s,
            reason=reason,
        )
        return self.by(decision, failure)

    def given_back(
        self, verb: Literal["release", "defer"], delay_s: float | None, reason: str | None
    ) -> Outcome:
        """The attempt is given back unused."""
        return self.by(
            backoff.after_handback(
                verb, self._claim.handbacks, self._limits, delay_s=delay_s, reason=reason
            )
        )

    def by(self, decision: Decision, failure: Failure | None = None) -> Outcome:
        """What backoff decided."""
        return self.outcome(
            decision.verb, delay_s=decision.delay_s, reason=decision.reason, failure=failure
        )

    def outcome(self, verb: Any, **fields: Any) -> Outcome:
        """The outcome with what the ledger keeps of it."""
        ran = self.ran_s()
        failure: Failure | None = fields.get("failure")
        data: dict[str, Any] = {"run_ms": round(ran * 1000, 3), **self._told}
        if failure is not None:
            data |= {
                "error_class": failure.error_class,
                "error_message": failure.message,
                "traceback": failure.traceback,
            }
            fields["size"] = 2 * len(failure.message) + len(failure.traceback or "")
        return Outcome(
            id=self._claim.id,
            token=self._claim.token,
            verb=verb,
            claimed_at=self._claim.claimed_at,
            ran_s=ran,
            data=data,
            **fields,
        )
