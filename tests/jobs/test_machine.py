"""Random verbs against the real database, beside a small model of what they should do.

After each step every row, its events and the fold of its events are compared with the model.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from queueapp.jobs import audit, transitions
from tests.jobs.machine import FINAL, Workers


class Machine(Workers):
    """The same queue with people about, and what must hold after each step."""

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

    # What must always hold

    @invariant()
    def rows_and_events_are_the_models(self) -> None:
        """Every row, and every line of its history."""
        lines = "SELECT job_id, event FROM job_events WHERE job_id IS NOT NULL ORDER BY id"
        history: dict[int, list[str]] = defaultdict(list)
        for line in self.session.execute(sa.text(lines)):
            history[line.job_id].append(line.event)
        rows = self.session.execute(sa.text("SELECT * FROM jobs")).all()
        assert {row.id for row in rows} == self.jobs.keys()
        for row in rows:
            job = self.jobs[row.id]
            assert (row.status, row.attempts, row.handbacks, row.priority) == (
                job.status, job.attempts, job.handbacks, job.priority,
            )  # fmt: skip
            assert (row.lease_token, row.progress) == (job.token, job.progress)
            assert history[row.id] == job.events
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
    run_machine(database_url, examples=6, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_random_verbs_do_what_the_model_says(database_url: str) -> None:
    run_machine(database_url, examples=40, steps=50)
