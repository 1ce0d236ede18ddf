"""One worker process as its supervisor sees it: started, heard, told, and ended."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queueapp.worker.supervision.lifeline import VARIABLE, Lifeline, Word
from queueapp.worker.supervision.statuses import REPLACE, STOPPED

# What a process does to itself; any other signal somebody else has sent. SIGKILL is both an
# impatient person and a machine out of memory, so it proves nothing.
_OWN_FAULT = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS,
)  # fmt: skip


@dataclass(frozen=True)
class End:
    """How a child ended. ``announced``: it had said that it would."""

    status: int
    announced: bool
    lived_s: float

    @property
    def how(self) -> str:
        """In words."""
        if self.status >= 0:
            return f"exit status {self.status}"
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"

    @property
    def orderly(self) -> bool:
        """Whether it has given everything back: a job may end its process with any status too."""
        return self.announced and self.status in (STOPPED, REPLACE)

    @property
    def crashed(self) -> bool:
        """Whether it ended in the middle of its work, and nobody else did that."""
        return not self.announced and (self.status >= 0 or -self.status in _OWN_FAULT)


class Child:
    """A process and the line to it. ``name`` is the worker's, known once it is at work.

    It inherits the descriptors ``keeps``.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], keeps: Sequence[int] = ()
    ) -> None:
        self._line, theirs = Lifeline.pair()
        self._began = time.monotonic()
        try:
            # A program of its own, not a fork: no connection, thread or lock is inherited.
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment, VARIABLE: str(theirs.number)},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.number, *keeps],
            )
        except OSError:
            self._line.close()
            raise
        finally:
            theirs.close()
        self.name: str | None = None
        self.announced = False
        self.to_be_replaced = False
        self._leaves_since = math.inf

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def leaves_for_s(self) -> float:
        """The time since it said that it would end, negative before that and once it is killed."""
        return time.monotonic() - self._leaves_since

    def hear(self) -> None:
        """Take in what it has said."""
        for word, about in self._line.hear() or ():
            if word == Word.READY:
                self.name = about
            else:
                self.announced = True
                self._leaves_since = time.monotonic()
                self.to_be_replaced = word == Word.REPLACE

    def end(self) -> End | None:
        """How it ended, None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        self.hear()
        self._line.close()
        return End(status, self.announced, time.monotonic() - self._began)

    def tell(self, word: Word) -> None:
        """Tell it something."""
        self._line.say(word)

    def interrupt(self) -> None:
        """End one that is still starting, or waiting for the database: it holds nothing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self._leaves_since = math.inf
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
