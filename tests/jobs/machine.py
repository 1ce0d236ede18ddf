"""A small queue and its model: what producers and workers do, with what must then be true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.backoff import LOST_UNSTARTED_LIMIT, Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions import Begun, Held, NewJob, Outcome, Progress
from tests.factories import outcome

HOLDERS = (Holder("worker:one", 60.0), Holder("worker:two", 60.0))
SWEEPER = "sweeper:one"
BACKOFF = Backoff(base_s=3600, cap_s=7200)
FINAL = ("succeeded", "failed", "cancelled")
VERBS = st.sampled_from(["succeed", "retry", "fail", "release", "unused", "defer", "cancel"])
_EMPTY = {
    "postgresql": ["TRUNCATE jobs, job_events RESTART IDENTITY"],
    "sqlite": ["DELETE FROM jobs", "DELETE FROM job_events", "DELETE FROM sqlite_sequence"],
}
DELAYS = st.sampled_from([None, 0.0, 3600.0])


@dataclass
class Modelled:
    """What the model knows of a job."""

    status: str = "queued"
    attempts: int = 0
    handbacks: int = 0
    max_attempts: int = 5
    priority: int = 0
    key: str | None = None
    cancel: bool = False
    started: bool = False
    token: UUID | None = None
    progress: int | None = None
    events: list[str] = field(default_factory=lambda: ["enqueued"])

    def to(self, status: str, event: str) -> None:
        """Move; a job that does not run has no lease."""
        self.status = status
        self.events.append(event)
        if status != "running":
            self.token = None
        if status in ("queued", "held"):
            self.cancel, self.progress = False, None
        if event == "claimed":
            self.progress = None


class Workers(RuleBasedStateMachine):
    """Producers, two holders and a sweeper over one small queue."""

    engine: ClassVar[sa.Engine]

    def __init__(self) -> None:
        super().__init__()
        with self.engine.begin() as connection:
            for statement in _EMPTY[self.engine.dialect.name]:
                connection.exec_driver_sql(statement)
        self.session = Session(self.engine)
        self.jobs: dict[int, Modelled] = {}
        self.gone: set[int] = set()
        self.claims: list[tuple[Claim, Holder]] = []
        self.ends: dict[UUID, str] = {}

    def teardown(self) -> None:
        """Give the connection back."""
        self.session.close()

    def some(self, *statuses: str) -> list[int]:
        """The jobs of the model in these statuses."""
        return [i for i, job in self.jobs.items() if job.status in statuses]

    # Producers

    @initialize()
    def begin_with_a_few(self) -> None:
        """An empty queue has little to do."""
        for priority in range(3):
            self.enqueue(priority, 3, None, None, "x")

    @rule(
        priority=st.integers(-2, 2),
        most=st.integers(1, 3),
        key=st.sampled_from([None, None, "a", "b"]),
        delay=st.sampled_from([None, None, 3600.0]),
        tag=st.sampled_from(["x", "y"]),
    )
    def enqueue(
        self, priority: int, most: int, key: str | None, delay: float | None, tag: str
    ) -> None:
        """Create a job, or meet an earlier one by its key."""
        new = NewJob(
            kind="demo.echo", payload={}, priority=priority, max_attempts=most, delay_s=delay,
            key=key, request_hash=tag if key else None,
        )  # fmt: skip
        [made] = transitions.enqueue(self.session, [new], producer="app", actor="app", via="python")
        self.session.commit()
        known = [i for i, job in self.jobs.items() if key and job.key == key]
        if known:
            assert made.id == known[0]
            assert made.outcome == ("replay" if made.request_hash == tag else "conflict")
        else:
            assert made.outcome == "new"
            self.jobs[made.id] = Modelled(priority=priority, max_attempts=most, key=key)

    # Workers

    @rule(
        who=st.integers(0, 1),
        ends=st.lists(st.tuples(st.integers(0, 10_000), VERBS, DELAYS), max_size=3),
        slots=st.integers(0, 2),
        prefetch=st.integers(0, 2),
    )
    def exchange(
        self, who: int, ends: list[tuple[int, str, float | None]], slots: int, prefetch: int
    ) -> None:
        """Settle some claims, perhaps lost or settled before, and claim the first of the line."""
        holder, line = HOLDERS[who], self.line()[: slots + prefetch]
        sent = self.outcomes(holder, ends)
        exchange = transitions.exchange(
            self.session, list(sent.values()), holder, slots=slots, prefetch=prefetch
        )
        for token, status in exchange.accepted.items():
            self.settled(sent.pop(token), holder.name, status)
        assert [claim.id for claim in exchange.claims] == line
        assert [claim.started for claim in exchange.claims] == [n < slots for n in range(len(line))]
        for claim in exchange.claims:
            self.claimed(claim, holder)
        for end in sent.values():
            self.refused(end, holder.name)
        self.session.commit()

    def outcomes(
        self, holder: Holder, ends: list[tuple[int, str, float | None]]
    ) -> dict[UUID, Outcome]:
        """Ends for claims of ``holder``, each once."""
        mine = [claim for claim, of in self.claims if of is holder]
        live = [claim for claim in mine if self.holds(claim)]
        sent = {}
        for pick, verb, delay in ends if mine else ():
            # Most of what was ever claimed is over; every other end is one that should be taken.
            among = live if live and pick % 2 else mine
            claim = among[pick // 2 % len(among)]
            over = verb == "retry" and claim.attempt >= claim.max_attempts
            end = outcome(claim, "fail" if over else verb, delay_s=delay)
            if verb == "unused":
                end = end._replace(verb="release", reason=Reason.PREFETCH_UNUSED)
            sent[claim.token] = end
        return sent

    def holds(self, claim: Claim) -> bool:
        """Whether the claim is still its job's latest."""
        job = self.jobs.get(claim.id)
        return job is not None and job.token == claim.token

    def claimed(self, claim: Claim, holder: Holder) -> None:
        """The model of a claim."""
        job = self.jobs[claim.id]
        job.to("running", "claimed")
        job.attempts += 1
        job.token, job.started = claim.token, claim.started
        assert (claim.attempt, claim.handbacks) == (job.attempts, job.handbacks)
        self.claims.append((claim, holder))

    def line(self) -> list[int]:
        """The due jobs by the order that is promised, sorted here."""
        now = self.session.execute(sa.text("SELECT now()")).scalar_one()
        self.session.commit()
        rows = self.session.execute(
            sa.text("SELECT id, priority, available_at, created_at FROM jobs")
        ).all()
        self.session.commit()
        due = [
            (-row.priority, row.available_at, row.created_at, row.id)
            for row in rows
            if self.jobs[row.id].status == "queued" and row.available_at <= now
        ]
        return [place[-1] for place in sorted(due)]

    def settled(self, sent: Outcome, actor: str, status: str) -> None:
        """The model of an accepted outcome."""
        job = self.jobs[sent.id]
        assert job.token == sent.token
        self.ends[sent.token] = actor
        wanted, event = self.ending(job, sent.verb)
        assert status == wanted
        if wanted == "queued" and sent.verb in ("release", "defer"):
            job.attempts -= 1
            job.handbacks += sent.reason is None
        job.to(wanted, event)

    def ending(self, job: Modelled, verb: str) -> tuple[str, str]:
        """Where a verb leads, and its event: a cancel request beats all but success."""
        if verb == "succeed":
            return "succeeded", "succeeded"
        if verb == "cancel" or job.cancel:
            return "cancelled", "cancelled"
        events = {"retry": "retry_scheduled", "release": "released", "defer": "deferred"}
        return ("failed", "failed") if verb == "fail" else ("queued", events[verb])

    def refused(self, sent: Outcome, actor: str) -> None:
        """The model of an outcome that was not accepted: a repeat of ours, or a lost lease."""
        job = self.jobs.get(sent.id)
        assert job is None or job.token != sent.token
        [answer] = transitions.explain(self.session, [sent], actor=actor).values()
        assert (answer == "lost") is (self.ends.get(sent.token) != actor)
        if answer == "lost" and job is not None:
            job.events.append("stale_write_rejected")

    @rule(pick=st.integers(0, 10_000))
    def renew(self, pick: int) -> None:
        """Renew a lease, perhaps a lost one."""
        if not self.claims:
            return
        claim, holder = self.claims[pick % len(self.claims)]
        [answer] = transitions.renew(self.session, [Held(claim.id, claim.token)], holder).values()
        self.session.commit()
        asked = self.holds(claim) and self.jobs[claim.id].cancel
        assert answer == ("cancel" if asked else "renewed" if self.holds(claim) else "lost")

    @rule(pick=st.integers(0, 10_000))
    def begin(self, pick: int) -> None:
        """The handler of a prefetched claim begins."""
        if not self.claims:
            return
        claim, _ = self.claims[pick % len(self.claims)]
        transitions.begin(self.session, [Begun(claim.id, claim.token, 0.0)])
        self.session.commit()
        if self.holds(claim):
            self.jobs[claim.id].started = True

    @rule(pick=st.integers(0, 10_000), percent=st.integers(0, 100))
    def progress(self, pick: int, percent: int) -> None:
        """A handler says how far it is, perhaps of a lease that was lost."""
        if not self.claims:
            return
        claim, _ = self.claims[pick % len(self.claims)]
        transitions.write_progress(self.session, [Progress(claim.id, claim.token, percent, None)])
        self.session.commit()
        if self.holds(claim):
            self.jobs[claim.id].progress = percent

    @rule(pick=st.integers(0, 10_000))
    def lose(self, pick: int) -> None:
        """A lease runs out, and the sweeper comes by."""
        running = self.some("running")
        if not running:
            return
        job_id = running[pick % len(running)]
        overdue = (
            "UPDATE jobs SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE id = %s"
        )
        self.session.connection().exec_driver_sql(overdue, (job_id,))
        [expired] = transitions.expire(self.session, actor=SWEEPER, backoff=BACKOFF)
        self.session.commit()
        job = self.jobs[job_id]
        assert job.token is not None
        self.ends[job.token] = SWEEPER
        job.events.append("lease_expired")
        unstarted = not job.started and job.handbacks < LOST_UNSTARTED_LIMIT
        verb = "retry" if job.attempts < job.max_attempts else "fail"
        status, event = self.ending(job, "release" if unstarted else verb)
        assert expired.status == status
        if unstarted and status == "queued":
            job.attempts -= 1
            job.handbacks += 1
        job.to(status, event)

    def pick(self, number: int) -> list[int]:
        """One of the jobs there are."""
        ids = sorted(self.jobs)
        return [ids[number % len(ids)]] if ids else []
