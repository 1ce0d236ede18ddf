"""Chromium against the real application: one server a test, over the test's own database.

Whatever the browser reports as an error fails the test, unless the test said it expects it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright
import pytest
from flask import Flask
from playwright.sync_api import BrowserContext, ConsoleMessage, WebError, expect

from tests.browser.serving import served

HERE = Path(__file__).parent
# Quiet: Chromium's own background requests would fail without a network, many at a time.
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    # The sandbox is refused to root and in containers; only our own pages are opened.
    "--no-sandbox",
)
# What comes is awaited as long as it takes on a machine that has much else to do.
expect.set_options(timeout=20_000)


def find_chromium() -> str | None:
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def what_is_missing() -> str:
    """Say why no browser can be driven here, and what to do about it; '' when one can."""
    if find_chromium() is None:
        return "no Chromium (apt-get install chromium)"
    node = Path(playwright.__file__).parent / "driver" / "node"
    if subprocess.run([node, "--version"], check=False, capture_output=True).returncode:
        return "Playwright's driver does not run (apt-get install libatomic1)"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    # In continuous integration a missing browser is a failure, not a reason to skip.
    missing = "" if not ours or os.environ.get("CI") else what_is_missing()
    for item in ours:
        item.add_marker(pytest.mark.browser)
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    found = find_chromium()
    return {**browser_type_launch_args, "executable_path": found, "args": list(ARGUMENTS)}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {
        **browser_context_args,
        "viewport": {"width": 1280, "height": 800},
        "locale": "en-GB",
        "timezone_id": "UTC",
        "reduced_motion": "reduce",
    }


@pytest.fixture(scope="session")
def base_url() -> None:
    """Each test has a server of its own, so there is no one address. The plugin's default warns."""


@pytest.fixture
def live_server(app: Flask) -> Iterator[str]:
    """The application over the test's database, answering at the address that this is."""
    with served(app) as root:
        yield root


@pytest.fixture
def expected_errors() -> list[str]:
    """Patterns of console errors that a test brings about on purpose; append to it."""
    return []


@pytest.fixture
def context(
    live_server: str, expected_errors: list[str], context: BrowserContext
) -> Iterator[BrowserContext]:
    """A browser context that must stay free of errors, and is closed before its server."""
    errors: list[str] = []

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} ({message.location['url']})")

    def note_exception(error: WebError) -> None:
        errors.append(str(error.error))

    context.on("console", note_message)
    context.on("weberror", note_exception)
    yield context
    unexpected = [e for e in errors if not any(re.search(p, e) for p in expected_errors)]
    assert not unexpected, f"the browser reported {unexpected}"
