"""How often a password may be tried: by address, by name, and by all together, in bounded memory.

Per process. Whoever succeeds has not tried: a shared address does not lock a team out. And a name
has more tries than an address, at any time: nobody locks its owner out from a single one.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_REMEMBERED = 10_000
# One password is looked at, and one waits: each keeps one of the server's threads.
MOST_AT_ONCE = 2
_LONGEST_KEY = 100


class Throttle:
    """``burst`` tries at once, then one every ``every_s`` seconds, for each key.

    The keys that were used longest ago are forgotten beyond ``most``.
    """

    def __init__(
        self,
        burst: int,
        every_s: float,
        *,
        most: int = MOST_REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._most, self._clock = every_s, most, clock
        self._ahead = (burst - 1) * every_s
        # When each key will have all its tries again.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str) -> float:
        """Use a try of ``key``, or say in how many seconds there will be one."""
        key = key[:_LONGEST_KEY]
        with self._lock:
            now = self._clock()
            full_at = max(self._full_at.pop(key, now), now)
            wait = full_at - now - self._ahead
            self._full_at[key] = full_at if wait > 0 else full_at + self._every
            while len(self._full_at) > self._most:
                self._full_at.popitem(last=False)
            return max(wait, 0.0)

    def give_back(self, key: str) -> None:
        """Undo a try."""
        key = key[:_LONGEST_KEY]
        with self._lock:
            if key in self._full_at:
                self._full_at[key] -= self._every


class LoginThrottle:
    """The three limits of trying passwords, and how many are looked at at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._by_address = Throttle(10, 60.0, clock=clock)
        self._by_name = Throttle(30, 15.0, clock=clock)
        # Each try is a tenth of a second of the processor: many addresses must not take it all.
        self._by_all = Throttle(15, 1.0, clock=clock)
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    @contextmanager
    def a_place(self) -> Iterator[bool]:
        """Whether there is a place to have a password looked at, which is then kept."""
        is_free = self._places.acquire(blocking=False)
        try:
            yield is_free
        finally:
            if is_free:
                self._places.release()

    def take(self, address: str, name: str) -> int:
        """Use a try, or say in how many whole seconds there will be one."""
        taken: list[tuple[Throttle, str]] = []
        for throttle, key in self._keys(address, name):
            if wait := throttle.take(key):
                for other, its_key in taken:
                    other.give_back(its_key)
                return math.ceil(wait)
            taken.append((throttle, key))
        return 0

    def give_back(self, address: str, name: str) -> None:
        """It was the right password."""
        for throttle, key in self._keys(address, name):
            throttle.give_back(key)

    def _keys(self, address: str, name: str) -> list[tuple[Throttle, str]]:
        # In this order: what is refused for all together makes no address and no name forgotten.
        return [
            (self._by_all, ""),
            (self._by_address, network_of(address)),
            (self._by_name, name),
        ]


def network_of(address: str) -> str:
    """The address, or of IPv6 the /48: the most that one customer is given, 65,536 networks."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 4:
        return str(ip)
    mapped = ip.ipv4_mapped
    return str(mapped or ipaddress.ip_network((int(ip), 48), strict=False).network_address)
