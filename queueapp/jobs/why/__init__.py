"""Why a job stands where it does: one sentence with its evidence, from an ordered list of rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from queueapp.jobs.database import Database
from queueapp.jobs.why.catalogue import RULES
from queueapp.jobs.why.facts import read

__all__ = ["MANY_HANDBACKS", "RULES", "Also", "Why", "why"]

# From so many on an answer says so: the job comes back again and again without an end.
MANY_HANDBACKS = 20


@dataclass(frozen=True)
class Also:
    """What stands in the job's way as well."""

    rule: str
    sentence: str


@dataclass(frozen=True)
class Why:
    """The answer. ``rule`` is a stable code; ``evidence`` has the fields of that rule."""

    job_id: int
    status: str
    rule: str
    sentence: str
    next_step: str
    evidence: dict[str, Any]
    also: list[Also]
    as_of: datetime
    producer: str

    def without_others(self) -> Why:
        """The same for whoever may only see their own jobs: without that of somebody else."""
        if "longest" not in self.evidence:
            also = [Also(one.rule, _OTHERS.get(one.rule, one.sentence)) for one in self.also]
            return replace(self, also=also)
        evidence = {**self.evidence, "longest": None}
        return replace(self, evidence=evidence, sentence=_OTHERS[self.rule])


_OTHERS = {"slots_busy": "All threads that run its kind are busy with other jobs."}


def why(database: Database, job_id: int, *, job_timeout_s: float, pooled: bool = False) -> Why:
    """Say why ``job_id`` stands where it does, in two statements. Raises JobNotFound.

    ``job_timeout_s``: the time-out of jobs that name none, 0 for none. ``pooled``: workers come
    through a pooler, so that connections tell nothing of them.
    """
    facts = read(database, job_id, job_timeout_s=job_timeout_s, pooled=pooled)
    found = [(rule, said) for rule in RULES if (said := rule.look(facts))]
    rule, said = found[0]
    sentence, job = said.sentence, facts.job
    if "handbacks" in said.evidence and job.handbacks >= MANY_HANDBACKS:
        sentence += f" It has been handed back {job.handbacks:,} times."
    return Why(
        job_id=job.id,
        status=job.status,
        rule=rule.code,
        sentence=sentence,
        next_step=said.next_step or rule.next_step,
        evidence=said.evidence,
        also=[Also(r.code, s.sentence) for r, s in found[1:] if r.blocks],
        as_of=facts.now,
        producer=job.producer,
    )
