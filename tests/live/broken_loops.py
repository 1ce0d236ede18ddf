"""Breaks the loops of the worker that imports this, as ``BROKEN_LOOPS`` says.

``pump=MemoryError*1,housekeeping=SystemExit`` has the pump fail once and housekeeping always;
``pump=hang`` has it never return, which the worker then notices after some seconds.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable
from typing import Any

from queueapp.worker import loop
from queueapp.worker.housekeeping import Housekeeping
from queueapp.worker.lease_keeper import LeaseKeeper
from queueapp.worker.pump import Pump
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


for each in os.environ.get(VARIABLE, "").split(","):
    if each:
        _break(*each.split("=", 1))
