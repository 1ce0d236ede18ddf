"""On what terms one worker process works: resolved once from settings and options, then fixed."""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass, field, replace
from secrets import token_hex

from queueapp.connections import Needs, worker_needs
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{token_hex(3)}"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Seconds and bytes where a name does not say. ``only`` None: every kind but ``skip``.

    0 is no limit for ``max_jobs`` and ``max_rss``.
    """

    name: str = field(default_factory=_name)
    concurrency: int = 10
    max_jobs: int = 0
    max_rss: int = 0
    prefetch: int = 0
    lease: float = 60.0
    grace: float = 25.0
    poll: float = 1.5
    job_timeout: float = 3600.0
    only: tuple[str, ...] | None = None
    skip: tuple[str, ...] = ()
    backoff: Backoff = field(default_factory=Backoff)
    drain: bool = False
    listen: bool = True
    release: str = ""
    # Its database connections are not called by its name.
    nameless: bool = False

    @property
    def actor(self) -> str:
        """How the ledger names this worker's own moves."""
        return f"worker:{self.name}"

    def time_out_of(self, claim: Claim) -> float:
        """How many seconds its attempt may run; without a limit as long as it likes."""
        limit = self.job_timeout if claim.timeout_s is None else claim.timeout_s
        return limit if limit > 0 else math.inf

    def lease_of(self, claim: Claim) -> float:
        """For how many seconds at least it is ours: a lease never reaches past a time-out."""
        return min(self.lease, self.time_out_of(claim))

    @property
    def settles_beside(self) -> bool:
        """Whether a settler may help the pump: without prefetch no batch is large enough."""
        return self.concurrency > 0 and self.prefetch > 0

    @property
    def needs(self) -> Needs:
        """The database connections of one process."""
        return worker_needs(
            self.concurrency, listens=self.listen, settles_beside=self.settles_beside
        )

    @property
    def holder(self) -> Holder:
        """What a claim is made with, before the controls are looked at."""
        return Holder(self.actor, self.lease, self.job_timeout, self.only, self.skip)

    def holder_without(self, held_kinds: tuple[str, ...]) -> Holder:
        """The same, leaving out kinds on hold that housekeeping has not moved yet."""
        return replace(self.holder, skip=tuple(sorted({*self.skip, *held_kinds})))
