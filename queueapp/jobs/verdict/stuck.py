"""What keeps a queue from moving, in words: its runs, or a lock; and the way out. Pure."""

from __future__ import annotations

from queueapp.jobs.verdict.facts import Facts, Running
from queueapp.jobs.why.words import asked, counted, moment, span

# A run counts as longer than usual from so many times the usual on.
USUAL_TIMES = 3
# From so long on an open transaction is a suspect, when nothing moves.
SUSPECT_S = 60.0

_LONGEST_RUNS = ("/#longest",)
_ASKED = asked("their")
_LOCKED = "Have the owner of the lock end it; the page says who that is, and the last resort."
_SUSPECTED = "Look for a lock or a transaction that keeps workers waiting."

# The next step (None: the rule's), after the pages that help.
Way = tuple[tuple[str, ...], str | None]


def way_out(facts: Facts) -> Way:
    """What to do, and where."""
    if facts.lock:
        return ("/system#reading-locks",), _LOCKED
    line = facts.line
    if line is None or not line.running:
        return ("/system", "/events"), _SUSPECTED
    return _LONGEST_RUNS, _ASKED if asked_to_stop(facts) else None


def locked(facts: Facts) -> str:
    """Who holds the lock that we wait for; nothing without one."""
    lock = facts.lock
    if lock is None:
        return ""
    who = "a prepared transaction"
    if lock.pid:
        by = f", role {lock.role}" if lock.role else ""
        who = f"{lock.application or 'somebody without a name'} (pid {lock.pid}{by})"
    since = ", since when is hidden from this role"
    if lock.open_s is not None:
        began = moment(facts.ago(lock.open_s))
        since = f", in a transaction open since {began}, for {span(lock.open_s)}"
    wait = "waits" if lock.waiting == 1 else "wait"
    ours = f"{counted(lock.waiting, 'connection')} of the queue {wait}"
    return f"{ours} for a lock that {who} holds{since}"


def nothing_ends(facts: Facts) -> str:
    """For how long nothing has ended."""
    ended_at = facts.line.ended_at if facts.line else None
    if ended_at is None:
        return "no attempt has ended yet"
    return f"no attempt has ended for {span(facts.age_s(ended_at))}"


def busy(facts: Facts, slots: int | None, longest: Running | None) -> str:
    """How many threads are busy, and with what for the longest."""
    line = facts.line
    assert line is not None
    of = f" of {slots}" if slots else ""
    said = f"{min(line.running, slots or line.running)}{of} threads are busy"
    if not line.running:
        said = f"none{of} threads is busy: workers cannot claim"
    if longest:
        said += f", the longest with job {longest.first_id} ({longest.kind}) for"
        said += f" {span(facts.age_s(longest.first_at))}{usually(facts, longest)}"
    open_s = facts.system and facts.system.oldest_transaction_s
    if open_s and open_s > SUSPECT_S:
        said += f"; a transaction has been open for {span(open_s)}"
    return said


def asked_to_stop(facts: Facts) -> str:
    """That all runs of that kind were asked to stop, and when; nothing where one was not."""
    longest = longest_run(facts)
    if longest is None or not longest.asked or longest.asked < longest.jobs:
        return ""
    they = "it was" if longest.jobs == 1 else f"all {longest.jobs:,} of its kind were"
    return f"; {they} asked to stop {span(facts.age_s(longest.asked_at))} ago"


def usually(facts: Facts, run: Running) -> str:
    """How long a run of the kind takes, in brackets."""
    usual = facts.hour and facts.hour.usual_s.get(run.kind)
    return f" (95 of 100 end within {span(usual)})" if usual else ""


def run_limit(facts: Facts, run: Running, least_s: float) -> float:
    """For how long a run of the kind may take before that is a sign of anything."""
    usual = facts.hour and facts.hour.usual_s.get(run.kind)
    return max(least_s, USUAL_TIMES * (usual or 0.0))


def longest_run(facts: Facts) -> Running | None:
    """The running jobs of the kind that has been at it for the longest.

    Those that were all asked to stop come last, unless nothing else takes longer than usual.
    """
    kinds = facts.line.kinds if facts.line else ()
    over = [
        one
        for one in kinds
        if one.asked < one.jobs
        and facts.age_s(one.first_at) > run_limit(facts, one, facts.thresholds.quiet)
    ]
    return min(over or kinds, key=lambda one: one.first_at, default=None)
