"""Breaks the loops of the worker that imports this, as ``BROKEN_LOOPS`` says.

``pump=MemoryError*1,housekeeping=SystemExit`` has the pump fail once and housekeeping always;
``pump=hang`` has it never return, which the worker then notices after some seconds;
``instants=unread`` leaves to the driver those that it cannot read; ``shutdown=spin`` has the main
thread never end the process, and be given a second more for it.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable
from typing import Any

from queueapp import connections
from queueapp.worker import loop, runtime
from queueapp.worker.housekeeping import Housekeeping
from queueapp.worker.lease_keeper import LeaseKeeper
from queueapp.worker.pump import Pump
from queueapp.worker.shutdown import Shutdown
from queueapp.worker.upkeep import Upkeep

VARIABLE = "BROKEN_LOOPS"
_TICKS = {
    "pump": (Pump, "turn"),
    "lease keeper": (LeaseKeeper, "tick"),
    "housekeeping": (Housekeeping, "tick"),
    "retention": (Upkeep, "purge"),
}


def _break(name: str, how: str) -> None:
    owner, method = _TICKS[name]
    well = getattr(owner, method)
    error, _, times = how.partition("*")
    left = [int(times or 10**9)]

    def broken(self: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            _fail(error)
        return well(self)

    setattr(owner, method, broken)


def _fail(error: str) -> None:
    if error == "hang":
        # Another loop may wait for a second until something happens.
        loop.HANGS_AFTER_S = 4.0
        threading.Event().wait()
    kind: Callable[[str], BaseException] = getattr(builtins, error)
    raise kind("broken by a test")


def _spin(_: Shutdown) -> None:
    while True:
        pass


def _spin_at_the_end() -> None:
    for name, seconds in (("MARGIN_S", 0.0), ("STUCK_S", 1.0)):
        setattr(runtime, name, seconds)
    Shutdown.run = _spin  # type: ignore[assignment, method-assign]


for each in os.environ.get(VARIABLE, "").split(","):
    if each == "shutdown=spin":
        _spin_at_the_end()
    elif each == "instants=unread":
        connections.read_any_instant = lambda _: None  # type: ignore[assignment, attr-defined]
    elif each:
        _break(*each.split("=", 1))
