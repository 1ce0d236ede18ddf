"""Answers in fewer bytes to whoever takes them so: pages, JSON and static files, but no streams.

Whoever reads along sees how long an answer is, and what repeats within it makes it shorter. So what
a page of another site has had a browser ask for, with words of its choice, is sent as it is.
"""

from __future__ import annotations

from flask import Flask, Response, g, request
from flask_compress import Compress
from werkzeug.wrappers import Request

from queueapp.auth.origin import is_asked_by_other_site

# In the order of our choice. Browsers take zstd over https alone.
ALGORITHMS = ("zstd", "gzip")


class _Files:
    """Static files as they were compressed, once each: there are few, and they stay the same."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """What is kept for ``key``."""
        return self._kept.get(key)

    def set(self, key: str, value: bytes) -> None:
        """Keep what was made of a file; nothing of an answer to a question."""
        if not key.endswith(";"):
            self._kept[key] = value


def init_app(app: Flask) -> None:
    """Have ``app`` compress. To be called first: what is asked for last is done first."""
    app.config.update(
        COMPRESS_ALGORITHM=list(ALGORITHMS),
        COMPRESS_STREAMS=False,
        COMPRESS_CACHE_BACKEND=_Files,
        COMPRESS_CACHE_KEY=_mark_of_file,
        COMPRESS_REGISTER=False,
    )
    compress = Compress(app)

    def send(response: Response) -> Response:
        if is_asked_by_other_site(request) or not _is_welcome():
            response.vary.add("Accept-Encoding")
            return response
        return compress.after_request(_whole(response))

    app.after_request(send)


def _is_welcome() -> bool:
    """Whether the client takes any: Flask-Compress does not know that ``q=0`` is a no."""
    return any(request.accept_encodings[name] > 0 for name in ALGORITHMS)


def _mark_of_file(_request: Request) -> str:
    return str(g.get("mark_of_file", ""))


def _whole(response: Response) -> Response:
    """A whole static file as one piece, which can be compressed; with a mark, by which it is kept.

    An address would not do: one file can be asked for by many.
    """
    mark, _ = response.get_etag()
    if request.endpoint == "static" and response.status_code == 200 and mark:
        response.direct_passthrough = False
        content = b"".join(response.iter_encoded())
        response.close()
        response.set_data(content)
        g.mark_of_file = mark
    return response
