"""Random verbs against the real database, beside a small model of what they should do.

After each step every row, its events and the fold of its events are compared with the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy.orm import Session

from queueapp.jobs import audit, transitions
from queueapp.jobs.backoff import LOST_UNSTARTED_LIMIT, Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.transitions import Begun, Held, NewJob
from tests.factories import outcome

HOLDERS = (Holder("worker:one", 60.0), Holder("worker:two", 60.0))
SWEEPER = "sweeper:one"
BACKOFF = Backoff(base_s=3600, cap_s=7200)
FINAL = ("succeeded", "failed", "cancelled")


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
    events: list[str] = field(default_factory=lambda: ["enqueued"])

    def to(self, status: str, event: str) -> None:
        """Move; a job that does not run has no lease."""
        self.status = status
        self.events.append(event)
        if status != "running":
            self.token = None
        if status in ("queued", "held"):
            self.cancel = False


class Machine(RuleBasedStateMachine):
    """One life of a small queue."""

    engine: ClassVar[sa.Engine]

    def __init__(self) -> None:
        super().__init__()
        with self.engine.begin() as connection:
            connection.exec_driver_sql("TRUNCATE jobs, job_events RESTART IDENTITY")
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

    @rule(who=st.integers(0, 1), slots=st.integers(0, 2), prefetch=st.integers(0, 2))
    def claim(self, who: int, slots: int, prefetch: int) -> None:
        """Claim: exactly the first of the line, in order."""
        line = self.line()[: slots + prefetch]
        exchange = transitions.exchange(
            self.session, [], HOLDERS[who], slots=slots, prefetch=prefetch
        )
        self.session.commit()
        assert [claim.id for claim in exchange.claims] == line
        assert [claim.started for claim in exchange.claims] == [n < slots for n in range(len(line))]
        for claim in exchange.claims:
            job = self.jobs[claim.id]
            job.to("running", "claimed")
            job.attempts += 1
            job.token, job.started = claim.token, claim.started
            assert (claim.attempt, claim.handbacks) == (job.attempts, job.handbacks)
            self.claims.append((claim, HOLDERS[who]))

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

    @rule(
        pick=st.integers(0, 10_000),
        verb=st.sampled_from(["succeed", "retry", "fail", "release", "defer", "cancel"]),
        delay=st.sampled_from([None, 0.0, 3600.0]),
    )
    def settle(self, pick: int, verb: str, delay: float | None) -> None:
        """Settle a claim, perhaps one that was lost or settled before."""
        if not self.claims:
            return
        claim, holder = self.claims[pick % len(self.claims)]
        if verb == "retry" and claim.attempt >= claim.max_attempts:
            verb = "fail"
        sent = outcome(claim, verb, delay_s=delay)
        accepted = transitions.settle(self.session, [sent], actor=holder.name)
        if claim.token in accepted:
            self.settled(claim, holder.name, verb, accepted[claim.token])
        else:
            self.refused(claim, holder.name, sent)
        self.session.commit()

    def settled(self, claim: Claim, actor: str, verb: str, status: str) -> None:
        """The model of an accepted outcome."""
        job = self.jobs[claim.id]
        assert job.token == claim.token
        self.ends[claim.token] = actor
        wanted, event = self.ending(job, verb)
        assert status == wanted
        if wanted == "queued" and verb in ("release", "defer"):
            job.attempts -= 1
            job.handbacks += 1
        job.to(wanted, event)

    def ending(self, job: Modelled, verb: str) -> tuple[str, str]:
        """Where a verb leads, and its event: a cancel request beats all but success."""
        if verb == "succeed":
            return "succeeded", "succeeded"
        if verb == "cancel" or job.cancel:
            return "cancelled", "cancelled"
        events = {"retry": "retry_scheduled", "release": "released", "defer": "deferred"}
        return ("failed", "failed") if verb == "fail" else ("queued", events[verb])

    def refused(self, claim: Claim, actor: str, sent: Any) -> None:
        """The model of an outcome that was not accepted: a repeat of ours, or a lost lease."""
        job = self.jobs.get(claim.id)
        assert job is None or job.token != claim.token
        [answer] = transitions.explain(self.session, [sent], actor=actor).values()
        assert answer == ("repeat" if self.ends.get(claim.token) == actor else "lost")
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
        job = self.jobs.get(claim.id)
        mine = job is not None and job.token == claim.token
        assert answer == (
            "cancel" if mine and job and job.cancel else "renewed" if mine else "lost"
        )

    @rule(pick=st.integers(0, 10_000))
    def begin(self, pick: int) -> None:
        """The handler of a prefetched claim begins."""
        if not self.claims:
            return
        claim, _ = self.claims[pick % len(self.claims)]
        transitions.begin(self.session, [Begun(claim.id, claim.token, 0.0)])
        self.session.commit()
        job = self.jobs.get(claim.id)
        if job is not None and job.token == claim.token:
            job.started = True

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

    # People

    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick: int) -> None:
        """Cancel some job, whatever its status."""
        for job_id in self.pick(pick):
            moved = transitions.cancel(self.session, [job_id], actor="user:ana")
            job = self.jobs[job_id]
            if job.status in ("queued", "held"):
                job.to("cancelled", "cancelled")
            elif job.status == "running" and not job.cancel:
                job.to("running", "cancel_requested")
                job.cancel = True
            else:
                assert moved == []
        self.session.commit()

    @rule(pick=st.integers(0, 10_000))
    def requeue(self, pick: int) -> None:
        """Retry some job, whatever its status."""
        for job_id in self.pick(pick):
            moved = transitions.requeue(self.session, [job_id], actor="user:ana")
            job = self.jobs[job_id]
            assert bool(moved) == (job.status in ("failed", "cancelled"))
            if moved:
                job.to("queued", "requeued")
                job.attempts = job.handbacks = 0
        self.session.commit()

    @rule(pick=st.integers(0, 10_000), up=st.booleans())
    def hold_or_unhold(self, pick: int, up: bool) -> None:
        """Park some job, or bring it back."""
        verb = transitions.unhold if up else transitions.hold
        source, target = ("held", "queued") if up else ("queued", "held")
        for job_id in self.pick(pick):
            moved = verb(self.session, [job_id], actor="user:ana")
            job = self.jobs[job_id]
            assert bool(moved) == (job.status == source)
            if moved:
                job.to(target, "unheld" if up else "held")
        self.session.commit()

    @rule(pick=st.integers(0, 10_000), priority=st.none() | st.integers(-2, 2))
    def reschedule(self, pick: int, priority: int | None) -> None:
        """Make some job due now, perhaps elsewhere in the line."""
        for job_id in self.pick(pick):
            moved = transitions.reschedule(
                self.session, [job_id], actor="user:ana", priority=priority, delay_s=0
            )
            job = self.jobs[job_id]
            assert bool(moved) == (job.status in ("queued", "held"))
            if moved:
                job.events.append("rescheduled")
                job.priority = job.priority if priority is None else priority
        self.session.commit()

    @rule(pick=st.integers(0, 10_000))
    def release(self, pick: int) -> None:
        """A person takes a running job from its holder: the attempt counts."""
        running = self.some("running")
        if not running:
            return
        job_id = running[pick % len(running)]
        job = self.jobs[job_id]
        assert job.token is not None
        self.ends[job.token] = "user:ana"
        transitions.release(self.session, [job_id], actor="user:ana", token=job.token)
        self.session.commit()
        used_up = job.attempts >= job.max_attempts
        job.to(*self.ending(job, "fail" if used_up else "release"))

    @rule(pick=st.integers(0, 10_000))
    def purge(self, pick: int) -> None:
        """Remove some job, if it is final."""
        for job_id in self.pick(pick):
            removed = transitions.purge(self.session, [job_id], actor="user:root")
            job = self.jobs[job_id]
            assert bool(removed) == (job.status in FINAL)
            if removed:
                self.gone.add(job_id)
                del self.jobs[job_id]
        self.session.commit()

    def pick(self, number: int) -> list[int]:
        """One of the jobs there are."""
        ids = sorted(self.jobs)
        return [ids[number % len(ids)]] if ids else []

    # What must always hold

    @invariant()
    def rows_and_events_are_the_models(self) -> None:
        """Every row, and every line of its history."""
        rows = self.session.execute(
            sa.text(
                "SELECT j.*, (SELECT array_agg(e.event ORDER BY e.id) FROM job_events e"
                " WHERE e.job_id = j.id) AS history FROM jobs j"
            )
        ).all()
        assert {row.id for row in rows} == self.jobs.keys()
        for row in rows:
            job = self.jobs[row.id]
            assert (row.status, row.attempts, row.handbacks, row.priority) == (
                job.status, job.attempts, job.handbacks, job.priority,
            )  # fmt: skip
            assert row.lease_token == job.token
            assert row.history == job.events
            if row.status == "running":
                assert (row.cancel_requested_at is not None) == job.cancel
        self.session.rollback()

    @invariant()
    def the_ledger_leads_to_the_rows(self) -> None:
        """The fold of each job's events is its row."""
        for _, report in audit.check(self.session):
            assert report.offenders == []
        self.session.rollback()


def run_machine(url: str, examples: int, steps: int) -> None:
    Machine.engine = sa.create_engine(url)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    Machine.engine.dispose()


def test_random_verbs_do_what_the_model_says(database_url: str) -> None:
    run_machine(database_url, examples=12, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_random_verbs_do_what_the_model_says(database_url: str) -> None:
    run_machine(database_url, examples=40, steps=50)
