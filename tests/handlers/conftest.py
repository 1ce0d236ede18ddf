"""A registry and a policy that each test may change, a running attempt, a local HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from queueapp import handlers
from queueapp.handlers import JobContext, Policy, configure, policy, registry
from tests.handlers.receiver import Receiver


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test registers or configures is gone after it."""
    handlers.load()
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    monkeypatch.setattr(policy, "_policy", Policy())


def no_session(_stop: Callable[[], None]) -> Session:
    raise AssertionError("this handler needs no session")


def make_context(**fields: Any) -> JobContext:
    """The attempt that a handler sees; ``fields`` replace what a test does not care about."""
    usual = {"id": 7, "kind": "demo.echo", "attempt": 1, "max_attempts": 5}
    return JobContext(**{**usual, "open_session": no_session, **fields})


@pytest.fixture
def context() -> JobContext:
    return make_context()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on 127.0.0.1 that http.request may reach."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def local_hosts() -> None:
    """Let http.request reach the servers of the tests."""
    configure(Policy(http_allowed_hosts=("127.0.0.1", "localhost"), http_allow_private=True))
