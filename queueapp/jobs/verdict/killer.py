"""The rule for jobs that take workers down. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from queueapp.jobs.verdict.facts import Facts, Suspect
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.signs import Signs
from queueapp.jobs.why.words import counted, moment, span

# Workers that have vanished with a job, and how long ago the last of them at the most.
LEAST_KILLED, KILLER_S = 2, 3600.0


def worker_killer(facts: Facts) -> Said | None:
    """A job with which one worker after the other is lost."""
    assert facts.suspects is not None
    assert facts.signs is not None
    guilty = [one for one in facts.suspects if _has_killed(facts, one)]
    if not guilty:
        return None
    guilty.sort(key=lambda one: one.status == "failed")
    first = guilty[0]
    gone = vanished(facts.signs, first.holders, facts.now)
    more = f"; so did {counted(len(guilty) - 1, 'more job')}" if guilty[1:] else ""
    has_failed = first.status == "failed"
    # What has ended takes no worker any more, until somebody retries it.
    is_over = all(one.status == "failed" for one in guilty)
    asked = f"; it was asked to stop {span(facts.age_s(first.asked_at))} ago"
    return Said(
        Level.AMBER if is_over else Level.RED,
        f"Job {first.id} ({first.kind}) was running when {counted(len(gone), 'worker')}"
        f" vanished, the last one {span(facts.age_s(first.last_at))} ago; its handler never came"
        f" to report an error{', and it has ended failed' if has_failed else ''}"
        f"{asked if first.asked_at else ''}{more}.",
        first.first_at,
        {
            "job_id": first.id,
            "kind": first.kind,
            "status": first.status,
            "times": len(gone),
            "holders": gone[:10],
            "last_at": first.last_at,
            "more_jobs": [one.id for one in guilty[1:]],
        },
        (f"/jobs/{first.id}",),
        _step(first),
    )


def _step(one: Suspect) -> str | None:
    """What is left to do; None: what the rule says."""
    if one.status == "failed":
        ends = moment(one.last_at + timedelta(seconds=KILLER_S))
        return f"Find out what it does to its worker before you retry it; this clears by {ends}."
    if one.asked_at:
        return "Wait for its next check: it ends cancelled, also if it takes this worker as well."
    return "Cancel the job before it takes this worker too." if one.status == "running" else None


def _has_killed(facts: Facts, one: Suspect) -> bool:
    """Whether workers vanished with it of late."""
    assert facts.signs is not None
    gone = vanished(facts.signs, one.holders, facts.now)
    return facts.age_s(one.last_at) <= KILLER_S and len(gone) >= LEAST_KILLED


def vanished(signs: Signs, holders: Sequence[str], now: datetime) -> list[str]:
    """The ``holders`` of a job's lost leases that ended without saying why.

    None where one is still there: it was only slow.
    """
    if {worker.holder for worker in signs.live(now)}.intersection(holders):
        return []
    ended = {worker.holder for worker in signs.workers if worker.stopped_at}
    return [name for name in dict.fromkeys(holders) if name not in ended]
