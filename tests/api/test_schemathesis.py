"""Requests made from the document, good and bad ones: no answer that it does not promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from flask import Flask
from hypothesis import HealthCheck

from queueapp.api import job_end, leases
from tests.live.needs import lacking

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 5))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_answer_is_undocumented(
    app: Flask, monkeypatch: pytest.MonkeyPatch, mode: str, seed: int
) -> None:
    schemathesis = _schemathesis()
    passed = iter(range(10**9))
    # Waits are over at once.
    monkeypatch.setattr(job_end, "pause", lambda _: None)
    monkeypatch.setattr(job_end, "monotonic", lambda: 60 * next(passed))
    monkeypatch.setattr(leases, "looks", lambda _: ())
    schema = schemathesis.openapi.from_wsgi("/api/openapi.json", app)

    for found in schema.get_all_operations():
        operation = found.ok()
        cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))
        try:
            _try_each(cases, seed)()
        except hypothesis.errors.Unsatisfiable:
            # An operation that takes nothing cannot be asked wrongly.
            assert mode == "negative", operation.label


def _try_each(cases: Any, seed: int) -> Callable[[], None]:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @hypothesis.given(case=cases)
    def one(case: Any) -> None:
        case.call_and_validate()

    return one


def _schemathesis() -> Any:
    try:
        import schemathesis
    except ImportError:
        lacking("no schemathesis (pip install -r requirements-dev.txt)")
    return schemathesis
