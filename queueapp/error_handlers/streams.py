"""What goes wrong while an answer is sent: too late for a refusal, so the log alone is told."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from flask import Response, request

from queueapp.error_handlers.headers import logged_path, request_id
from queueapp.error_handlers.story import story

log = logging.getLogger(__name__)


class BrokenOff(Exception):
    """An answer that stops before its end; the server is to cut the connection."""


def watch(response: Response) -> Response:
    """Keep what a stream raises from the server, whose log would have all of its text."""
    if response.is_streamed and not response.direct_passthrough:
        where = (request.method, logged_path(), request_id())
        response.response = _watched(response.response, where)
    return response


def _watched(pieces: Iterable[Any], where: tuple[str, str, str]) -> Iterator[Any]:
    try:
        yield from pieces
    except Exception as error:
        log.error("%s %s broke off, request %s\n%s", *where, story(error))
        raise BrokenOff("its cause is in the log, under the request id") from None
