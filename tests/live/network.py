"""A network namespace of the test's own, on a cable that swallows packets when told to.

Nothing is refused or reported then: packets are sent to a hardware address that nobody has, so they
are never acknowledged, as behind a broken switch or a firewall that drops. One direction is one
neighbour entry, and no packet filter is needed.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from tests.live import needs

Found = TypeVar("Found")

_NETWORK = 0x40000000  # CLONE_NEWNET
_NOBODY = "02:00:00:00:00:ff"
_OUR_SIDE, _THEIR_SIDE = "02:00:00:00:00:01", "02:00:00:00:00:02"
_numbers = count()


class Network:
    """``address`` is ours as seen from inside; ``inside`` runs something there."""

    def __init__(self) -> None:
        needs.namespaces()
        number = next(_numbers)
        self._name = f"queue-{os.getpid()}-{number}"
        self._here, self._there = f"q{os.getpid()}{chr(97 + number)}0", "q0"
        # A block of four addresses for each test process.
        block = (os.getpid() * 8 + number) % 16384 * 4
        self.address = f"10.213.{block // 256}.{block % 256 + 1}"
        self._inner = f"10.213.{block // 256}.{block % 256 + 2}"
        self._make()
        self._entered = ThreadPoolExecutor(16, initializer=self._enter)

    def _make(self) -> None:
        _ip("netns", "add", self._name)
        _ip("link", "add", self._here, "address", _OUR_SIDE, "type", "veth",
            "peer", "name", self._there, "address", _THEIR_SIDE, "netns", self._name)  # fmt: skip
        _ip("address", "add", f"{self.address}/30", "dev", self._here)
        _ip("link", "set", self._here, "up")
        self._ip_inside("address", "add", f"{self._inner}/30", "dev", self._there)
        self._ip_inside("link", "set", self._there, "up")
        self._ip_inside("link", "set", "lo", "up")
        self.heal()

    def _ip_inside(self, *words: str) -> None:
        _ip("-netns", self._name, *words)

    def _enter(self) -> None:
        """Move the present thread into the namespace: its processes and sockets are born there."""
        descriptor = os.open(f"/run/netns/{self._name}", os.O_RDONLY)
        library = ctypes.CDLL(None, use_errno=True)
        failed = library.setns(descriptor, _NETWORK)
        os.close(descriptor)
        if failed:
            raise OSError(ctypes.get_errno(), f"cannot enter {self._name}")

    def inside(self, do: Callable[[], Found]) -> Found:
        """Call ``do`` in a thread that lives in the namespace."""
        return self._entered.submit(do).result()

    def begin_inside(self, do: Callable[[], Found]) -> Callable[[], Found]:
        """The same, without waiting: call what this returns for the result."""
        return self._entered.submit(do).result

    def swallow(self, *, requests: bool = True, answers: bool = True) -> None:
        """Lose every packet from there to here, and from here to there."""
        self._know(_NOBODY if requests else _OUR_SIDE, _NOBODY if answers else _THEIR_SIDE)

    def heal(self) -> None:
        """Lose none."""
        self._know(_OUR_SIDE, _THEIR_SIDE)

    def _know(self, ours: str, theirs: str) -> None:
        known = ("nud", "permanent", "dev")
        self._ip_inside("neigh", "replace", self.address, "lladdr", ours, *known, self._there)
        _ip("neigh", "replace", self._inner, "lladdr", theirs, *known, self._here)

    def close(self) -> None:
        """Remove it; its processes must have ended."""
        self._entered.shutdown()
        _ip("netns", "delete", self._name)
        # The cable goes with its far end, when the last socket there is gone.
        _ip("link", "delete", self._here, check=False)


def _ip(*words: str, check: bool = True) -> None:
    command = [str(needs.program("ip", "iproute2")), *words]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0 or not check, f"ip {' '.join(words)}: {ran.stderr}"
