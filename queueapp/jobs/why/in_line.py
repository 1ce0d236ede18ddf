"""What is said of a job that is due: what stands before it, and whether a thread is free. Pure."""

from __future__ import annotations

from collections import Counter

from queueapp.jobs.why import statement
from queueapp.jobs.why.facts import Facts
from queueapp.jobs.why.running import Told, runner
from queueapp.jobs.why.words import counted, span

# Workers look every few seconds at most: a shorter silence says nothing.
_LEAST_SILENCE_S = 5.0
# By a known rate every thread would have taken a job so many times over.
_ROUNDS = 2
# Without a rate: as long as one line of the statistics is.
_SILENCE_S = 60.0


def jobs_ahead(facts: Facts) -> Told | None:
    """Others are claimed before it. The rate promises a start only while something is claimed."""
    if not facts.ahead or _stands_still(facts):
        return None
    slots, busy = _slots(facts)
    rate = facts.claims_per_s
    estimate = None if rate is None or _is_silent(facts) else (_ahead(facts) + 1) / rate
    return f"{_stand_before(facts)} before it in the line; {_soon(facts, estimate)}.", {
        "ahead": _ahead(facts),
        "ahead_is_least": _is_least(facts),
        "claims_per_s": rate,
        "last_claim_s": facts.last_claim_s,
        "estimate_s": estimate,
        "waiting_s": facts.waited_s,
        "priority": facts.job.priority,
        "slots": slots,
        "busy": busy,
        "handbacks": facts.job.handbacks,
    }


def slots_busy(facts: Facts) -> Told | None:
    """Every thread that runs its kind is taken."""
    slots, busy = _slots(facts)
    if facts.ahead is None or not slots or busy < slots:
        return None
    names = {worker.holder for worker in facts.able}
    begun = [h for h in facts.holders if h.name in names and h.longest["started_at"]]
    first = min(begun, key=lambda holder: str(holder.longest["started_at"]))
    longest = runner(first, facts.now)
    threads = "The one thread that runs its kind is busy"
    if slots > 1:
        threads = f"All {slots:,} threads that run its kind are busy"
    still = ""
    if _stands_still(facts):
        still = f"; {_silence(facts)}, and {_stand_before(facts).lower()} before it"
    return (
        f"{threads}; the longest has been at job"
        f" {longest['id']} ({longest['kind']}) for {span(longest['run_s'])}{still}.",
        {
            "workers": len(names),
            "slots": slots,
            "busy": busy,
            "longest": longest,
            "ahead": _ahead(facts),
            "ahead_is_least": _is_least(facts),
            "last_claim_s": facts.last_claim_s,
            "waiting_s": facts.waited_s,
            "handbacks": facts.job.handbacks,
        },
    )


def next_in_line(facts: Facts) -> Told | None:
    """Nothing is in its way."""
    if facts.ahead is None:
        return None
    slots, busy = _slots(facts)
    return (
        f"It is the next in line, due for {span(facts.waited_s)}; a worker takes it when it looks"
        " next.",
        {
            "workers": len({worker.holder for worker in facts.able}),
            "slots": slots,
            "busy": busy,
            "waiting_s": facts.waited_s,
            "handbacks": facts.job.handbacks,
        },
    )


def _ahead(facts: Facts) -> int:
    return min(facts.ahead or 0, statement.AHEAD_LIMIT)


def _is_least(facts: Facts) -> bool:
    return (facts.ahead or 0) > statement.AHEAD_LIMIT


def _stand_before(facts: Facts) -> str:
    least = "At least " if _is_least(facts) else ""
    stands = "stands" if _ahead(facts) == 1 and not least else "stand"
    return f"{least}{counted(_ahead(facts), 'job')} {stands}"


def _soon(facts: Facts, estimate: float | None) -> str:
    if estimate is not None:
        about = "at least" if _is_least(facts) else "about"
        return f"it starts in {about} {span(estimate)} at {facts.claims_per_s:.3g} claims a second"
    why = _silence(facts) if _is_silent(facts) else "no recent claims are counted"
    return f"when it starts is unknown: {why}"


def _silence(facts: Facts) -> str:
    return f"nothing has been claimed for {span(facts.last_claim_s or 0.0)}"


def _stands_still(facts: Facts) -> bool:
    """Whether others are before it, and no thread is free to take even the first of them."""
    slots, busy = _slots(facts)
    return bool(facts.ahead) and 0 < slots <= busy and _is_silent(facts)


def _is_silent(facts: Facts) -> bool:
    """Whether nothing was claimed for longer than the rate allows: then it is not the rate now."""
    if facts.last_claim_s is None:
        return False
    if not facts.claims_per_s:
        return facts.last_claim_s > _SILENCE_S
    threads = sum(worker.slots for worker in facts.live)
    round_s = threads / facts.claims_per_s
    return facts.last_claim_s > max(_LEAST_SILENCE_S, _ROUNDS * round_s)


def _slots(facts: Facts) -> tuple[int, int]:
    """The threads of live workers that run the kind, and how many of them are taken."""
    begun = {holder.name: holder.started for holder in facts.holders}
    slots: Counter[str] = Counter()
    for worker in facts.able:
        slots[worker.holder] += worker.slots
    busy = sum(min(most, begun.get(holder, 0)) for holder, most in slots.items())
    return slots.total(), busy
