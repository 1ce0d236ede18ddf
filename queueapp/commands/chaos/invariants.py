"""What must hold however much was broken. Pure: evidence in, findings out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from queueapp.commands.chaos.evidence import Event, Evidence
from queueapp.commands.chaos.outside import Line
from queueapp.jobs.status import FINAL, Status
from queueapp.jobs.status import Event as Name

_SHOWN = 5


@dataclass
class Finding:
    """One invariant: whether it holds, with what figures, and the first offenders if not."""

    name: str
    figures: str
    offenders: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nobody offends."""
        return not self.offenders

    @property
    def first(self) -> list[str]:
        """The first offenders, for people."""
        more = len(self.offenders) - _SHOWN
        return self.offenders[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])


def check(evidence: Evidence) -> list[Finding]:
    """Judge all of it."""
    return [invariant(evidence) for invariant in INVARIANTS]


def promises(evidence: Evidence) -> Finding:
    """A job whose creation was acknowledged is there, once, and no other is."""
    counted = Counter(evidence.promised)
    there = {job.id for job in evidence.jobs}
    offenders = [f"job {id} was acknowledged and is gone" for id in sorted(set(counted) - there)]
    offenders += [f"job {id} answers {n} keys" for id, n in counted.items() if n > 1]
    offenders += [f"job {id} was never acknowledged" for id in sorted(there - set(counted))]
    figures = f"{len(evidence.promised)} acknowledged, {len(there)} exist"
    return Finding("every acknowledged job exists, once", figures, offenders)


def answers(evidence: Evidence) -> Finding:
    """Producers hear yes, or that the database is away: nothing else."""
    figures = f"{len(evidence.refused)} others"
    return Finding("producers hear yes or 'not now', nothing else", figures, evidence.refused)


def ends(evidence: Evidence) -> Finding:
    """Every job that was to be created has been, and has come to an end."""
    left = [f"job {job.id} is {job.status}" for job in evidence.jobs if job.status not in FINAL]
    figures = f"{len(evidence.jobs)} created, {len(evidence.jobs) - len(left)} finished"
    missing = evidence.asked - len(evidence.promised)
    late = [f"{missing} jobs could not be created in time: give --settle more"] * (missing > 0)
    return Finding("every job has ended", figures, late + left)


def successes(evidence: Evidence) -> Finding:
    """None of these kinds fails for good by itself: a failed job was failed by a fault."""
    failed = [job for job in evidence.jobs if job.status in (Status.FAILED, Status.CANCELLED)]
    reasons = {event.job: event.reason for event in evidence.events if event.target == "failed"}
    offenders = [
        f"job {job.id} {job.status} ({reasons.get(job.id)}): {job.error_class}: {job.error_message}"
        for job in failed
    ]
    won = sum(job.status == Status.SUCCEEDED for job in evidence.jobs)
    return Finding("no fault fails a job", f"{won} succeeded, {len(failed)} failed", offenders)


def single_ends(evidence: Evidence) -> Finding:
    """One final event a job, and it is what the row says."""
    finals: dict[int, list[str | None]] = defaultdict(list)
    for event in evidence.events:
        if event.target in FINAL and event.source != event.target:
            finals[event.job].append(event.target)
    offenders = [
        f"job {job.id} is {job.status}, its ends: {finals[job.id]}"
        for job in evidence.jobs
        if finals[job.id] != [job.status] * (job.status in FINAL)
    ]
    total = sum(map(len, finals.values()))
    return Finding("no job finished twice", f"{total} final events", offenders)


def starts(evidence: Evidence) -> Finding:
    """By the outside ledger: no attempt began twice, none without or before its claim."""
    claimed: dict[tuple[int, int | None], list[float]] = defaultdict(list)
    for event in evidence.events:
        if event.name == Name.CLAIMED:
            claimed[event.job, event.attempt].append(event.at)
    begun: dict[tuple[int, int | None], list[float]] = defaultdict(list)
    for line in evidence.lines:
        if line.what == "start":
            begun[line.job, line.attempt].append(line.at)
    # An attempt that was given back has its number used again, by another claim.
    offenders = [
        f"job {job}, attempt {attempt}: {len(at)} starts for {len(claimed[job, attempt])} claims"
        for (job, attempt), at in begun.items()
        if len(at) > len(claimed[job, attempt])
    ]
    offenders += [
        f"job {job}, attempt {attempt} began before its claim"
        for (job, attempt), at in begun.items()
        if claimed[job, attempt] and min(at) < min(claimed[job, attempt])
    ]
    total = sum(map(len, begun.values())), sum(map(len, claimed.values()))
    return Finding("no attempt began twice", f"{total[0]} starts, {total[1]} claims", offenders)


def explanations(evidence: Evidence) -> Finding:
    """Between two claims of a job the ledger has an event that took it from its first holder."""
    offenders: list[str] = []
    reasons: Counter[str] = Counter()
    for job, events in _by_job(evidence.events).items():
        held = False
        for event in events:
            if event.name == Name.CLAIMED:
                if held:
                    offenders.append(f"job {job} was claimed again (attempt {event.attempt})")
                held = True
            elif event.source == Status.RUNNING and event.target == Status.QUEUED:
                held = False
                reasons[_why(event)] += 1
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return Finding("every second start is explained", told or "no second start", offenders)


def _why(event: Event) -> str:
    return event.reason or event.name


def overlaps(evidence: Evidence) -> Finding:
    """Runs of one job follow each other, but for holders that had lost their lease."""
    ledger = _by_job(evidence.events)
    offenders, late = [], 0
    for job, runs in _runs(evidence).items():
        for (first, end), (second, _) in pairwise(runs):
            if end is None or second.mono >= end:
                continue
            over = end - second.mono
            taken = _taken(ledger[job], first)
            if taken and taken.name == Name.LEASE_EXPIRED and taken.at < second.at:
                late += 1
            else:
                how = _why(taken) if taken and taken.at < second.at else "nothing in the ledger"
                offenders.append(
                    f"job {job}: attempt {first.attempt} ran on for {over:.3f} s after {how}"
                )
    figures = f"{late} late holders ran on without their lease"
    return Finding("no two holders run one job at once", figures, offenders)


def _taken(events: Iterable[Event], start: Line) -> Event | None:
    """What ended the lease that the run began with; a number is used again after a hand-back."""
    token = None
    for event in events:
        mine = event.attempt == start.attempt and f":{start.pid}:" in event.actor
        if event.name == Name.CLAIMED and mine and event.at <= start.at:
            token = event.token
    own = [event for event in events if event.source == Status.RUNNING and event.token == token]
    return own[0] if token and own else None


def _runs(evidence: Evidence) -> dict[int, list[tuple[Line, float | None]]]:
    """Start and end of each run; a killed process ended its runs, others without end are open."""
    running: dict[tuple[int, str], Line] = {}
    runs: dict[int, dict[Line, float | None]] = defaultdict(dict)
    for line in sorted(evidence.lines, key=lambda line: line.mono):
        thread = (line.pid, line.thread)
        if line.what == "start":
            running[thread] = line
            runs[line.job][line] = evidence.deaths.get(line.pid)
        elif thread in running:
            start = running.pop(thread)
            runs[start.job][start] = line.mono
    return {job: list(own.items()) for job, own in runs.items()}


def audited(evidence: Evidence) -> Finding:
    """The ledger leads to the rows."""
    report = evidence.audit
    named = [f"job {one.job_id}: {one.problem}" for one in report.offenders]
    if report.truncated:
        named.append(f"{report.truncated} histories without a beginning")
    return Finding("flask audit finds nothing", f"{report.events} events", named)


def leases(evidence: Evidence) -> Finding:
    """No lease stays overdue."""
    named = [f"job {id} is held by nobody" for id in evidence.overdue]
    return Finding("no lease is left to a holder that is gone", f"{len(named)} overdue", named)


def processes(evidence: Evidence) -> Finding:
    """A worker ends when it is killed or told to, never by itself."""
    figures = f"{len(evidence.fell)} others"
    return Finding("workers end only when killed or told to", figures, evidence.fell)


def tracebacks(evidence: Evidence) -> Finding:
    """A database that is away is said in a line; a traceback is a fault of ours."""
    figures = f"{len(evidence.tracebacks)} tracebacks"
    return Finding("no process met a fault of its own", figures, evidence.tracebacks)


def connections(evidence: Evidence) -> Finding:
    """As many connections after all that as before."""
    before, after = evidence.connections
    most = evidence.connections_allowed
    named = [f"{after} connections, {most} at most"] if after > most else []
    return Finding("connections are level", f"{before} before, {after} after", named)


INVARIANTS: tuple[Callable[[Evidence], Finding], ...] = (
    promises, answers, ends, successes, single_ends, starts, explanations, overlaps, audited,
    leases, processes, tracebacks, connections,
)  # fmt: skip


def refused_writes(events: Iterable[Event]) -> int:
    """How many late results were refused."""
    return sum(event.name == Name.STALE_WRITE_REJECTED for event in events)


def late_beginnings(evidence: Evidence) -> int:
    """How many runs began without their lease: what a freeze met between the last look at the lease
    and the handler's first line. Claims that merely wait are not begun after one.
    """
    ledger = _by_job(evidence.events)
    starts = [line for line in evidence.lines if line.what == "start"]
    taken = [(_taken(ledger[start.job], start), start) for start in starts]
    return sum(event is not None and event.at < start.at for event, start in taken)


@dataclass(frozen=True)
class Recovery:
    """A lost lease: seconds from its end until a sweeper took it back, and until the next claim."""

    taken_back: float
    run_again: float | None


def recoveries(events: Iterable[Event]) -> list[Recovery]:
    """Every lost lease. By the database's clock; the next claim waits its turn in the queue."""
    found: list[Recovery] = []
    for own in _by_job(events).values():
        for place, event in enumerate(own):
            if event.name == Name.LEASE_EXPIRED and event.lease_end is not None:
                later = own[place + 1 :]
                again = next((one.at for one in later if one.name == Name.CLAIMED), None)
                wait = None if again is None else again - event.lease_end
                found.append(Recovery(event.at - event.lease_end, wait))
    return found


def _by_job(events: Iterable[Event]) -> defaultdict[int, list[Event]]:
    grouped: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        grouped[event.job].append(event)
    return grouped
