"""Renew every lease that this process holds, and tell its handlers what the rows say.

One statement for all of them, every third of a lease: two renewals may fail before one runs out.
It looks again each second while a handler has progress to write or somebody asked for a stop.
"""

from __future__ import annotations

import time
from uuid import UUID

from queueapp.jobs import transitions
from queueapp.jobs.transitions import Progress, Renewal
from queueapp.worker import story
from queueapp.worker.attempts import Attempt, Attempts
from queueapp.worker.inbox import Inbox
from queueapp.worker.line import Line
from queueapp.worker.outcomes import timed_out
from queueapp.worker.terms import Terms

PROGRESS_EVERY_S = 1.0
# A lease whose row somebody has locked is tried again this soon: it may be running out.
BUSY_EVERY_S = 0.2


class LeaseKeeper:
    """One tick at a time, from a thread and a connection of its own."""

    def __init__(self, terms: Terms, line: Line, attempts: Attempts, inbox: Inbox) -> None:
        self._terms = terms
        self._line = line
        self._attempts = attempts
        self._inbox = inbox
        self._renew_at = time.monotonic()
        self._busy: set[UUID] = set()

    def hurry(self) -> None:
        """Renew at the next tick: a row says something that a handler should know."""
        self._renew_at = 0.0

    def tick(self) -> float:
        """Write progress, renew if it is time; seconds until the next tick."""
        attempts = self._attempts.leases()
        self._write_progress(attempts)
        if time.monotonic() >= self._renew_at:
            self._renew(attempts)
            self._renew_at = time.monotonic() + self._terms.lease / 3
        else:
            self._renew([attempt for attempt in attempts if self._is_urgent(attempt)])
        soon = BUSY_EVERY_S if self._busy else PROGRESS_EVERY_S
        waits = [soon, self._renew_at - time.monotonic()]
        waits += [left for left in map(self._left_s, attempts) if left > 0]
        return max(min(waits), 0.01)

    def _is_urgent(self, attempt: Attempt) -> bool:
        """Whether its row was busy, or says by now that its time is up: the handler should know."""
        return attempt.claim.token in self._busy or self._left_s(attempt) <= 0

    def _write_progress(self, attempts: list[Attempt]) -> None:
        taken = [(attempt.claim, attempt.context.take_progress()) for attempt in attempts]
        reports = [
            Progress(claim.id, claim.token, progress.percent, progress.note)
            for claim, progress in taken
            if progress is not None
        ]
        if reports:
            with self._line.use() as connection:
                transitions.write_progress(connection, reports)
            for report in reports:
                story.progressed(report)

    def _renew(self, attempts: list[Attempt]) -> None:
        self._busy = set()
        if not attempts:
            return
        held = {attempt.claim.token: attempt for attempt in attempts}
        leases = [attempt.lease for attempt in attempts]
        asked_at = time.monotonic()
        with self._line.use() as connection:
            answers = transitions.renew(connection, leases, self._terms.holder)
        self._busy = {token for token, answer in answers.items() if answer == "busy"}
        for token, answer in answers.items():
            if answer in ("renewed", "cancel"):
                held[token].lease_ends = asked_at + self._terms.lease_of(held[token].claim)
            self._heed(held[token], token, answer)

    def _heed(self, attempt: Attempt, token: UUID, answer: Renewal) -> None:
        is_over = self._left_s(attempt) <= 0
        if answer in ("busy", "renewed") and is_over:
            # Its handler may be who holds the row, in a transaction that never ends; and a row that
            # has no start yet knows of no end.
            answer = "timeout"
        story.renewed(attempt, answer)
        if answer == "cancel":
            attempt.context.interrupt("cancel")
        elif answer == "lost" and self._attempts.give_up(token):
            # Its result is still sent in: the ledger shall say that it was refused. A sweeper may
            # have seen first that its time is up.
            attempt.context.interrupt("timeout" if is_over else "lost")
            if attempt.began is None:
                # No handler will take it any more, and so nobody else will say how it ended.
                self._inbox.abandon(token)
        elif answer == "timeout" and self._attempts.give_up(token):
            attempt.context.interrupt("timeout")
            self._inbox.put(timed_out(attempt, self._terms))

    def _left_s(self, attempt: Attempt) -> float:
        """How long it may still run."""
        return self._terms.time_out_of(attempt.claim) - attempt.ran_s
