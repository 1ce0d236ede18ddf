"""A process ends, whatever was registered with ``atexit``."""

from __future__ import annotations

import subprocess
import sys

HANGING = """
import atexit, threading
from queueapp.commands import leaving

leaving.LONGEST_S = 0.2
atexit.register(threading.Event().wait)
leaving.leave(0)
"""


def test_exit_function_that_hangs_is_told_and_ends_with_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=60
    )

    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
    assert "in wait" in ended.stderr
