"""The handler threads of one process. Each takes an attempt, runs it and sends in how it ended.

A thread that does not come back keeps its slot: ``attempts`` knows, ``lost_slots`` says so.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from flask import Flask

from queueapp.handlers import JobContext
from queueapp.jobs.claim import Claim
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions import Outcome
from queueapp.worker import story
from queueapp.worker.attempts import Attempt, Attempts
from queueapp.worker.executor import execute
from queueapp.worker.inbox import Inbox
from queueapp.worker.outcomes import handed_back
from queueapp.worker.sessions import Sessions
from queueapp.worker.terms import Terms


class Slots:
    """``take`` claims, ``start`` the threads. ``returned`` is told of each handler that came back,
    before its outcome is sent in; ``after`` it.
    """

    def __init__(
        self, app: Flask, terms: Terms, attempts: Attempts, inbox: Inbox, sessions: Sessions
    ) -> None:
        self._app = app
        self._terms = terms
        self._attempts = attempts
        self._inbox = inbox
        self._sessions = sessions
        self.todo: queue.SimpleQueue[Attempt] = queue.SimpleQueue()
        self.returned: Callable[[Attempt, Outcome], None] = story.returned
        self.after: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the threads. They end with the process."""
        for slot in range(self._terms.concurrency):
            threading.Thread(
                target=self._work, args=(slot,), name=f"handler-{slot}", daemon=True
            ).start()

    def take(self, claims: list[Claim], asked_at: float) -> None:
        """Take over claims in their order. ``asked_at``: the monotonic time before they were."""
        attempts = [self._attempt(claim, asked_at) for claim in claims]
        self._attempts.add(attempts)
        for attempt in attempts:
            story.claimed(attempt.claim)
            self.todo.put(attempt)

    def _attempt(self, claim: Claim, asked_at: float) -> Attempt:
        # Nothing here may refer to the context: a cycle for each job would keep the collector busy.
        context = JobContext(
            id=claim.id,
            kind=claim.kind,
            attempt=claim.attempt,
            max_attempts=claim.max_attempts,
            open_session=self._sessions.open,
        )
        lease_ends = asked_at + self._terms.lease_of(claim)
        return Attempt(claim, context, asked_at, lease_ends, start_known=claim.started)

    def _work(self, slot: int) -> None:
        while True:
            self.handle(self.todo.get(), slot)

    def handle(self, attempt: Attempt, slot: int) -> None:
        """Begin an attempt and run it, if it may still begin."""
        if self._attempts.begin(attempt):
            self.run(attempt, slot)
        elif attempt.came_too_late:
            reason = Reason.LEASE_LOST_BEFORE_START
            self._inbox.put(handed_back(attempt, self._terms, reason))

    def run(self, attempt: Attempt, slot: int) -> None:
        """Run an attempt that has begun and send in how it ended."""
        outcome, written = execute(attempt, self._app, self._terms, slot=slot)
        self._attempts.end(attempt)
        self.returned(attempt, outcome)
        if written:
            self._inbox.written(outcome)
        else:
            self._inbox.put(outcome)
        self.after()
