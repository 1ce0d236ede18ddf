"""How a worker elsewhere says that a job ended, as the outcome that will be written."""

from __future__ import annotations

from queueapp.api.lease_schemas import Defer, End, Fail, Succeed
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
            described(end.error_class or "Error", end.error_message, end.traceback),
            permanent=end.permanent,
            after_s=end.retry_after,
            reason=Reason.ASKED_TO_RETRY if "retry_after" in end.model_fields_set else None,
        )
    if isinstance(end, Defer):
        return remote.given_back("defer", end.delay, None)
    return remote.given_back("release", None, None)
