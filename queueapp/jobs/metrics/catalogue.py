"""Every metric by its name: what it is, in which unit, by which labels; see docs/metrics.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """What a monitoring system may do with it: a counter never falls but when it begins anew."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Family:
    """One metric. ``unit``: empty for numbers without one; ``labels``: every sample has all."""

    name: str
    about: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    type: Type = Type.GAUGE


_ABOUT_NOW = (
    Family("queue_up", "1: the database was read for this answer; 0: it was not, and nothing but"
           " the verdict is told"),
    Family("queue_reading_age_seconds", "how old the readings are that this answer is made of; NaN:"
           " there has been none", "seconds"),
    Family("queue_reading_ok", "0: this reading failed, and what it tells is left out", "",
           ("reading",)),
    Family("queue_readings_failed", "how many readings of this answer failed"),
    Family("queue_build_info", "always 1: the release of the process that answers", "",
           ("version",)),
)  # fmt: skip

_VERDICT = (
    Family("queue_verdict", "0: green, 1: amber, 2: red, 3: unknown"),
    Family("queue_verdict_rule", "1: this rule is the verdict; 0: it is not", "", ("rule",)),
    Family("queue_finding_level", "whether this rule applies, the verdict or not: 0: no, 1: amber,"
           " 2: red; left out where it could not be asked", "", ("rule",)),
)  # fmt: skip

_WAITING = (
    Family("queue_jobs", "jobs by status, up to 10,000 each", "jobs", ("status",)),
    Family("queue_capped", "1: this count came to its bound, there are more", "", ("count",)),
    Family("queue_due", "jobs that could start now, up to 10,000 a priority; of more than 30"
           " priorities up to 300,000 in all", "jobs"),
    Family("queue_oldest_due_age_seconds", "for how long the first job in the line has been due;"
           " 0: none is", "seconds"),
    Family("queue_priority_due", "due jobs of a priority: of 0, and of the 20 highest with any; all"
           " others are `(other)`", "jobs", ("priority",)),
    Family("queue_priority_oldest_due_age_seconds", "for how long the first due job of a"
           " priority has been due; 0: none is", "seconds", ("priority",)),
    Family("queue_paused", "1: the queue is paused"),
    Family("queue_kinds_held", "kinds on hold", "kinds"),
)  # fmt: skip

_WORKING = (
    Family("queue_workers_alive", "workers with threads that have signed within 150 s and not"
           " stopped", "workers"),
    Family("queue_workers_expected", "`QUEUE_EXPECTED_WORKERS`; 0: not set", "workers"),
    Family("queue_slots", "jobs that live workers can run at once", "threads"),
    Family("queue_slots_busy", "running jobs that live workers hold", "threads"),
    Family("queue_overdue_leases", "running jobs whose leases have ended", "jobs"),
    Family("queue_failed_last_hour", "jobs that failed for good within an hour, up to 10,000",
           "jobs"),
    Family("queue_arrived_per_minute", "jobs that were created or retried by a person, over five"
           " minutes; NaN: nothing has been counted for two", "jobs a minute"),
    Family("queue_ended_per_minute", "jobs that ended, over five minutes; NaN: nothing has been"
           " counted for two", "jobs a minute"),
    Family("queue_failed_attempts_ratio", "the part of the attempts within ten minutes that failed;"
           " 0: there were none, NaN: nothing has been counted for two minutes", "0 to 1"),
    Family("queue_recent_wait_seconds", "within how long so many were claimed after they were due,"
           " over five minutes; NaN: none was, or nothing has been counted for two", "seconds",
           ("quantile",)),
    Family("queue_recent_run_seconds", "within how long so many attempts ended, over five minutes;"
           " NaN: none did, or nothing has been counted for two", "seconds", ("quantile",)),
)  # fmt: skip

_COUNTED = (
    Family("queue_events_total", "what has happened to jobs, by event of the ledger", "events",
           ("event",), Type.COUNTER),
    Family("queue_retries_total", "claims of jobs that had been tried before", "events", (),
           Type.COUNTER),
    Family("queue_kind_events_total", "what has happened to jobs of a kind: of 50 kinds, all others"
           " are `(other)`", "events", ("kind", "event"), Type.COUNTER),
    Family("queue_wait_seconds", "how long jobs were due when they were claimed, without `_sum`",
           "seconds", (), Type.HISTOGRAM),
    Family("queue_run_seconds", "how long attempts ran, without `_sum`", "seconds", (),
           Type.HISTOGRAM),
    Family("queue_statistics_age_seconds", "how old the minute's line is that counters, rates and"
           " quantiles come from; NaN: no worker has written one", "seconds"),
)  # fmt: skip

_DATABASE = (
    Family("queue_schema_ok", "1: the schema is the one that this release needs"),
    Family("queue_ledger_days_ahead", "days after today that the ledger has partitions for; -1: not"
           " even today's", "days"),
    Family("queue_claim_pages", "pages that a claim reads to find the next job, as measured with"
           " the minute's line", "pages"),
    Family("queue_oldest_transaction_seconds", "the age of the oldest transaction that keeps dead"
           " rows; 0: there is none", "seconds"),
    Family("queue_dead_rows", "estimated dead rows", "rows", ("table",)),
    Family("queue_autovacuum_rows", "dead rows at which an autovacuum begins", "rows", ("table",)),
    Family("queue_connections", "connections taken, of the limit that is nearest", "connections"),
    Family("queue_connections_limit", "how many there may be of these", "connections"),
    Family("queue_notify_ratio", "how full the server's queue of notifications is", "0 to 1"),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (*_ABOUT_NOW, *_VERDICT, *_WAITING, *_WORKING, *_COUNTED, *_DATABASE)
