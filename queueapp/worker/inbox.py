"""What reaches the pump: outcomes from handler threads, and wake-ups that carry nothing.

An outcome that is written already, by its handler's own transaction or by the settler, is marked
so: there is nothing left to write, only a claim to close.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from queueapp.jobs.transitions import Outcome


@dataclass
class Mail:
    """What has come since the pump last looked."""

    outcomes: list[Outcome] = field(default_factory=list)
    written: list[Outcome] = field(default_factory=list)
    abandoned: list[UUID] = field(default_factory=list)


_Message: TypeAlias = tuple[tuple[Outcome, ...], bool] | UUID | None


class Inbox:
    """A queue whose reader blocks for the first message and then takes all that wait."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()

    def put(self, *outcomes: Outcome) -> None:
        """Send in how attempts ended."""
        if outcomes:
            self._messages.put((outcomes, False))

    def wake(self) -> None:
        """Make the pump look, with nothing to say."""
        # One that waits already does it. Nobody reads where there are no threads, or during an
        # outage, and wake-ups go on coming.
        if self._messages.empty():
            self._messages.put(None)

    def written(self, *outcomes: Outcome) -> None:
        """Say that these outcomes are in the database already."""
        if outcomes:
            self._messages.put((outcomes, True))

    def abandon(self, token: UUID) -> None:
        """Say that no word will come about this claim: its thread does not come back."""
        self._messages.put(token)

    def get(self, timeout: float) -> Mail:
        """Wait up to ``timeout`` seconds for a message, then take everything there is."""
        mail = Mail()
        try:
            message = self._messages.get(timeout=timeout) if timeout > 0 else None
            while True:
                if isinstance(message, UUID):
                    mail.abandoned.append(message)
                elif message is not None:
                    outcomes, written = message
                    (mail.written if written else mail.outcomes).extend(outcomes)
                message = self._messages.get_nowait()
        except queue.Empty:
            return mail
