"""Proxies in front that may say who somebody is, and from which address: listed ones only.

Anybody can send their headers, so a header counts by the peer that it comes from. This is the road
to single sign-on: the proxy signs people in, we take its word.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from werkzeug.wrappers import Request

from queueapp.auth.people import Person, is_name
from queueapp.auth.principal import Principal
from queueapp.auth.roles import Role
from queueapp.config import Settings
from queueapp.config.readers import Network
from queueapp.errors import NotAllowed, SettingError

# A chain of more is nobody's setup.
_LONGEST_CHAIN = 20
_WITH_PORT = re.compile(
    r"^(?:([0-9.]+):[0-9]{1,5}|\[([0-9a-fA-F:.]+)\](?::[0-9]{1,5})?)$", re.ASCII
)


@dataclass(frozen=True)
class Proxies:
    """``header``: in which they name people, empty for none; ``role``: of people without entry."""

    networks: tuple[Network, ...]
    header: str
    role: Role | None

    @classmethod
    def of(cls, settings: Settings) -> Proxies:
        """Those of the settings. Raises SettingError for a header that nobody may send."""
        if settings.proxy_user_header and not settings.trusted_proxies:
            raise SettingError(
                "QUEUE_PROXY_USER_HEADER: set QUEUE_TRUSTED_PROXIES as well, to the addresses of"
                " the proxies that may send it",
                setting="QUEUE_PROXY_USER_HEADER",
            )
        role = None if settings.proxy_role == "none" else Role(settings.proxy_role)
        return cls(settings.trusted_proxies, settings.proxy_user_header, role)

    def sent(self, request: Request) -> bool:
        """Whether the connection itself comes from one of them."""
        return self._are_at(request.environ.get("REMOTE_ADDR", ""))

    def who_is_named(self, request: Request, people: Mapping[str, Person]) -> Principal | None:
        """Whom the proxy names; None when it names nobody, or is none of ours.

        Raises NotAllowed for somebody without a role here.
        """
        if not self.header or not self.sent(request):
            return None
        name = request.headers.get(self.header, "")
        if not name:
            return None
        if not is_name(name):
            # Two headers are one value with a comma: one of them is the reader's own.
            raise NotAllowed(
                "the proxy sends a name that cannot be one: a name is letters, digits, _ . @ + -"
            )
        if name in people:
            return people[name].principal
        if self.role is None:
            raise NotAllowed(
                f"the proxy says that you are {name}, who has no role here: add the entry"
                f" {name}:viewer to QUEUE_USERS, or set QUEUE_PROXY_ROLE"
            )
        return Principal(name, "user", self.role)

    def address_of(self, request: Request) -> str:
        """Where the request comes from: the nearest address that is no proxy of ours."""
        peer = request.environ.get("REMOTE_ADDR", "")
        told = request.headers.get("X-Forwarded-For", "").rsplit(",", _LONGEST_CHAIN)
        for address in (peer, *(_WITH_PORT.sub(r"\1\2", one.strip()) for one in reversed(told))):
            if not self._are_at(address):
                return address if _is_address(address) else str(peer)
        return str(peer)

    def _are_at(self, address: str) -> bool:
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self.networks)


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False
