"""Answers that a client may keep, and ask whether they are still the same."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, request

from queueapp.api.describe import json_answer


def marked(value: Any) -> Response:
    """Answer with ``value`` and its mark; 304 to a client that shows the same mark."""
    response = json_answer(value)
    return marked_as(response, response.get_data())


def marked_as(response: Response, content: bytes) -> Response:
    """The same for a whole response, marked by ``content``."""
    response.set_etag(hashlib.sha256(content).hexdigest()[:20])
    # To be kept by the client alone, and asked about each time.
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Authorization"
    response.make_conditional(request)
    return response
