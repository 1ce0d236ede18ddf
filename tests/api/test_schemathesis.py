"""Requests made from the document, good and bad ones: no answer that it does not promise."""

from __future__ import annotations

import pytest
from flask import Flask

from queueapp.api import job_end, leases
from tests.live.from_document import schemathesis, try_all

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 5))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_answer_is_undocumented(
    app: Flask, monkeypatch: pytest.MonkeyPatch, mode: str, seed: int
) -> None:
    passed = iter(range(10**9))
    # Waits are over at once.
    monkeypatch.setattr(job_end, "pause", lambda _: None)
    monkeypatch.setattr(job_end, "monotonic", lambda: 60 * next(passed))
    monkeypatch.setattr(leases, "looks", lambda _: ())

    document = schemathesis().openapi.from_wsgi("/api/openapi.json", app)
    # The everyday run looks at every operation with a few requests, the long one at more.
    try_all(document, mode, seed, examples=3 if seed == SEEDS[0] else 15)
