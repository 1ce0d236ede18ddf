"""How many jobs a token has created lately: one bucket for each name and rate.

A job asked for is a token out of the bucket, which fills at the token's rate. The library counts by
GCRA, the token bucket kept as one instant: its other one, in whole seconds, loses what has flowed
in since with every request, half of a rate such as 90 a minute. Counted in this process, or in the
Redis that ``QUEUE_RATE_STORE`` names for all processes together.
"""

from __future__ import annotations

import logging
import math
from datetime import timedelta

from flask import current_app
from throttled import MemoryStore, RateLimiterType, RateLimitResult, RedisStore, Throttled
from throttled.exceptions import BaseThrottledError
from throttled.rate_limiter import per_duration
from throttled.store import BaseStore, RedisStoreBackend

from queueapp.auth.limits import Rate, refuse
from queueapp.auth.principal import Principal
from queueapp.errors import RateLimited, SettingError
from queueapp.handlers.problems import problem

log = logging.getLogger(__name__)

# More names than anybody configures; those that were used longest ago would be forgotten.
_MOST_NAMES = 100_000
# A request waits no longer for a Redis that does not answer.
_REDIS = {"SOCKET_TIMEOUT": 0.5, "SOCKET_CONNECT_TIMEOUT": 0.5}
# The library wraps what the package raises, but not where it connects.
_REDIS_FAULTS: tuple[type[Exception], ...] = (
    BaseThrottledError,
    *RedisStoreBackend.base_exceptions,
    OSError,
)
# What an address raises that means nothing.
_UNUSABLE: tuple[type[Exception], ...] = (ValueError, *_REDIS_FAULTS)


class Rates:
    """The buckets. Raises SettingError for a store that cannot be used."""

    def __init__(self, address: str = "") -> None:
        self._store: BaseStore = _store(address)
        self._of_rate: dict[Rate, Throttled] = {}

    def take(self, key: str, rate: Rate, jobs: int) -> int:
        """Take ``jobs`` out of the bucket, or none; then say in how many seconds they will be."""
        throttled = self._of_rate.get(rate)
        if throttled is None:
            throttled = self._of_rate[rate] = _throttled(rate, self._store)
        result: RateLimitResult = throttled.limit(key, cost=jobs)
        return max(math.ceil(result.state.retry_after), 1) if result.limited else 0


def charge(principal: Principal, jobs: int) -> None:
    """Count jobs that are about to be created. Raises BeyondLimit and RateLimited."""
    rate = principal.limits.rate
    if rate is None or not jobs:
        return
    if jobs > rate.burst:
        said = f"this token may create {rate.burst} jobs at once; send several requests"
        refuse([("burst", problem((rate.burst,), f"{said} (its limit burst)"))])
    rates: Rates = current_app.extensions["queue_rates"]
    try:
        wait = rates.take(f"{principal.name}:{rate.jobs}/{rate.seconds}", rate, jobs)
    except _REDIS_FAULTS as error:
        # Whoever is known to be good must not wait for a Redis; the hard limit still holds.
        log.warning("QUEUE_RATE_STORE does not answer, %s goes on: %s", principal.actor, error)
        return
    if wait:
        raise RateLimited(
            f"this token may create {rate.jobs} jobs in {_span(rate)}, {rate.burst} at once (its"
            f" limit rate); nothing was created: try again in {wait} s",
            limit="rate",
            retry_after=wait,
        )


def _span(rate: Rate) -> str:
    return {1: "a second", 60: "a minute", 3_600: "an hour", 86_400: "a day"}[rate.seconds]


def _throttled(rate: Rate, store: BaseStore) -> Throttled:
    quota = per_duration(timedelta(seconds=rate.seconds), rate.jobs, rate.burst)
    gcra = RateLimiterType.GCRA.value
    return Throttled(using=gcra, quota=quota, store=store, key_prefix="queue")


def _store(address: str) -> BaseStore:
    if not address:
        return MemoryStore(options={"MAX_SIZE": _MOST_NAMES})
    try:
        store = RedisStore(server=address, options=dict(_REDIS))
        # Reads the address to the end.
        _throttled(Rate(1, 1, 1), store).limiter  # noqa: B018
    except ImportError:
        raise _unusable("needs the package redis: pip install 'throttled-py[redis]'") from None
    except _UNUSABLE as error:
        raise _unusable(f"cannot be used ({type(error).__name__})") from None
    return store


def _unusable(what: str) -> SettingError:
    return SettingError(f"QUEUE_RATE_STORE: {what}", setting="QUEUE_RATE_STORE")
