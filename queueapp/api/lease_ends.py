"""How a worker elsewhere says that a job ended, as the outcome that will be written."""

from __future__ import annotations

from collections.abc import Sequence

from queueapp.api.lease_schemas import Defer, End, Fail, Succeed
from queueapp.errors import InvalidRequest
from queueapp.handlers.json_limits import value_problems
from queueapp.handlers.problems import first_of
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.endings import Endings
from queueapp.jobs.failure import described
from queueapp.jobs.queries import Standing
from queueapp.jobs.result import storable
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions import Outcome


class _Remote(Endings):
    """The ends of an attempt that runs elsewhere."""

    def __init__(self, standing: Standing, limits: Backoff) -> None:
        super().__init__(standing, limits, {"via": "api"})
        self._ran_s = max(standing.ran_s or 0.0, 0.0)

    def ran_s(self) -> float:
        """By the database's clock, from its start."""
        return self._ran_s


def outcome_of(end: End, standing: Standing, limits: Backoff) -> Outcome:
    """What is to be written."""
    remote = _Remote(standing, limits)
    if isinstance(end, Succeed):
        return remote.well(storable(end.result))
    if isinstance(end, Fail):
        return remote.failed(
            described(end.error_class, end.error_message, end.traceback),
            permanent=end.permanent,
            after_s=end.retry_after,
            reason=Reason.ASKED_TO_RETRY if "retry_after" in end.model_fields_set else None,
        )
    if isinstance(end, Defer):
        return remote.given_back("defer", end.delay, None)
    return remote.given_back("release", None, None)


def refuse_unstorable(ends: Sequence[End]) -> None:
    """Raise InvalidRequest for results that no database could give back as they are."""
    found = [
        one
        for place, end in enumerate(ends)
        if isinstance(end, Succeed)
        for one in value_problems(end.result, ("items", place, "result"))
    ]
    if found:
        errors = first_of(found)
        raise InvalidRequest(f"{errors[0]['pointer']} {errors[0]['detail']}", errors=errors)
