"""Which hosts ``http.request`` may talk to: URLs and rules in one form, then compared. Pure.

What is compared is what is connected to: nothing else reads the URL again. Messages never repeat a
URL, whose path and query may hold secrets.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

from queueapp.errors import SettingError

LONGEST_URL = 8192
DEFAULT_PORTS = {"http": 80, "https": 443}

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
# What a URL may hold as it is; the rest (non-ASCII letters) is percent-encoded.
_PLAIN = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True)
class Target:
    """Where a request goes. ``path`` begins with ``/`` and includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port as a person writes them."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == DEFAULT_PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address, for resolving a redirect; not for messages."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse(url: str) -> Target:
    """Read an http or https URL. Raises ValueError that says what is wrong, not with what."""
    if len(url) > LONGEST_URL:
        raise ValueError(f"must have at most {LONGEST_URL} characters")
    if re.search(r"[\x00-\x20\x7f\\]", url):
        raise ValueError("must not contain white space, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be a URL such as https://example.com/hook") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL with a host")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password; use the Authorization header")
    if port == 0:
        raise ValueError("must not name port 0")
    query = f"?{parts.query}" if parts.query else ""
    path = quote((parts.path or "/") + query, safe=_PLAIN)
    return Target(
        parts.scheme, host_name(parts.hostname), port or DEFAULT_PORTS[parts.scheme], path
    )


def host_name(text: str) -> str:
    """Bring a host to the one form that is compared. Raises ValueError for none."""
    # An address with a zone (fe80::1%eth0) means another host on every machine.
    if "%" not in text:
        with suppress(ValueError):
            return str(ipaddress.IPv6Address(text))
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        name = ""
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError("must have a host name or an address as its host")
    return name


@dataclass(frozen=True)
class Rule:
    """One entry of QUEUE_HTTP_ALLOWED_HOSTS. ``port`` None: every port."""

    host: str
    subdomains: bool
    port: int | None

    def allows(self, target: Target) -> bool:
        """Whether ``target`` is covered; ``*.example.com`` does not cover ``example.com``."""
        if self.port not in (None, target.port):
            return False
        if self.subdomains:
            return target.host.endswith(f".{self.host}")
        return target.host == self.host


@lru_cache(maxsize=8)
def rules(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    """Read the entries of the setting. Raises SettingError that names the bad one."""
    return tuple(_rule(text) for text in texts)


def is_allowed(target: Target, among: Sequence[Rule]) -> bool:
    """Whether any rule covers ``target``."""
    return any(rule.allows(target) for rule in among)


def _rule(text: str) -> Rule:
    try:
        host, port = _host_and_port(text)
        subdomains = host.startswith("*.")
        return Rule(host_name(host.removeprefix("*.")), subdomains, port)
    except ValueError:
        raise SettingError(
            f"QUEUE_HTTP_ALLOWED_HOSTS: {text!r} is no host; expected api.example.com,"
            " *.example.com, 10.0.0.7 or [::1], each with :port if only that one is meant",
            setting="QUEUE_HTTP_ALLOWED_HOSTS",
        ) from None


def _host_and_port(text: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if parts.netloc != text or "@" in text or parts.port == 0:
        raise ValueError(text)
    return parts.hostname or "", parts.port
