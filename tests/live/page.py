"""Pages of the console as a browser without scripts asks for them."""

from __future__ import annotations

import contextlib
import http.client
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from tests.live.journey import Web


@dataclass(frozen=True)
class Page:
    """An answer, its text as it came."""

    status: int
    text: str
    location: str = ""


def page(
    web: Web,
    method: str,
    path: str,
    form: Mapping[str, str | list[str]] | None = None,
    *,
    token: str | None = None,
) -> Page:
    """Ask for a page, or send a form as the console's own pages do; as the holder of ``token``."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    headers = {"Accept": "text/html"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if form is not None:
        headers |= {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://127.0.0.1:{web.port}",
        }
    with contextlib.closing(connection):
        body = None if form is None else urllib.parse.urlencode(form, doseq=True)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        location = answer.headers.get("Location", "")
        return Page(answer.status, answer.read().decode(), location)
