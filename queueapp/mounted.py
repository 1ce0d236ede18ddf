"""The path under which the application is shown, where a proxy gives it a part of a site only.

A proxy may pass the whole path on or take the prefix off: both are served, so that probes may ask
for ``/healthz`` past it. Every address in a page or an answer has the prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Flask

from queueapp.config import Settings
from queueapp.errors import SettingError


def init_app(app: Flask) -> None:
    """Put the prefix of the settings before ``app``, after all its routes are known.

    Raises SettingError for one that begins like an address of our own: what is asked for could
    not be told.
    """
    settings: Settings = app.extensions["queue_settings"]
    prefix = settings.prefix
    if not prefix:
        return
    first = prefix.split("/")[1]
    if any(rule.rule.split("/")[1] == first for rule in app.url_map.iter_rules()):
        raise SettingError(
            f"QUEUE_PREFIX: /{first} is an address of the queue itself: take another one",
            setting="QUEUE_PREFIX",
        )
    app.wsgi_app = _Mounted(app.wsgi_app, prefix)  # type: ignore[method-assign]


class _Mounted:
    """Moves the prefix from the path to the root, as WSGI has it."""

    def __init__(self, application: Any, prefix: str) -> None:
        self._application = application
        self._prefix = prefix

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            environ["PATH_INFO"] = path[len(self._prefix) :] or "/"
        environ["SCRIPT_NAME"] = self._prefix
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer
