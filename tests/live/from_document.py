"""Requests made from the OpenAPI document, good and bad ones: are the answers promised?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck

from tests.live.needs import lacking


def schemathesis() -> Any:
    """The package, where it is installed."""
    try:
        import schemathesis
    except ImportError:
        lacking("no schemathesis (pip install -r requirements-dev.txt)")
    return schemathesis


def try_all(
    schema: Any,
    mode: str,
    seed: int,
    *,
    examples: int = 15,
    before: Callable[[Any], object] = id,
    **how: Any,
) -> Counter[int]:
    """Call every operation; raises at an answer that is not promised. How often each status came.

    ``mode``: positive, as the document asks for; negative, otherwise. ``before``: what to do to
    each case before it is sent. ``how``: as schemathesis's own ``call_and_validate`` takes it.
    """
    met: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        cases = operation.as_strategy(generation_mode=schemathesis().GenerationMode(mode))
        try:
            _try_each(cases, seed, examples, before, how, met)()
        except hypothesis.errors.Unsatisfiable:
            # An operation that takes nothing cannot be asked wrongly.
            assert mode == "negative", operation.label
    return met


def _try_each(
    cases: Any,
    seed: int,
    examples: int,
    before: Callable[[Any], object],
    how: dict[str, Any],
    met: Counter[int],
) -> Callable[[], None]:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=cases)
    def one(case: Any) -> None:
        before(case)
        met[case.call_and_validate(**how).status_code] += 1

    return one


def wait_for_nothing(case: Any) -> None:
    """Have a request not wait: one that waits as long as it may takes 20 s, and there are many."""
    for place in (case.query, case.body):
        if isinstance(place, dict) and place.get("wait"):
            place["wait"] = 0
