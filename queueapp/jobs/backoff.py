"""Whether and when an attempt that did not succeed returns. Pure; the one place that decides it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

from queueapp.jobs.status import Reason

JITTER = 0.2
# A claim that was lost before its handler began costs no attempt, but not for ever.
LOST_UNSTARTED_LIMIT = 3
# As often as this a job may take its process down with it, whatever its max_attempts says.
MOST_KILLS = 3
UNKNOWN_KIND_BASE_S = 5.0
UNKNOWN_KIND_CAP_S = 300.0
# As far ahead as a job may be due at all. A wait beyond what an interval holds would have the
# database refuse the whole batch that its outcome is settled in.
LONGEST_WAIT_S = 3653 * 86400.0


@dataclass(frozen=True)
class Backoff:
    """The settings of the wait between attempts, in seconds, and the limit on giving back."""

    base_s: float = 5.0
    cap_s: float = 3600.0
    max_handbacks: int = 1000


@dataclass(frozen=True)
class Decision:
    """What an attempt comes to: settle verb, wait in seconds, reason for the ledger."""

    verb: Literal["retry", "fail", "release", "defer"]
    delay_s: float | None = None
    reason: str | None = None


def wait(failures: int, backoff: Backoff) -> float:
    """Seconds until the attempt after ``failures`` failed ones.

    ``min(cap, base * 2^(failures-1))``, then ± 20 % so that what failed together does not come
    back together. The exponent is bounded: no number of failures overflows.

    >>> round(wait(1, Backoff(base_s=5)) / 5) == 1
    True
    """
    doubled = backoff.base_s * 2.0 ** min(max(failures - 1, 0), 512)
    return _storable(min(backoff.cap_s, doubled) * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311


def _storable(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT_S)


def after_failure(
    attempt: int,
    max_attempts: int,
    backoff: Backoff,
    *,
    permanent: bool = False,
    after_s: float | None = None,
    reason: str | None = None,
) -> Decision:
    """Decide about attempt number ``attempt`` (from 1) that failed.

    ``after_s`` replaces the backoff; ``permanent`` ends the job whatever is left.
    """
    if permanent:
        return Decision("fail", reason=reason or Reason.PERMANENT)
    if attempt >= max_attempts:
        return Decision("fail", reason=Reason.ATTEMPTS_USED_UP)
    delay = wait(attempt, backoff) if after_s is None else _storable(after_s)
    return Decision("retry", delay, reason)


def counts(reason: str | None) -> bool:
    """Whether giving back for this reason is a handback, of which there may be only so many.

    What was only waiting in a worker was never offered to a handler: however often, it is as new.
    """
    return reason != Reason.PREFETCH_UNUSED


def after_handback(
    verb: Literal["release", "defer"],
    handbacks: int,
    backoff: Backoff,
    *,
    delay_s: float | None = None,
    reason: str | None = None,
) -> Decision:
    """Decide about an attempt that is given back unused; too many of them end the job."""
    if counts(reason) and handbacks >= backoff.max_handbacks:
        return Decision("fail", reason=Reason.HANDED_BACK_TOO_OFTEN)
    return Decision(verb, None if delay_s is None else _storable(delay_s), reason)


def unknown_kind(handbacks: int) -> Decision:
    """A kind this worker does not know waits for a worker that does, however long it takes."""
    delay = min(UNKNOWN_KIND_CAP_S, UNKNOWN_KIND_BASE_S * 2.0 ** min(handbacks, 16))
    return Decision("defer", delay, Reason.UNKNOWN_KIND)


def after_lost_lease(
    attempt: int,
    max_attempts: int,
    handbacks: int,
    backoff: Backoff,
    *,
    started: bool,
    kills: int = 0,
) -> Decision:
    """Decide about a lease whose holder said nothing more.

    ``kills``: the holder's process died by itself with nothing else in it, for the ``kills``-th
    time that this job was there; 0 when the job cannot be blamed.
    """
    if not started and handbacks < min(LOST_UNSTARTED_LIMIT, backoff.max_handbacks):
        return Decision("release", reason=Reason.LEASE_LOST_BEFORE_START)
    if kills >= MOST_KILLS:
        return Decision("fail", reason=Reason.KILLED_ITS_WORKER)
    reason = Reason.KILLED_ITS_WORKER if kills else Reason.LEASE_LOST
    return after_failure(attempt, max_attempts, backoff, reason=reason)
