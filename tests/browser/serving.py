"""A web server of a test's own, at an address of this machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Say nothing: the log of requests is not the test's output."""


def _closed(app: WSGIApplication) -> WSGIApplication:
    """Close each answer: where a browser goes away in the middle of one, the server forgets to."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterator[bytes]:
        with contextlib.closing(app(environ, start_response)) as answer:  # type: ignore[type-var]
            yield from answer

    return serve


@contextlib.contextmanager
def served(app: WSGIApplication) -> Iterator[str]:
    """Serve ``app``; the address of its root, without a slash."""
    server = make_server("127.0.0.1", 0, _closed(app), threaded=True, request_handler=_Silent)
    # Requests in flight end before the database is emptied.
    server.daemon_threads = False  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()
