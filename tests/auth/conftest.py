"""An application with one token for every role. A token is its role's name and ``-secret``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from queueapp.auth import Role
from tests.applications import application


def entry(name: str, role: str, token: str) -> str:
    return f"{name}:{role}:{hashlib.sha256(token.encode()).hexdigest()}"


def bearer(role: Role | str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}-secret"}


@pytest.fixture
def tokens() -> str:
    return " ".join(entry(f"the-{role}", role, f"{role}-secret") for role in Role)


@pytest.fixture
def guarded(database_url: str, tokens: str) -> Iterator[Flask]:
    """The application with tokens configured."""
    with application(database_url, QUEUE_TOKENS=tokens) as app:
        yield app


@pytest.fixture
def caller(guarded: Flask) -> FlaskClient:
    """A client from elsewhere, without credentials of its own."""
    client = guarded.test_client()
    client.environ_base |= {"REMOTE_ADDR": "203.0.113.7", "HTTP_HOST": "queue.example.com"}
    return client
