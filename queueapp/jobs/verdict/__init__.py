"""Is the queue well? One word with its evidence, from an ordered list of rules.

The first rule that applies is the verdict, a red one before all others, and those are told below
it. What could not be read is not known, and not known is never green.
"""

from __future__ import annotations

from queueapp.jobs.database import Database
from queueapp.jobs.verdict import ahead, failing
from queueapp.jobs.verdict.catalogue import ENDS, HEALTHY, RULES, UNKNOWN
from queueapp.jobs.verdict.facts import Facts, NoWrites
from queueapp.jobs.verdict.findings import Finding, Level, Step, Unread, Verdict
from queueapp.jobs.verdict.numbers import Numbers
from queueapp.jobs.verdict.reading import read
from queueapp.jobs.verdict.stuck import locked
from queueapp.jobs.verdict.thresholds import Thresholds
from queueapp.jobs.verdict.waiting import why_it_waits
from queueapp.jobs.verdict.words import per_minute, share_of_workers
from queueapp.jobs.why.words import span

__all__ = [
    "RULES", "Facts", "Finding", "Level", "NoWrites", "Numbers", "Step", "Thresholds", "Unread",
    "Verdict", "judge", "not_known", "read", "verdict",
]  # fmt: skip


def verdict(
    database: Database,
    *,
    job_timeout_s: float,
    thresholds: Thresholds | None = None,
    expected_workers: int = 0,
    pooled: bool = False,
) -> Verdict:
    """Look at the queue and judge it; see ``read`` for the parameters."""
    return judge(
        read(
            database,
            job_timeout_s=job_timeout_s,
            thresholds=thresholds,
            expected_workers=expected_workers,
            pooled=pooled,
        )
    )


def judge(facts: Facts) -> Verdict:
    """Ask every rule, in order; what is worse comes first, so that nothing below is worse."""
    asked = [finding for rule in RULES if (finding := rule.ask(facts))]
    # What is red for certain stays so, whatever could not be read.
    found = [finding for finding in asked if finding.level is Level.RED]
    found += [not_known(*facts.unread, lock=locked(facts))] if facts.unread else []
    found += [finding for finding in asked if finding.level is not Level.RED]
    first = found[0] if found else _healthy(facts)
    notes = tuple(note for note in (failing.is_over(facts), ahead.unseen(facts)) if note)
    return Verdict(first, tuple(found[1:]), facts.now, facts.unread, notes)


def not_known(*unread: Unread, sentence: str | None = None, lock: str = "") -> Finding:
    """The finding for what could not be read. ``lock``: what is waited for meanwhile."""
    title, _, step = ENDS[UNKNOWN]
    told = "; ".join(f"{one.reading}: {one.reason}" for one in unread)
    return Finding(
        UNKNOWN,
        title,
        Level.UNKNOWN,
        sentence or f"Not everything could be read ({told}){'; ' + lock if lock else ''}.",
        Step(step, ("/system",)),
        evidence={"unread": [f"{one.reading}: {one.reason}" for one in unread]},
    )


def _healthy(facts: Facts) -> Finding:
    title, _, step = ENDS[HEALTHY]
    line, numbers = facts.line, Numbers.of(facts)
    assert line is not None
    alive, pace, oldest = numbers.alive or 0, numbers.ended, line.oldest
    waits = f"The oldest due job has waited {span(facts.age_s(oldest.at))}" if oldest else None
    why = why_it_waits(facts)
    waits = f"{waits}: {why[1]}" if why else waits
    parts = [waits or "Nothing is due"]
    parts += [f"{per_minute(pace)} ended{numbers.as_of_ends}"] if pace is not None else []
    parts.append(share_of_workers(alive, facts.expected_workers).lower())
    return Finding(
        HEALTHY,
        title,
        Level.GREEN,
        f"{' · '.join(parts)}.",
        Step(step),
        evidence={
            "due": line.due,
            "oldest_due_at": oldest and oldest.at,
            "waits_for": why and why[0],
            "running": line.running,
            "ended_per_minute": pace,
            "live_workers": alive,
            "expected_workers": facts.expected_workers or None,
        },
    )
