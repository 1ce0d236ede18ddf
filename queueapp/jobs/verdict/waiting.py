"""Why a line may wait and all be well: what stands beside the wait in a green sentence. Pure."""

from __future__ import annotations

from queueapp.jobs.control import QUEUE
from queueapp.jobs.verdict.facts import Facts, Head
from queueapp.jobs.verdict.halted import is_full_as_usual
from queueapp.jobs.verdict.since import has_just_resumed, lifted, working_since
from queueapp.jobs.verdict.slow import BEHIND_S
from queueapp.jobs.why.words import span

# The codes of the evidence, each with what it means.
REASONS: dict[str, str] = {
    "lifted": "a pause or a hold ended of late",
    "no_worker_for_kind": "no live worker runs its kind",
    "begun": "the workers began of late",
    "full": "every thread is busy with a run no longer than usual",
    "moving": "attempts end",
    "quiet": "it has not been quiet for long enough to tell",
}


def why_it_waits(facts: Facts) -> tuple[str, str] | None:
    """The code and the words of why nothing is wrong; None while the oldest job waits as it may."""
    oldest = facts.line.oldest if facts.line else None
    if oldest is None or facts.age_s(oldest.at) <= facts.thresholds.stalled:
        return None
    return _not_ours(facts, oldest) or _begun_anew(facts, oldest) or _moving(facts)


def _not_ours(facts: Facts, oldest: Head) -> tuple[str, str] | None:
    """Nobody is to run it, or nobody can."""
    if facts.signs and facts.signs.alive(facts.now) and oldest.able_id != oldest.id:
        return "no_worker_for_kind", f"no live worker runs its kind {oldest.kind}"
    return None


def _begun_anew(facts: Facts, oldest: Head) -> tuple[str, str] | None:
    """The clock of the rules has begun anew since it is due."""
    scope, lift = lifted(facts) or ("", None)
    if lift and lift.at > oldest.at and has_just_resumed(facts, BEHIND_S):
        what = "the pause" if scope == QUEUE else f"the hold of {scope.removeprefix('kind:')}"
        return "lifted", f"{what} ended {span(facts.age_s(lift.at))} ago"
    since = working_since(facts)
    if since and since > oldest.at and facts.age_s(since) <= facts.thresholds.quiet:
        return "begun", f"the workers began {span(facts.age_s(since))} ago"
    return None


def _moving(facts: Facts) -> tuple[str, str]:
    line = facts.line
    assert line is not None
    if line.ended_at and facts.age_s(line.ended_at) <= facts.thresholds.quiet:
        return "moving", f"the line moves, an attempt ended {span(facts.age_s(line.ended_at))} ago"
    if is_full_as_usual(facts):
        return "full", "every thread is busy, and none for longer than usual"
    return "quiet", "whether it moves is not known yet"
