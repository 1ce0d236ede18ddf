"""Whether and when an attempt returns: pure, so nothing here needs a database."""

from __future__ import annotations

import math
import statistics

import pytest

from queueapp.jobs.backoff import (
    JITTER,
    LONGEST_WAIT_S,
    LOST_UNSTARTED_LIMIT,
    Backoff,
    after_failure,
    after_handback,
    after_lost_lease,
    unknown_kind,
    wait,
)
from queueapp.jobs.status import Reason

BACKOFF = Backoff(base_s=5, cap_s=3600, max_handbacks=1000)


@pytest.mark.parametrize(
    ("failures", "middle"), [(1, 5), (2, 10), (3, 20), (4, 40), (10, 2560), (11, 3600), (12, 3600)]
)
def test_wait_doubles_up_to_the_cap(failures: int, middle: float) -> None:
    waits = [wait(failures, BACKOFF) for _ in range(200)]

    assert min(waits) >= middle * (1 - JITTER)
    assert max(waits) <= middle * (1 + JITTER)


@pytest.mark.parametrize("failures", [-1, 0, 30, 31, 32, 62, 63, 64, 1023, 1024, 1025, 5000, 10**9])
def test_wait_never_overflows(failures: int) -> None:
    assert 0 < wait(failures, BACKOFF) <= BACKOFF.cap_s * (1 + JITTER)


def test_wait_without_a_cap_worth_the_name_stays_storable() -> None:
    assert wait(5000, Backoff(base_s=5, cap_s=1e300)) <= LONGEST_WAIT_S


def test_wait_spreads_what_failed_together() -> None:
    waits = [wait(5, BACKOFF) for _ in range(2000)]

    # Uniform over ±20 % of 80 s: half of them lie outside the middle half.
    assert min(waits) < 66
    assert max(waits) > 94
    assert statistics.mean(waits) == pytest.approx(80, rel=0.03)
    assert 0.4 < sum(72 <= found <= 88 for found in waits) / len(waits) < 0.6


def test_a_failure_with_attempts_left_is_retried_after_the_backoff() -> None:
    decision = after_failure(1, 5, BACKOFF)

    assert (decision.verb, decision.reason) == ("retry", None)
    assert decision.delay_s is not None
    assert 4 <= decision.delay_s <= 6


@pytest.mark.parametrize(("attempt", "most"), [(1, 1), (5, 5), (6, 5)])
def test_a_failure_of_the_last_attempt_ends_the_job(attempt: int, most: int) -> None:
    decision = after_failure(attempt, most, BACKOFF, reason=Reason.LEASE_LOST, after_s=1)

    assert (decision.verb, decision.reason) == ("fail", Reason.ATTEMPTS_USED_UP)


def test_a_permanent_failure_ends_the_job_whatever_is_left() -> None:
    decision = after_failure(1, 5, BACKOFF, permanent=True)

    assert (decision.verb, decision.reason) == ("fail", Reason.PERMANENT)


def test_a_permanent_failure_keeps_its_own_reason() -> None:
    decision = after_failure(1, 5, BACKOFF, permanent=True, reason=Reason.INVALID_PAYLOAD)

    assert decision.reason == Reason.INVALID_PAYLOAD


@pytest.mark.parametrize("after_s", [0.0, 1.5, 86_400.0])
def test_a_wait_that_was_asked_for_replaces_the_backoff(after_s: float) -> None:
    assert after_failure(1, 5, BACKOFF, after_s=after_s).delay_s == after_s


@pytest.mark.parametrize("after_s", [-1.0, -math.inf, math.inf, math.nan, 1e300])
def test_a_wait_that_cannot_be_stored_is_bounded(after_s: float) -> None:
    """One such outcome must not make the database refuse the whole batch it is settled in."""
    for decision in (
        after_failure(1, 5, BACKOFF, after_s=after_s),
        after_handback("defer", 0, BACKOFF, delay_s=after_s),
    ):
        assert decision.delay_s is not None
        assert 0 <= decision.delay_s <= LONGEST_WAIT_S


def test_a_handback_keeps_verb_delay_and_reason() -> None:
    decision = after_handback("defer", 999, BACKOFF, delay_s=7, reason="later")

    assert (decision.verb, decision.delay_s, decision.reason) == ("defer", 7, "later")


def test_a_release_without_a_delay_keeps_the_due_time() -> None:
    assert after_handback("release", 0, BACKOFF).delay_s is None


@pytest.mark.parametrize("verb", ["release", "defer"])
def test_too_many_handbacks_end_the_job(verb: str) -> None:
    decision = after_handback(verb, 1000, BACKOFF, delay_s=7)  # type: ignore[arg-type]

    assert (decision.verb, decision.reason) == ("fail", Reason.HANDED_BACK_TOO_OFTEN)


def test_a_job_that_only_waited_in_a_worker_is_never_given_back_too_often() -> None:
    decision = after_handback("release", 10**6, BACKOFF, reason=Reason.PREFETCH_UNUSED)

    assert (decision.verb, decision.reason) == ("release", Reason.PREFETCH_UNUSED)


def test_an_unknown_kind_waits_longer_each_time_and_never_ends() -> None:
    delays = [unknown_kind(handbacks).delay_s for handbacks in range(8)]

    assert delays == [5, 10, 20, 40, 80, 160, 300, 300]
    assert {unknown_kind(handbacks).verb for handbacks in (0, 1000, 10**6)} == {"defer"}


@pytest.mark.parametrize("handbacks", range(LOST_UNSTARTED_LIMIT))
def test_a_lease_lost_before_its_start_gives_the_attempt_back(handbacks: int) -> None:
    decision = after_lost_lease(1, 1, handbacks, BACKOFF, started=False)

    assert (decision.verb, decision.reason) == ("release", Reason.LEASE_LOST_BEFORE_START)


def test_a_lease_lost_before_its_start_for_the_fourth_time_costs_the_attempt() -> None:
    assert after_lost_lease(1, 5, 3, BACKOFF, started=False).verb == "retry"
    assert after_lost_lease(1, 1, 3, BACKOFF, started=False).verb == "fail"


def test_a_lease_lost_before_its_start_obeys_a_lower_limit_on_handbacks() -> None:
    decision = after_lost_lease(1, 5, 1, Backoff(max_handbacks=1), started=False)

    assert decision.verb == "retry"


def test_a_lease_lost_after_its_start_is_a_failed_attempt() -> None:
    decision = after_lost_lease(2, 5, 0, BACKOFF, started=True)

    assert (decision.verb, decision.reason) == ("retry", Reason.LEASE_LOST)
    assert decision.delay_s is not None
    assert 8 <= decision.delay_s <= 12
