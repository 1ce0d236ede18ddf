"""What housekeeping does now and then: days of the ledger, statistics, retention, its own sign.

Each duty is a plain function of a database and says how soon it wants to be called again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import DBAPIError, OperationalError

from queueapp.errors import OperationBusy, OperationNotFound
from queueapp.jobs import control, minute_stats, operations, partitions, queries, transitions
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import Keep
from queueapp.version import VERSION
from queueapp.worker.line import Line
from queueapp.worker.lost_slots import LostSlots
from queueapp.worker.terms import Terms

log = logging.getLogger("queueapp.worker")

SEEN_EVERY_S = 60.0
# A duty that the database refused waits so long: the others go on meanwhile.
REFUSED_AGAIN_S = 60.0
OLD_EVERY_S = 600.0
DAYS_EVERY_S = 600.0
DAYS_AGAIN_S = 5.0
PURGE_EVERY_S = 60.0
# Each look up hears of those that begin, and open ones are looked at each second. This is for what
# was written in a transaction that was open for long.
CANARIES_EVERY_S = 60.0
# Housekeeping hears of pauses and holds between two turns, and they are promised within 2 s.
TURN_S = 0.2
# How soon again when there was more than one turn's work.
MORE_S = 1.0
# Each minute those are looked at that have come to their age of late, all of them now and then.
WHOLE_EVERY_S = 3600.0
WINDOW = timedelta(hours=2)
DAYS_A_TURN = 3


@dataclass
class Duty:
    """One thing to do every so often."""

    name: str
    do: Callable[[], float]
    at: float = 0.0
    refused: bool = False

    def if_due(self) -> None:
        """Do it if its time has come; what the database refuses it alone stops no other duty."""
        if time.monotonic() < self.at:
            return
        try:
            wait = self.do()
            self.refused = False
        except DBAPIError as error:
            if not _is_refusal(error):
                raise
            wait = REFUSED_AGAIN_S
            # Once: it may last for days.
            log.log(
                logging.DEBUG if self.refused else logging.WARNING,
                "housekeeping: %s was refused, again in %gs: %s",
                self.name, wait, str(error.orig).strip().split("\n")[0],
            )  # fmt: skip
            self.refused = True
        self.at = time.monotonic() + wait * random.uniform(0.85, 1.15)  # noqa: S311


def _is_refusal(error: DBAPIError) -> bool:
    """Whether the database answered, and said no: not to a connection, but to a statement."""
    return error.statement is not None and not error.connection_invalidated


class Upkeep:
    """The duties of one worker."""

    def __init__(
        self,
        terms: Terms,
        line: Line,
        keep: Keep,
        kinds: Callable[[], tuple[str, ...]],
        lost: LostSlots,
    ) -> None:
        self._terms = terms
        self._line = line
        self._keep = keep
        self._kinds = kinds
        self._lost = lost
        self._seen = Duty("seen", self.sign)
        self._canaries = Duty("canaries", self.try_canaries)
        self._drains = False
        self._whole_at = 0.0
        self._odd: set[str] = set()
        self.duties = [
            self._seen,
            Duty("days", self.make_days),
            Duty("stats", self.write_stats),
            Duty("purge", self.purge),
            Duty("drop", self.drop_days),
            self._canaries,
            Duty("old transactions", self.look_for_old_transactions),
        ]

    def tick(self) -> None:
        """Do what is due."""
        if self._lost.look():
            self._seen.at = 0.0
        for duty in self.duties:
            duty.if_due()

    def drains(self) -> None:
        """Have the next sign, which comes at once, say that this worker takes no job any more."""
        self._drains, self._seen.at = True, 0.0

    def canary_begun(self) -> None:
        """Look at the canary retries at the next turn, which comes at once: there is a new one."""
        self._canaries.at = 0.0

    def sign(self) -> float:
        """Say that this worker is there."""
        self._record(Event.WORKER_SEEN)
        return SEEN_EVERY_S

    def sign_off(self, reason: str) -> None:
        """Say that this worker has ended, and why."""
        self._record(Event.WORKER_STOPPED, reason)

    def _record(self, event: Event, reason: str | None = None) -> None:
        terms = self._terms
        data = {
            "host": terms.name.split(":")[0],
            # Of one that drains none can begin a job.
            "slots": 0 if self._drains else terms.concurrency,
            "lost": self._lost.count,
            "kinds": list(self._kinds()),
            "version": VERSION,
            "release": terms.release,
            "lease_s": terms.lease,
            # Beside the line's own instant, which is the database's.
            "clock": datetime.now(UTC).isoformat(),
            # Whoever looks for them in the list of connections will not find them there.
            **({"nameless": True} if terms.nameless else {}),
            **({"drains": True} if self._drains else {}),
        }
        with self._line.use() as connection:
            control.record(
                connection,
                event,
                scope=terms.actor,
                actor=terms.actor,
                reason=reason,
                data=data,
            )

    def make_days(self) -> float:
        """Make the partitions of the days ahead; soon again when somebody is in the way."""
        with self._line.use() as connection:
            days = partitions.missing(connection)
        for day in days:
            try:
                with self._line.transaction() as connection:
                    partitions.make(connection, day)
            except OperationalError as error:
                if not partitions.is_locked(error):
                    raise
                log.debug("the ledger's day %s waits for a lock", day)
                return DAYS_AGAIN_S
        return DAYS_EVERY_S

    def look_for_old_transactions(self) -> float:
        """Warn of a transaction that keeps the tables from being cleaned."""
        with self._line.use() as connection:
            warning = queries.old_transaction(connection)
        if warning:
            log.warning("%s", warning)
        return OLD_EVERY_S

    def write_stats(self) -> float:
        """Write the minute's statistics, if no other worker has."""
        with self._line.transaction() as connection:
            return minute_stats.write(connection, actor=f"housekeeping:{self._terms.name}")

    def purge(self) -> float:
        """Remove rows that retention no longer keeps, for a bounded time."""
        whole, until = time.monotonic() >= self._whole_at, time.monotonic() + TURN_S
        ages = self._keep.ages(None if whole else WINDOW)
        more = [self._purge(status, age, until) for status, age in ages.items()]
        if any(more):
            return MORE_S
        if whole:
            self._whole_at = time.monotonic() + WHOLE_EVERY_S
        return PURGE_EVERY_S

    def _purge(self, status: Status, age: transitions.Age, until: float) -> bool:
        """Remove a batch, and more of them ``until`` then; whether there may be more."""
        actor = f"housekeeping:{self._terms.name}"
        while True:
            with self._line.use() as connection:
                gone = transitions.purge_old(connection, status, age, actor=actor)
            if not gone or time.monotonic() >= until:
                return bool(gone)

    def try_canaries(self) -> float:
        """Decide on canary retries, and apply those that have passed, for a bounded time."""
        with self._line.use() as connection:
            found = operations.open_ones(connection)
        until = time.monotonic() + TURN_S
        # In any order: one with many jobs must not keep the others waiting.
        for operation_id in random.sample(found, len(found)):
            self._advance(operation_id, until)
            if time.monotonic() >= until:
                break
        return MORE_S if found else CANARIES_EVERY_S

    def _advance(self, operation_id: str, until: float) -> None:
        """Go on with one ``until`` then, unless somebody else does."""
        actor = f"housekeeping:{self._terms.name}"
        while True:
            try:
                with self._line.transaction() as connection:
                    operation = operations.advance(connection, operation_id, actor=actor)
            except (OperationBusy, OperationNotFound):
                return
            except DBAPIError:
                raise
            except Exception:
                # Written by another release, perhaps. It must not end every worker that looks.
                log.log(
                    logging.DEBUG if operation_id in self._odd else logging.ERROR,
                    "the canary retry %s cannot be gone on with",
                    operation_id,
                    exc_info=True,
                )
                self._odd.add(operation_id)
                return
            if operation.is_over or operation.is_on_trial or time.monotonic() >= until:
                return

    def drop_days(self) -> float:
        """Drop the days that the ledger no longer keeps; later when somebody reads it just now."""
        with self._line.use() as connection:
            if partitions.clear_default(connection, self._keep.ledger) == partitions.BATCH:
                return MORE_S
            old = partitions.expired(connection, self._keep.ledger)
        try:
            for _ in old[:DAYS_A_TURN]:
                self._drop_oldest()
        except OperationalError as error:
            if not partitions.is_locked(error):
                raise
            log.debug("the ledger's day %s waits for a lock", old[0])
            return PURGE_EVERY_S
        return MORE_S if old[DAYS_A_TURN:] else DAYS_EVERY_S

    def _drop_oldest(self) -> None:
        with self._line.transaction() as connection:
            dropped = partitions.drop_oldest(
                connection, self._keep.ledger, actor=f"housekeeping:{self._terms.name}"
            )
        if dropped:
            log.info("the ledger's day %s was dropped", dropped.day)
