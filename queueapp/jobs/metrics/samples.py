"""From the verdict, its facts and what was measured to samples. Pure.

Zeros are said: a series that is there only sometimes cannot be alerted on. What is not known is
left out instead, and never told as it was before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any

from queueapp.jobs.metrics.measuring import PARTS, Measured, Statistics
from queueapp.jobs.minute_totals import KIND_EVENTS, OTHER
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.status import CONTROL_EVENTS, Event
from queueapp.jobs.verdict import RULES, Facts, Numbers, Verdict
from queueapp.jobs.verdict.catalogue import HEALTHY, UNKNOWN
from queueapp.jobs.verdict.facts import Head, Line
from queueapp.jobs.verdict.minutes import LATE_S, quantile_s

# The readings of the verdict, by the part of the facts that each makes.
READINGS = {
    "switches": "controls", "workers": "signs", "line": "line", "minutes": "hour",
    "suspects": "suspects", "failures": "groups", "system": "system",
}  # fmt: skip
MOST_PRIORITIES = 20
JOB_EVENTS = tuple(event for event in Event if event not in CONTROL_EVENTS)
QUANTILES = (0.5, 0.95)
_OF_LINES = (
    "queue_arrived_per_minute", "queue_ended_per_minute", "queue_failed_attempts_ratio",
)  # fmt: skip
# Durations up to 2^22 ms, an hour and ten minutes, have a step of their own.
STEPS = range(23)


@dataclass(frozen=True)
class Sample:
    """One number. ``name``: the family's, or with what a histogram adds to it."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scrape:
    """What one answer is made of. ``facts``, ``measured``: None without a reading that holds.

    ``age_s``: of the older reading, None without any; ``head``: the schema that is needed.
    """

    verdict: Verdict
    facts: Facts | None
    measured: Measured | None
    age_s: float | None
    version: str
    head: str | None = None


def samples(scrape: Scrape) -> Iterator[Sample]:
    """All of them; without both readings those of the verdict alone."""
    facts, measured = scrape.facts, scrape.measured
    is_up = facts is not None and measured is not None
    yield Sample("queue_up", is_up)
    yield Sample("queue_reading_age_seconds", _or_nan(scrape.age_s))
    yield Sample("queue_build_info", 1, {"version": scrape.version})
    yield from _of_verdict(scrape.verdict, facts if is_up else None)
    yield from _of_readings(facts if is_up else None, measured if is_up else None)
    if facts is None or measured is None:
        return
    yield from _of_facts(facts)
    yield from _of_counts(measured)
    if measured.statistics is not None:
        yield from _of_statistics(measured.statistics, measured.now)
        yield from _of_totals(measured.statistics.totals)
    yield from _of_database(measured, facts, scrape.head)


def _of_readings(facts: Facts | None, measured: Measured | None) -> Iterator[Sample]:
    unread = {one.reading for one in facts.unread} if facts else set(READINGS)
    ok = {name: name not in unread for name in READINGS}
    ok |= measured.ok if measured else dict.fromkeys(PARTS, False)
    for name, is_ok in ok.items():
        yield Sample("queue_reading_ok", is_ok, {"reading": name})
    yield Sample("queue_readings_failed", sum(not is_ok for is_ok in ok.values()))


def _of_verdict(verdict: Verdict, facts: Facts | None) -> Iterator[Sample]:
    yield Sample("queue_verdict", verdict.level.number)
    for code in (*(rule.code for rule in RULES), UNKNOWN, HEALTHY):
        yield Sample("queue_verdict_rule", verdict.first.rule == code, {"rule": code})
    levels = {finding.rule: finding.level.number for finding in verdict.findings}
    for rule in RULES:
        if facts is not None and all(facts.of(part) is not None for part in rule.needs):
            yield Sample("queue_finding_level", levels.get(rule.code, 0), {"rule": rule.code})


def _of_facts(facts: Facts) -> Iterator[Sample]:
    if facts.line is not None:
        yield from _of_line(facts.line, facts)
    if facts.controls is not None:
        yield Sample("queue_paused", facts.controls.pause is not None)
        yield Sample("queue_kinds_held", len(facts.controls.held_kinds))
    if facts.system is not None:
        yield Sample("queue_ledger_days_ahead", facts.system.days_ahead)
    yield from _of_numbers(Numbers.of(facts), facts)


def _of_numbers(numbers: Numbers, facts: Facts) -> Iterator[Sample]:
    yield Sample("queue_workers_expected", facts.expected_workers)
    told: dict[str, float | None] = {
        "queue_workers_alive": numbers.alive,
        "queue_slots": numbers.slots,
        "queue_slots_busy": _busy(facts),
        "queue_arrived_per_minute": numbers.arrived,
        "queue_ended_per_minute": numbers.ended,
        "queue_failed_attempts_ratio": _failed_share(numbers),
    }
    if numbers.blind_since:
        # It was read, and tells that what has come since is not known.
        told |= dict.fromkeys(_OF_LINES, math.nan)
    yield from (Sample(name, value) for name, value in told.items() if value is not None)


def _failed_share(numbers: Numbers) -> float | None:
    if numbers.attempts is None or numbers.failures is None:
        return None
    return numbers.failures / numbers.attempts if numbers.attempts else 0.0


def _busy(facts: Facts) -> int | None:
    if facts.line is None or facts.signs is None:
        return None
    alive = {worker.holder for worker in facts.signs.live(facts.now)}
    return sum(holding.jobs for holding in facts.line.holders if holding.name in alive)


def _of_line(line: Line, facts: Facts) -> Iterator[Sample]:
    yield Sample("queue_due", sum(min(head.jobs, head.most) for head in line.heads))
    yield Sample("queue_capped", line.is_least, {"count": "due"})
    oldest = line.oldest
    yield Sample("queue_oldest_due_age_seconds", facts.age_s(oldest.at) if oldest else 0.0)
    yield Sample("queue_overdue_leases", line.overdue)
    yield from _of_priorities(line, facts)


def _of_priorities(line: Line, facts: Facts) -> Iterator[Sample]:
    by_priority: dict[str, list[Head]] = {"0": [], OTHER: []}
    for place, head in enumerate(line.heads):
        own = head.priority == 0 or place < MOST_PRIORITIES
        by_priority.setdefault(str(head.priority) if own else OTHER, []).append(head)
    for priority, heads in by_priority.items():
        labels = {"priority": priority}
        due = sum(min(head.jobs, head.most) for head in heads)
        age_s = max((facts.age_s(head.at) for head in heads), default=0.0)
        yield Sample("queue_priority_due", due, labels)
        yield Sample("queue_priority_oldest_due_age_seconds", age_s, labels)


def _of_counts(measured: Measured) -> Iterator[Sample]:
    for status, count in (measured.counts or {}).items():
        yield Sample("queue_jobs", min(count, COUNT_LIMIT), {"status": status.value})
        yield Sample("queue_capped", count > COUNT_LIMIT, {"count": status.value})
    if measured.failed is not None:
        yield Sample("queue_failed_last_hour", min(measured.failed, COUNT_LIMIT))
        is_capped = measured.failed > COUNT_LIMIT
        yield Sample("queue_capped", is_capped, {"count": "failed_last_hour"})


def _of_statistics(told: Statistics, now: datetime) -> Iterator[Sample]:
    age_s = (now - told.at).total_seconds() if told.at else None
    yield Sample("queue_statistics_age_seconds", _or_nan(age_s))
    if told.claim_pages is not None:
        yield Sample("queue_claim_pages", told.claim_pages)
    is_blind = age_s is not None and age_s > LATE_S
    for name, histogram in (("wait", told.waits), ("run", told.runs)):
        for share in QUANTILES:
            value = _or_nan(None if is_blind else quantile_s(histogram, share))
            yield Sample(f"queue_recent_{name}_seconds", value, {"quantile": f"{share:g}"})


def _of_totals(totals: Mapping[str, Any]) -> Iterator[Sample]:
    events = totals.get("events") or {}
    for event in JOB_EVENTS:
        yield Sample("queue_events_total", events.get(event, 0), {"event": event.value})
    yield Sample("queue_retries_total", totals.get("retries") or 0)
    kinds: dict[str, Any] = {OTHER: {"events": {}}, **(totals.get("kinds") or {})}
    for kind, counted in kinds.items():
        for event in KIND_EVENTS:
            labels = {"kind": kind, "event": event.value}
            yield Sample("queue_kind_events_total", counted["events"].get(event, 0), labels)
    for part in ("wait", "run"):
        yield from _of_histogram(f"queue_{part}_seconds", totals.get(part) or {})


def _of_histogram(name: str, buckets: Mapping[str, int]) -> Iterator[Sample]:
    upto = accumulate(buckets.get(str(step), 0) for step in STEPS)
    for step, count in zip(STEPS, upto, strict=True):
        yield Sample(f"{name}_bucket", count, {"le": f"{2**step / 1000}"})
    total = sum(buckets.values())
    yield Sample(f"{name}_bucket", total, {"le": "+Inf"})
    yield Sample(f"{name}_count", total)


def _of_database(measured: Measured, facts: Facts, head: str | None) -> Iterator[Sample]:
    if measured.schema is not None and head is not None:
        yield Sample("queue_schema_ok", list(measured.schema) == [head])
    if facts.system is not None and measured.is_server:
        oldest_s = facts.system.oldest_transaction_s or 0.0
        yield Sample("queue_oldest_transaction_seconds", oldest_s)
    for dead in measured.dead_rows or ():
        yield Sample("queue_dead_rows", dead.rows, {"table": dead.table})
        yield Sample("queue_autovacuum_rows", dead.trigger, {"table": dead.table})
    if measured.connections is not None:
        used, most = measured.connections
        yield Sample("queue_connections", used)
        yield Sample("queue_connections_limit", most)
    if measured.notify is not None:
        yield Sample("queue_notify_ratio", measured.notify)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
