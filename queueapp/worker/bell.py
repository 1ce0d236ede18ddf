"""What wakes the main thread of a process: its own threads, and signals.

A signal handler runs in the main thread, between any two of its steps. An ``Event`` has a lock that
the main thread may be holding just then, and setting it would wait for ever for itself. Putting
into a ``SimpleQueue`` is safe there, so a handler does that and nothing else.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bell:
    """Rung by anybody, waited for by the main thread."""

    def __init__(self) -> None:
        self._rung: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake the main thread, with nothing to say."""
        self._rung.put(None)

    def wait(self, seconds: float) -> list[int]:
        """Wait until it rings, ``seconds`` at most; the signals that came since the last wait."""
        heard: list[int] = []
        try:
            rung = self._rung.get(timeout=max(seconds, 0.0))
            while True:
                if rung is not None:
                    heard.append(rung)
                rung = self._rung.get_nowait()
        except queue.Empty:
            return heard

    @contextmanager
    def hearing(self, *numbers: signal.Signals, for_good: bool = False) -> Iterator[None]:
        """Let these signals ring. Elsewhere than in the main thread signals cannot be heard.

        ``for_good``: the process ends after this; one that is repeated must not change how. The end
        of a child cannot: who ignores that one hears no exit status of any child.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._heard) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                deaf = for_good and number != signal.SIGCHLD
                signal.signal(number, signal.SIG_IGN if deaf else handler)

    def _heard(self, number: int, _frame: Any) -> None:
        self._rung.put(number)
