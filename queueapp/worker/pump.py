"""The only hot loop: settle what has finished and claim for the freed slots, in one round trip.

It blocks for the first message, takes all that wait, and writes them together: batches grow by
themselves with the load, and a lone job never waits for a timer. Outcomes are kept until they are
written or known to be lost; a row that somebody has locked never stops the others.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim
from queueapp.jobs.database import wake_on_commit
from queueapp.jobs.status import Reason, Status
from queueapp.jobs.transitions import Outcome
from queueapp.worker import story
from queueapp.worker.attempts import Attempts
from queueapp.worker.inbox import Inbox, Mail
from queueapp.worker.line import Line
from queueapp.worker.looks import Looks
from queueapp.worker.outcomes import handed_back
from queueapp.worker.prefetch import PATIENCE_S, Prefetch
from queueapp.worker.settler import Settler
from queueapp.worker.slots import Slots
from queueapp.worker.terms import Terms
from queueapp.worker.unwritten import UNSTORABLE, Unwritten

log = logging.getLogger("queueapp.worker")

# A row that somebody has locked is tried again this soon when nothing else happens.
BUSY_RETRY_S = 0.2
# Housekeeping wakes the pump for what is due; this is the net below it.
FALLBACK_S = 30.0
# Two looks at one due time differ by this much at most: no reason to look again.
SOON_S = 0.05
# A prefetched claim at work for this long has its start written before its end.
START_REPORT_S = 0.1


class Pump:
    """One turn after another, from one thread; ``slots`` run what it claims.

    ``closed``: claiming was turned off and no claim is under way any more.
    """

    def __init__(
        self,
        terms: Terms,
        line: Line,
        attempts: Attempts,
        inbox: Inbox,
        slots: Slots,
    ) -> None:
        self.terms = terms
        self.holder = terms.holder
        self.paused = False
        # Housekeeping has yet to say what is paused and held: until then nothing is claimed.
        self.blind = False
        self.claiming = True
        self.drained = False
        self.closed = terms.concurrency == 0
        self._line = line
        self._attempts = attempts
        self._inbox = inbox
        self._slots = slots
        self._unwritten = Unwritten()
        self._open: dict[UUID, Claim] = {}
        self.prefetch = Prefetch(terms)
        self._looks = Looks()
        self._due_at = self._looks_at = self._asked_at = 0.0
        self._busy = False
        self._suspect = self._failed = False
        # Whether the last claim was made and answered.
        self._answered = False
        # Jobs were made that may be due later; ``look_soon`` has housekeeping see when the next is.
        self._heard = self._awaited = False
        self.look_soon: Callable[[], None] = lambda: None
        self.settler: Settler | None = None
        # Writes what has settled to the log; a worker has a thread for it.
        self.tell: Callable[[list[story.Settled]], None] = story.settled

    @property
    def settled(self) -> bool:
        """Whether every claim has come to an end that the database knows."""
        return not self._open

    @property
    def unsettled(self) -> set[UUID]:
        """The claims of whose end the database does not know."""
        return set(self._open.copy())  # other threads ask

    def hear(self) -> None:
        """A commit has made jobs: look, and if too few are due, ask when the next one is."""
        self._heard = True
        self._inbox.wake()

    def may_look(self) -> None:
        """Housekeeping has seen what is paused and held: from now on jobs may be claimed."""
        if self.blind:
            self.blind = False
            self._inbox.wake()

    def expect_due(self, seconds: float | None) -> None:
        """Housekeeping says when the next job is due; the pump looks then."""
        self._due_at = time.monotonic() + (FALLBACK_S if seconds is None else max(seconds, 0.0))
        self._awaited = seconds is not None and seconds > 0
        # Also for a job due later: the pump may be in a wait that ends after that.
        if (seconds is not None and seconds <= 0) or self._due_at < self._looks_at - SOON_S:
            self._inbox.wake()

    def turn(self) -> float:
        """Wait for something to do and do it. Returns 0: the waiting is done here."""
        # Whoever brings a due time while the wait is reckoned wakes us from it.
        self._looks_at = math.inf
        patience = self._patience()
        self._looks_at = time.monotonic() + patience
        self._take(self._inbox.get(patience))
        if self._awaited and time.monotonic() >= self._due_at:
            # The job that was waited for is due; another one may be soon.
            self._awaited, self._heard = False, True
        self._unstart()
        with self._line.use() as connection:
            if self._suspect:
                self._adopt(connection)
            self._report_starts(connection)
            # Read before the exchange: one that began while claiming was on may bring claims.
            claiming = self.claiming
            self._exchange(connection)
        self.closed = not claiming and not self._suspect
        return 0.0

    def _patience(self) -> float:
        waits = [FALLBACK_S]
        if self._awaited:
            waits.append(max(self._due_at - time.monotonic(), 0.0))
        if self._unwritten:
            waits.append(BUSY_RETRY_S if self._busy else 0.0)
        if self._suspect:
            waits.append(0.0)
        if self._attempts.await_the_pump():
            waits.append(START_REPORT_S)
        if (until_whole := self._looks.patience) is not None and any(self._room()):
            waits.append(until_whole)
        return min(waits)

    def _take(self, mail: Mail) -> None:
        for outcome in mail.written:
            self._unwritten.drop(outcome.token)
        self.tell(
            [
                (claim, outcome, "succeeded")
                for outcome in mail.written
                if (claim := self._open.pop(outcome.token, None)) is not None
            ]
        )
        for outcome in mail.outcomes:
            if outcome.token in self._open:
                self._unwritten.add(outcome)
        for token in mail.abandoned:
            if token not in self._unwritten:
                self._open.pop(token, None)

    def _close(self, token: UUID) -> tuple[Claim, Outcome]:
        return self._open.pop(token), self._unwritten.pop(token)

    def _unstart(self) -> None:
        """Give back what has not begun and has waited too long, is held, or is not to begin."""
        patience = PATIENCE_S if self.claiming and not self.paused else None
        reason = Reason.PREFETCH_UNUSED if self.claiming else Reason.SHUTDOWN
        withdrawn = self._attempts.withdraw(prefetched_for=patience, kinds=self.holder.skip)
        for attempt in withdrawn:
            self._unwritten.put(handed_back(attempt, self.terms, reason))
        if withdrawn:
            # The runs that allowed it say nothing of what runs now.
            self.prefetch.forget()

    def _report_starts(self, connection: Connection) -> None:
        starts = self._attempts.unreported_starts(START_REPORT_S)
        if starts:
            self._attempts.starts_known(transitions.begin(connection, starts))

    def _adopt(self, connection: Connection) -> None:
        """After a lost answer: claims that were made for us and that we never heard of."""
        found = transitions.adopt(connection, list(self._open), self.terms.holder)
        if found:
            log.warning("adopted %d claims whose answer was lost", len(found))
        self._suspect = False
        self._start(found)

    def _exchange(self, connection: Connection) -> None:
        if self.settler:
            self.settler.relieve(self._unwritten)
        outcomes = self._unwritten.batch()
        slots, prefetch = self._room()
        if self._failed and outcomes:
            # It may have failed for its claim: what has ended goes alone, the claim comes after.
            slots = prefetch = 0
            self._inbox.wake()
        if not outcomes and slots + prefetch == 0:
            self._note_drained(nothing_due=False)
            return
        exchange = self._ask(connection, outcomes, slots, prefetch)
        # At once, before anything else can fail: nobody else can run them. The log comes last.
        self._start(exchange.claims)
        ended = [(*self._close(token), status) for token, status in exchange.accepted.items()]
        if len(exchange.accepted) < len(outcomes):
            ended += self._explain(connection, outcomes)
        else:
            self._busy = False
        story.polled(len(outcomes), slots + prefetch, len(exchange.claims))
        self.tell(ended)
        returned = self._note_returned(connection, ended)
        if self._heard and len(exchange.claims) < slots + prefetch:
            self._heard = False
            self.look_soon()
        looked = slots > 0 and self._looks.patience is None and self._answered
        self._note_drained(nothing_due=looked and not exchange.claims and not returned)

    def _note_returned(self, connection: Connection, ended: list[story.Settled]) -> bool:
        """Whether jobs went back to the queue, where the claim beside could not see them yet."""
        waits = [end.delay_s for _, end, status in ended if status == Status.QUEUED]
        if None in waits:
            # Given back for somebody else to run, who may be asleep.
            wake_on_commit(connection)
        if waits:
            # A retry is due later.
            self._heard = True
            if self.terms.drain:
                self._inbox.wake()
        return bool(waits)

    def _room(self) -> tuple[int, int]:
        if not self.claiming or self.paused or self.blind:
            return 0, 0
        free = max(self.terms.concurrency - len(self._attempts), 0)
        ahead = len(self._attempts) + free - self.terms.concurrency
        return free, max(self.prefetch.allowance() - ahead, 0)

    def _ask(
        self, connection: Connection, outcomes: list[Outcome], slots: int, prefetch: int
    ) -> transitions.Exchange:
        wanted = slots + prefetch
        self._answered = False
        self._asked_at = time.monotonic()
        after = self._looks.next(self.holder) if wanted else None
        try:
            exchange = transitions.exchange(
                connection, outcomes, self.holder, slots=slots, prefetch=prefetch, after=after
            )
            if wanted:
                self._looks.brought(exchange.claims, wanted)
            self._answered, self._failed = True, False
            return exchange
        except UNSTORABLE:
            if not outcomes:
                raise
            # One of them cannot be stored; the others must not suffer for it.
            singly = self._unwritten.settle_singly(connection, outcomes, self.terms.actor)
            return transitions.Exchange(singly, [])
        except DBAPIError:
            # The statement may have committed and only its answer got lost.
            self._suspect = self._failed = True
            raise

    def _explain(self, connection: Connection, sent: list[Outcome]) -> list[story.Settled]:
        """Close what was refused for good; those that had been written before."""
        left = [outcome for outcome in sent if outcome.token in self._unwritten]
        answers = transitions.explain(connection, left, actor=self.terms.actor)
        self._busy = "busy" in answers.values()
        ended = []
        for token, answer in answers.items():
            if answer == "busy":
                self._unwritten.postpone(token)
            elif answer == "lost":
                story.refused(*self._close(token))
            else:
                ended.append((*self._close(token), answer))
        return ended

    def _start(self, claims: list[Claim]) -> None:
        self._open.update((claim.token, claim) for claim in claims)
        self._slots.take(claims, self._asked_at)

    def _note_drained(self, *, nothing_due: bool) -> None:
        self.drained = (nothing_due or self.paused) and self.settled
