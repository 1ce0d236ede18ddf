"""A site that gives the application a part of itself, and takes the prefix off on the way to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Site:
    """What stands at ``prefix`` is the application's; ``astray``: what was asked for elsewhere.

    As a proxy that passes on nothing but the host's name: the application never sees the prefix.
    """

    def __init__(self, app: WSGIApplication, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self.astray: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not f"{path}/".startswith(f"{self._prefix}/"):
            self.astray.append(path)
            start_response("404 NOT FOUND", [("Content-Type", "text/plain")])
            return [b"another part of the site\n"]
        environ["PATH_INFO"] = path[len(self._prefix) :] or "/"
        return self._app(environ, start_response)
