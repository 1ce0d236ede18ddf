"""Which IP addresses count as public, so that a host name cannot lead into the private network."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

# Special-purpose ranges (IANA registries) that some releases of ``ipaddress`` take for global.
_SPECIAL: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "100.64.0.0/10",  # carrier-grade NAT
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "64:ff9b:1::/48",  # local-use NAT64
        "2001::/23",  # Teredo and other assignments: tunnels to any IPv4 address
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether ``address`` is an ordinary address of the open internet.

    Not: private, loopback, link-local, multicast, reserved, unspecified, carrier-grade NAT,
    documentation, and forms that carry another address within (IPv4-mapped, 6to4, Teredo).
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, IPv6Address) and ip in _NAT64:
        # How a network without IPv4 reaches IPv4 hosts: the address within decides.
        return _is_public(IPv4Address(int(ip) & 0xFFFFFFFF))
    return _is_public(ip)


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    if isinstance(ip, IPv6Address) and (ip.ipv4_mapped is not None or ip.is_site_local):
        return False
    special = any(ip.version == network.version and ip in network for network in _SPECIAL)
    return ip.is_global and not (special or ip.is_multicast or ip.is_reserved)
