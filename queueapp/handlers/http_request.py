"""``http.request``: deliver a webhook, or call any HTTP API, at least once.

The status decides: 2xx succeeds, 429 and 5xx try again, everything else ends the job. Where a
request may go is decided in ``outbound`` for every hop.
"""

from __future__ import annotations

import json as jsonlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote, urljoin

from pydantic import AfterValidator, Field

from queueapp.handlers import hosts, outbound
from queueapp.handlers.context import Fail, JobContext, Retry
from queueapp.handlers.registry import handler

MOST_REDIRECTS = 5
LONGEST_RETRY_AFTER_S = 3600.0
USER_AGENT = "queueapp-http-request/1"

# What the connection itself decides, or what would let one request look like two.
_RESERVED = frozenset(
    ("host", "content-length", "connection", "keep-alive", "proxy-connection", "te", "trailer",
     "proxy-authenticate", "proxy-authorization", "transfer-encoding", "upgrade", "expect")
)  # fmt: skip
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CREDENTIALS = re.compile(r"auth|cookie|token|secret|api-?key|signature", re.IGNORECASE)
# Python knows more codecs than the web has charsets, some of them slow or odd.
_CHARSETS = re.compile(
    r"utf-?(8|16)|us-ascii|iso-8859-\d+|windows-125\d|koi8-[ru]|shift_jis|euc-(jp|kr)|gb\w+|big5"
)
_KEPT_HEADERS = ("content-type", "content-length", "date", "etag", "retry-after", "x-request-id")


def _usable_url(url: str) -> str:
    hosts.parse(url)
    return url


def _usable_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("a header's name must be letters, digits and -")
        if name.lower() in _RESERVED:
            raise ValueError(f"the header {name} is set by the connection itself")
        if re.search(r"[^\t\x20-\x7e\xa0-\xff]", value):
            raise ValueError(f"the header {name} must be one line of Latin-1 text")
    return headers


Url = Annotated[str, AfterValidator(_usable_url)]
Headers = Annotated[dict[str, str], AfterValidator(_usable_headers)]
Method = Literal["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"]
Timeout = Annotated[float, Field(gt=0, le=120)]


# Twelve attempts span about three hours of the default backoff: a receiver's bad evening.
@handler("http.request", max_attempts=12, timeout=180)
def http_request(
    context: JobContext,
    url: Url,
    method: Method = "POST",
    headers: Headers | None = None,
    json: Any = None,
    timeout: Timeout = 10.0,
) -> dict[str, Any]:
    """Send an HTTP request: deliver a webhook."""
    begun = time.monotonic()
    body = None if json is None else jsonlib.dumps(json, separators=(",", ":")).encode()
    request = outbound.Request(
        method, hosts.parse(url), _headers(context, headers or {}, body is not None), body
    )
    answer = _follow(context, request, begun + timeout)
    return _result(answer, time.monotonic() - begun)


def _headers(context: JobContext, given: Mapping[str, str], has_body: bool) -> dict[str, str]:
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*"}
    if has_body:
        headers["Content-Type"] = "application/json"
    named = {name.lower() for name in given}
    headers = {name: value for name, value in headers.items() if name.lower() not in named}
    headers |= {name: value for name, value in given.items() if name.lower() != "idempotency-key"}
    # Ours always: it is what lets the receiver recognise a second delivery of this job.
    return headers | {"Idempotency-Key": f"job-{context.id}", "Connection": "close"}


def _follow(context: JobContext, request: outbound.Request, deadline: float) -> outbound.Answer:
    for _ in range(MOST_REDIRECTS + 1):
        context.raise_if_cancelled()
        answer = _exchange(request, deadline)
        location = answer.headers.get("Location")
        if answer.status not in outbound.REDIRECTS or not location:
            _raise_for_status(request, answer)
            return answer
        request = _redirected(request, answer.status, location)
    raise Fail(f"{request.target.host}: more than {MOST_REDIRECTS} redirects")


def _exchange(request: outbound.Request, deadline: float) -> outbound.Answer:
    # Not chained: what lies below may quote the request, and tracebacks are kept.
    try:
        return outbound.exchange(request, deadline)
    except outbound.HostRefused as error:
        raise Fail(str(error)) from None
    except outbound.Unreachable as error:
        raise Retry(str(error)) from None


def _raise_for_status(request: outbound.Request, answer: outbound.Answer) -> None:
    said = f"{request.target.host} answered {answer.status}"
    if answer.status == 429 or answer.status >= 500:
        raise Retry(said, after=_retry_after(answer.headers.get("Retry-After")))
    if not 200 <= answer.status < 300:
        raise Fail(said)


def _retry_after(text: str | None) -> float | None:
    """Seconds that the receiver asks us to wait; None when it does not say so readably."""
    if text is None:
        return None
    if re.fullmatch(r"\d{1,10}", text.strip(), re.ASCII):
        return min(float(text), LONGEST_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(text)
        # A date without a zone is meant as UTC.
        left = until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)
    except (ValueError, OverflowError):
        return None
    return min(max(left.total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)


def _redirected(request: outbound.Request, status: int, location: str) -> outbound.Request:
    # Header text is bytes read as Latin-1; what is not ASCII goes back percent-encoded.
    escaped = quote(location.encode("latin-1", "replace"), safe="!#$%&'()*+,/:;=?@[]~")
    try:
        target = hosts.parse(urljoin(request.target.url, escaped))
    except ValueError:
        raise Fail(f"{request.target.host} redirects to no usable http(s) URL") from None
    followed = replace(request, target=target)
    if (status == 303 and request.method != "HEAD") or (status < 303 and request.method == "POST"):
        followed = replace(followed, method="GET", body=None, headers=_bodiless(followed.headers))
    if not _is_same_site(request.target, target):
        followed = replace(followed, headers=_without_credentials(followed.headers))
    return followed


def _bodiless(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() != "content-type"}


def _without_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if not _CREDENTIALS.search(name)}


def _is_same_site(old: hosts.Target, new: hosts.Target) -> bool:
    if old.host != new.host:
        return False
    upgraded = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    return upgraded or (old.scheme, old.port) == (new.scheme, new.port)


def _result(answer: outbound.Answer, took_s: float) -> dict[str, Any]:
    kept = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    return {
        "status": answer.status,
        "headers": kept,
        "body": _text(answer),
        "truncated": answer.truncated,
        "ms": round(took_s * 1000),
    }


def _text(answer: outbound.Answer) -> str:
    charset = answer.headers.get_content_charset("utf-8")
    if not _CHARSETS.fullmatch(charset):
        charset = "utf-8"
    try:
        return answer.body.decode(charset, "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
