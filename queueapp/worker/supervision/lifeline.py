"""What joins a worker process to its supervisor: a pair of sockets, one line a word.

Signals alone would not do. A platform may send the same one to every process, and again; a process
that is just starting would die of it. And the end of the supervisor, even by SIGKILL, shows here
at once as the end of the line: no worker outlives it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import MutableMapping
from enum import StrEnum
from typing import Protocol, Self

from queueapp.worker.supervision.statuses import STOPPED

log = logging.getLogger("queueapp.worker")

# How a child learns which of its descriptors the line is.
VARIABLE = "QUEUE_LIFELINE"


class Word(StrEnum):
    """Everything that is said."""

    # by the supervisor
    STOP = "stop"
    HURRY = "hurry"
    # by the child: at work (with its name), stopping, stopping because it should be replaced
    READY = "ready"
    LEAVING = "leaving"
    REPLACE = "replace"


class Stop(Protocol):
    """What the child does when it is to stop."""

    def __call__(self, *, hurry: bool = False) -> None:
        """Stop."""


class Lifeline:
    """One end of the line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._rest = b""
        self._stop: Stop | None = None
        self._change = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Both ends: the supervisor's and the child's."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return cls(ours), cls(theirs)

    @classmethod
    def inherited(cls, environment: MutableMapping[str, str]) -> Self | None:
        """The child's end, None without a supervisor. What the child starts does not see it.

        A child that has not come as far as ``listen``, be it for want of a database, holds nothing:
        a word, or the end of the line, ends it.
        """
        number = environment.pop(VARIABLE, None)
        if number is None:
            return None
        end = socket.socket(fileno=int(number))
        end.set_inheritable(False)
        line = cls(end)
        line.listen(_end_process)
        return line

    @property
    def number(self) -> int:
        """The descriptor."""
        return self._end.fileno()

    def close(self) -> None:
        """Let go of this end."""
        self._end.close()

    def say(self, word: Word, about: str = "") -> None:
        """Say one word; nobody may be there to hear it."""
        with contextlib.suppress(OSError):
            self._end.sendall(f"{word} {about}\n".encode())

    def hear(self) -> list[tuple[str, str]] | None:
        """The words that have come, each with what it is about; None when the line has ended."""
        try:
            read = self._end.recv(4096)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not read:
            return None
        *lines, self._rest = (self._rest + read).split(b"\n")
        words = [line.decode().partition(" ") for line in lines]
        return [(word, about) for word, _, about in words]

    def listen(self, stop: Stop) -> None:
        """In the child: stop, from now on this way, when told so or when the supervisor is gone."""
        with self._change:
            before, self._stop = self._stop, stop
        if before is None:
            threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    def _listen(self) -> None:
        while (heard := self.hear()) is not None:
            for word, _ in heard:
                self._tell(hurry=word == Word.HURRY)
        log.warning("the supervisor is gone: finishing what runs")
        self._tell()

    def _tell(self, *, hurry: bool = False) -> None:
        # Under the lock: who takes over waits here while the process ends, and claims nothing.
        with self._change:
            if self._stop:
                self._stop(hurry=hurry)


def _end_process(*, hurry: bool = False) -> None:
    os._exit(STOPPED)
