"""The application that a request or a command is served by."""

from __future__ import annotations

from flask import Flask, current_app


def this_app() -> Flask:
    """The application itself, which threads without its context may hold; ``current_app`` is not.

    Raises RuntimeError outside of its context.
    """
    found: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    return found
