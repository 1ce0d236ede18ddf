"""The demo kinds do what their names say."""

from __future__ import annotations

from typing import Any

import pytest

from queueapp.errors import InvalidJob
from queueapp.handlers import Handler, Progress, Stop, find
from queueapp.handlers.demo import DemoFailure
from tests.handlers.conftest import make_context


def known(kind: str) -> Handler:
    found = find(kind)
    assert found is not None
    return found


def call(kind: str, payload: dict[str, Any], **context: Any) -> Any:
    return known(kind).call(make_context(kind=kind, **context), payload)


def test_echo_returns_its_message() -> None:
    assert call("demo.echo", {"message": {"a": [1]}}) == {"a": [1]}
    assert call("demo.echo", {}) is None


def test_sleep_ends_with_full_progress() -> None:
    context = make_context()
    assert known("demo.sleep").call(context, {"seconds": 0.02}) == {"slept_s": 0.02}
    assert context.take_progress() == Progress(100, None)


@pytest.mark.parametrize("kind", ["demo.sleep", "demo.slow"])
def test_long_ones_stop_when_asked_to(kind: str) -> None:
    context = make_context()
    context.interrupt("cancel")
    with pytest.raises(Stop):
        known(kind).call(context, {"seconds": 3600})
    assert context.take_progress() is not None


def test_slow_tells_what_it_is_at() -> None:
    context = make_context()
    assert known("demo.slow").call(context, {"seconds": 0, "steps": 4}) == {"steps": 4}
    assert context.take_progress() == Progress(100, "Done")


def test_flaky_fails_the_first_attempts_only() -> None:
    for attempt in (1, 2):
        with pytest.raises(DemoFailure):
            call("demo.flaky", {"fail_first": 2}, attempt=attempt)
    assert call("demo.flaky", {"fail_first": 2}, attempt=3) == {"attempt": 3}


def is_lucky(probability: float, **context: Any) -> bool:
    try:
        call("demo.flaky", {"probability": probability}, **context)
    except DemoFailure:
        return False
    return True


def test_flaky_meets_the_same_luck_again() -> None:
    luck = [is_lucky(0.3, id=number) for number in range(1000)]
    assert luck == [is_lucky(0.3, id=number) for number in range(1000)]
    assert 600 < sum(luck) < 800
    assert not is_lucky(1.0)
    assert is_lucky(0.0)


def test_fail_raises_what_it_is_told() -> None:
    with pytest.raises(DemoFailure, match="out of paper"):
        call("demo.fail", {"message": "out of paper"})


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("demo.sleep", {"seconds": -1}),
        ("demo.sleep", {"seconds": 10**9}),
        ("demo.flaky", {"probability": 1.5}),
        ("demo.fail", {"message": 5}),
    ],
)
def test_odd_payloads_are_refused(kind: str, payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        known(kind).check(payload)
