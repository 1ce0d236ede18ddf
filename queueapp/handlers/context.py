"""What a handler may ask for while it runs, and the four ways in which it can end early.

A context belongs to one attempt. The handler's thread uses it; the worker's other threads call
``interrupt`` and ``take_progress``. It knows neither leases nor settles.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NoReturn, TypeAlias

from sqlalchemy.orm import Session

from queueapp.jobs.failure import printable

StopReason: TypeAlias = Literal["shutdown", "cancel", "timeout", "lost"]

NOTE_LIMIT = 200
LONGEST_DELAY_S = 3653 * 86400.0
# Later ones replace earlier ones: what a lost lease means for the work, no cancel request changes.
_STRENGTH: tuple[StopReason, ...] = ("shutdown", "cancel", "timeout", "lost")


class Fail(Exception):
    """Raise to end the job as failed, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """Raise to use up this attempt and try again, after ``after_s`` seconds instead of backoff."""

    def __init__(self, reason: str, after: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = None if after is None else seconds(after, "after")


class Defer(Exception):
    """Raise to come back after ``delay_s`` seconds without using this attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        self.delay_s = seconds(delay, "delay")
        super().__init__(f"asked to wait {self.delay_s:g} s")


class Stop(Exception):
    """The attempt was asked to stop; ``reason`` says by what."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason


def seconds(value: float | timedelta, name: str) -> float:
    """Seconds in ``value``. Raises ValueError below zero and beyond ten years."""
    found = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not 0 <= found <= LONGEST_DELAY_S:
        raise ValueError(f"{name} must be from 0 seconds to 10 years")
    return found


@dataclass(frozen=True)
class Progress:
    """How far a handler says it is."""

    percent: int
    note: str | None


class JobContext:
    """The running attempt, as its handler sees it."""

    def __init__(
        self,
        *,
        id: int,
        kind: str,
        attempt: int,
        max_attempts: int,
        open_session: Callable[[Callable[[], None]], Session],
    ) -> None:
        """``open_session`` is given what raises when the attempt was asked to stop."""
        self.id = id
        self.kind = kind
        self.attempt = attempt
        self.max_attempts = max_attempts
        self._open_session = open_session
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        # Made for a handler that waits: most never do.
        self._stopped: threading.Event | None = None
        self._stop_reason: StopReason | None = None

    def __repr__(self) -> str:
        return f"<JobContext {self.kind} {self.id}, attempt {self.attempt}/{self.max_attempts}>"

    # Progress

    def progress(self, percent: float, note: str | None = None) -> None:
        """Say how far the work is, 0 to 100; ``note`` is cut at 200 characters.

        Cheap: only the latest is kept, and the worker writes it at most once a second.
        """
        if isinstance(percent, bool) or not math.isfinite(percent) or not 0 <= percent <= 100:
            raise ValueError(f"progress goes from 0 to 100, not {percent!r}")
        shown = None if note is None else printable(note[:NOTE_LIMIT])[:NOTE_LIMIT]
        with self._lock:
            # Rounded down: 100 is said when it is reached.
            self._progress = Progress(int(percent), shown)

    def take_progress(self) -> Progress | None:
        """For the worker: the latest progress not taken yet."""
        with self._lock:
            taken, self._progress = self._progress, None
            return taken

    # Stopping

    @property
    def should_stop(self) -> bool:
        """Whether the handler should come to an end: clean up and return, or raise ``Stop``."""
        return self._stop_reason is not None

    @property
    def stop_reason(self) -> StopReason | None:
        """Why: cancel requested, lease lost, timeout reached, worker shutting down."""
        return self._stop_reason

    def raise_if_cancelled(self) -> None:
        """Raise ``Stop`` when the attempt was asked to stop, whatever the reason."""
        if self._stop_reason is not None:
            raise Stop(self._stop_reason)

    def wait(self, seconds: float) -> None:
        """Sleep, but raise ``Stop`` as soon as the attempt is asked to stop."""
        deadline = time.monotonic() + seconds
        with self._lock:
            stopped = self._stopped = self._stopped or threading.Event()
        # In slices: an Event cannot wait longer than a few centuries, and a handler may ask for it.
        while (left := deadline - time.monotonic()) > 0 and not self.should_stop:
            stopped.wait(min(left, 3600.0))
        self.raise_if_cancelled()

    def interrupt(self, reason: StopReason) -> None:
        """For the worker: ask the handler to stop. A stronger reason replaces a weaker one."""
        with self._lock:
            held = self._stop_reason
            if held is None or _STRENGTH.index(reason) > _STRENGTH.index(held):
                self._stop_reason = reason
            stopped = self._stopped
        if stopped is not None:
            stopped.set()

    # Waiting and writing

    def defer(self, delay: float | timedelta) -> NoReturn:
        """Come back after ``delay`` (seconds or timedelta) without using this attempt."""
        raise Defer(delay)

    @property
    def session(self) -> Session:
        """A session in which the job's success is committed together with what is written here.

        Opened at first use. The worker commits it when the handler returns, and rolls it back when
        the handler raises or the lease was lost.
        """
        if self._session is None:
            self._session = self._open_session(self.raise_if_cancelled)
        return self._session

    @property
    def has_session(self) -> bool:
        """For the worker: whether the handler has used ``session``."""
        return self._session is not None
