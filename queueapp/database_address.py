"""The database's address: what ``DATABASE_URL`` may say, and what it is turned into."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

_ADDRESS = "expected an address such as postgresql://user:password@host/db"
# What libpq would refuse, but not before it connects. Any other option it is left to judge itself.
_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": (
        "any", "read-write", "read-only", "primary", "standby", "prefer-standby",
    ),
}  # fmt: skip
_WHOLE = (
    "connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "tcp_user_timeout",
)  # fmt: skip


def database_url(text: str) -> str:
    """Check a database's address and name the driver that we use; '' stays ''."""
    if not text.strip():
        return ""
    if text.strip().startswith("sqlite"):
        return _sqlite_file(text.strip())
    try:
        url = make_url(_hosts_apart(text.strip()))
    except (ArgumentError, ValueError):
        # The text itself is not repeated: it may hold a password.
        raise ValueError(_ADDRESS) from None
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise ValueError(f"expected a postgresql:// address, not {url.drivername}://")
    if _names_several_hosts(url):
        # The standby among them takes no work: without being told so one may end up there.
        url = url.set(query={"target_session_attrs": "read-write", **url.query})
    url = url.set(drivername="postgresql+psycopg")
    _check_options(url)
    return url.render_as_string(hide_password=False)


def place_of(url: str) -> str:
    """Where a database is, for people: ``db:5432/queue``; neither who asks nor the password."""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return parts.database or ""
    told, ports = parts.query.get("host", ()), parts.query.get("port", ())
    hosts = [*([parts.host] if parts.host else []), *_each(told)] or ["localhost"]
    ports_of = _each(ports) or [str(parts.port or 5432)]
    if len(ports_of) < len(hosts):
        ports_of = ports_of[:1] * len(hosts)
    places = (
        f"{host}:{port or 5432}" if not host.startswith("/") else host
        for host, port in zip(hosts, ports_of, strict=False)
    )
    return f"{','.join(places)}/{parts.database or ''}"


def _each(told: str | tuple[str, ...]) -> list[str]:
    return [one for text in ([told] if isinstance(told, str) else told) for one in text.split(",")]


def _check_options(url: URL) -> None:
    """Refuse options that no connection would be made with."""
    try:
        options = url.get_dialect()().create_connect_args(url)[1]
        make_conninfo(**options)
    except psycopg.ProgrammingError as error:
        # It names the option alone.
        raise ValueError(str(error).strip()) from None
    except ArgumentError:
        raise ValueError(_ADDRESS) from None
    for name, value in options.items():
        if isinstance(value, tuple):
            raise ValueError(f"the option {name} is there twice")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{name}: expected one of {', '.join(_CHOICES[name])}")
        if name in _WHOLE and not re.fullmatch(r"\s*-?\d{1,9}\s*", value):
            raise ValueError(f"{name}: expected a whole number")


def _sqlite_file(text: str) -> str:
    """The address of a file, from wherever a process is started."""
    path = re.fullmatch(r"sqlite(?:\+queue)?:///([^?]+)", text)
    if path is None or path[1].startswith((":memory:", "file:")):
        raise ValueError(
            "expected a file that all processes can share: sqlite:////path/to/queue.db"
        )
    return f"sqlite+queue:///{Path(path[1]).absolute()}"


def _hosts_apart(text: str) -> str:
    """Turn ``//h1:p1,h2:p2/db``, which psql takes, into ``///db?host=h1,h2&port=p1,p2``."""
    parts = re.fullmatch(r"([^/]+://(?:[^/]*@)?)([^/@?]*,[^/@?]*)(/[^?]*)?(?:\?(.*))?", text)
    if not parts:
        return text
    begin, places, path, query = parts.groups()
    # A name, or an IPv6 address in brackets, and perhaps a port.
    pairs = [re.fullmatch(r"\[?(.*?)\]?(?::(\d*))?", place) for place in places.split(",")]
    named = {
        "host": ",".join(pair[1] for pair in pairs if pair),
        "port": ",".join(pair[2] or "" for pair in pairs if pair),
    }
    return f"{begin}{path or '/'}?{urlencode(named)}{f'&{query}' if query else ''}"


def _names_several_hosts(url: URL) -> bool:
    hosts = url.query.get("host", ())
    return "," in hosts if isinstance(hosts, str) else len(hosts) > 1
