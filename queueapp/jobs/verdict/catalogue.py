"""The ordered list of rules, each with its meaning and its next step; docs/verdict.md has them.

What the fields of the evidence mean stands in ``evidence.py``, one meaning whatever the rule.
"""

from __future__ import annotations

from queueapp.jobs.verdict import absent, ahead, failing, halted, killer, slow
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.rule import Rule

_AMBER, _RED = (Level.AMBER,), (Level.RED,)
_EITHER = (Level.AMBER, Level.RED)
_GROUP = ("error_class", "fingerprint")
_LONGEST = ("longest_id", "longest_kind", "longest_since")
_STUCK = (
    "asked_to_stop", "lock_waits", "lock_pid", "lock_application", "lock_role", "lock_since",
)  # fmt: skip
_OLDEST = ("oldest_due_id", "oldest_due_kind", "oldest_due_at")

# Asked last and first: not in the list, for they are made from the others' answers.
UNKNOWN, HEALTHY = "unknown", "healthy"

RULES: tuple[Rule, ...] = (
    Rule(
        "read_only",
        "Read-only",
        _RED,
        "The database takes no writes, and is no standby: `default_transaction_read_only` is on.",
        "Find out who turned it on and why; then turn it off: `ALTER DATABASE … RESET"
        " default_transaction_read_only`.",
        (),
        (),
        ahead.read_only,
    ),
    Rule(
        "no_workers",
        "No workers",
        _RED,
        "Jobs are due, leases have run out, or workers that are gone hold jobs, and no worker that"
        " can run jobs has been heard of for 150 seconds, or those that have are not connected to"
        " the database, or have lost all their leases since.",
        "Start `flask work`.",
        (
            *("expected_workers", "last_worker", "last_seen_at", "stopped_at", "stopped_for"),
            *("live_without_slots", "due", "oldest_due_at", "overdue_leases", "running"),
        ),
        ("signs", "line"),
        halted.no_workers,
    ),
    Rule(
        "paused",
        "Paused",
        _EITHER,
        "The queue is paused or a kind is on hold (titled *On hold* where the queue runs), and jobs"
        " are due behind it; red once the oldest is due for longer than `paused`.",
        "Lift the hold when the reason is gone.",
        ("paused_by", "paused_at", "reason", "due", "held_kinds", "held_due", "oldest_due_at"),
        ("controls", "line"),
        halted.paused,
    ),
    Rule(
        "stalled",
        "Stalled",
        _RED,
        "The first job that a live worker could run is due for longer than `stalled`, and no"
        " attempt has ended within `quiet`; not while every thread is busy with a run no longer"
        " than three times the p95 of its kind. The clock starts anew with a resume, a lifted hold"
        " and the first worker.",
        "Look at the longest runs, and cancel what is stuck.",
        (
            *(*_OLDEST, "due", "last_end_at", "running", "slots", *_LONGEST),
            *("oldest_transaction_s", *_STUCK),
        ),
        ("controls", "line"),
        halted.stalled,
    ),
    Rule(
        "wedged",
        "Wedged",
        _EITHER,
        "Jobs run, no attempt has ended within `wedged`, and each of them has run for longer than"
        " that and than three times the p95 of its kind; amber where no run of the last two hours"
        " tells what is usual.",
        "Look at the longest runs; cancel them, or release those of a dead worker.",
        ("running", "last_end_at", *_LONGEST, "usual_p95_s", *_STUCK),
        ("line", "hour"),
        halted.wedged,
    ),
    Rule(
        "worker_killer",
        "Worker killer",
        _EITHER,
        "A job ran in two workers or more when they vanished, the last of them within the hour, and"
        " has never failed with an error; amber once every such job has ended failed.",
        "Hold or cancel the job before it takes the next worker.",
        ("job_id", "kind", "status", "times", "holders", "last_at", "more_jobs"),
        ("suspects", "signs"),
        killer.worker_killer,
    ),
    Rule(
        "retry_storm",
        "Retry storm",
        _EITHER,
        "More than `retries` of the starts of five minutes are retries, of `least` starts at the"
        " least; red from `retries_red` on, unless the kind with most is on hold. Those of kinds"
        " that fail no more count for nothing. What was done about it is told, and is amber, as"
        " with *failing*.",
        "Hold the kind until what it needs is back; lifting the hold can spread its retries.",
        ("starts", "retries", "kind", *_GROUP, "clears_at"),
        ("hour",),
        failing.retry_storm,
    ),
    Rule(
        "failing",
        "Failing",
        _EITHER,
        "More than `failing` of the attempts that ended within ten minutes failed, of `least`"
        " attempts at the least; red from `failing_red` on, unless the kind with most is on hold."
        " Those of a kind that fails no more count for nothing: since the last minute in which more"
        " than `failing` of its attempts did, `least` have ended, or as many as failed, and half as"
        " large a part of them failed at the most. From a quarter of that on it is amber, and once"
        " no job is left that failed so or waits for a retry, all of them were retried and have not"
        " run since, or its hold was lifted and no line tells yet that it fails again.",
        "Look at the first group of errors.",
        (
            *("attempts", "failures", "kind", *_GROUP, "new_since_deploy", "deployed_at"),
            *("failing_until", "attempts_since", "clears_at"),
        ),
        ("hour",),
        failing.failing,
    ),
    Rule(
        "no_worker_for_kind",
        "No worker for a kind",
        _AMBER,
        "The first job of a priority is due for longer than `starving`, or workers have handed a"
        " job back for longer than that, and no live worker runs its kind.",
        "Start a worker whose `QUEUE_HANDLERS` and `--kinds` include it.",
        ("job_id", "kind", "oldest_due_at", "handbacks", "live_workers"),
        ("controls", "signs", "line"),
        slow.no_worker_for_kind,
    ),
    Rule(
        "starving",
        "Starving",
        _AMBER,
        "The first job of a priority that a live worker could run is due for longer than"
        " `starving`, while a higher priority goes on, and no pause or hold was lifted meanwhile.",
        "Raise its priority, or start more workers.",
        ("priority", *_OLDEST, "due", "higher_priority"),
        ("controls", "line"),
        slow.starving,
    ),
    Rule(
        "falling_behind",
        "Falling behind",
        _AMBER,
        "For ten minutes more jobs have come than ended, and the oldest is due for longer than"
        " `stalled` and than 95 of 100 waited five to ten minutes ago; no pause or hold was lifted"
        " meanwhile. Not beside *stalled* or *no workers*.",
        "Start more workers; or find out who creates so many, and hold or cancel what came.",
        ("arrived", "kind", "ended", "due", "oldest_due_at", "wait_p95_before_s", "drain_s"),
        ("controls", "line", "hour"),
        slow.falling_behind,
    ),
    Rule(
        "stale_worker",
        "Stale worker",
        _AMBER,
        "A worker holds jobs, and has stopped, is not connected to the database any more, or has"
        " renewed no lease for two thirds of its length.",
        "Wait until its leases end, or release its jobs if it is certainly dead.",
        (
            *("holder", "jobs", "renewed_at", "first_lease_ends_at", "last_lease_ends_at"),
            *("silent_workers", "other_workers"),
        ),
        ("signs", "line"),
        absent.stale_worker,
    ),
    Rule(
        "few_workers",
        "Workers missing",
        _AMBER,
        "Fewer workers live than `QUEUE_EXPECTED_WORKERS`.",
        "Look why they ended, and start them.",
        ("live_workers", "expected_workers", "last_worker"),
        ("signs",),
        absent.few_workers,
    ),
    Rule(
        "ledger_ends",
        "Ledger ends",
        _AMBER,
        "The ledger has partitions for fewer than three days ahead.",
        "Keep one `flask work` running: it makes them.",
        ("days_ahead",),
        ("system",),
        ahead.ledger_ends,
    ),
    Rule(
        "old_transaction",
        "Old transaction",
        _AMBER,
        "A transaction has been open for half an hour, as far as they can be seen: one of this"
        " database, or one of another that has written something.",
        "Find out whose it is (`pg_stat_activity`, `pg_prepared_xacts`), and end it.",
        ("oldest_transaction_s",),
        ("system",),
        ahead.old_transaction,
    ),
)

# The two that are no rules of the list.
ENDS: dict[str, tuple[str, str, str]] = {
    UNKNOWN: (
        "Unknown",
        "Something could not be read, took longer than 2 s, or what was read is older than 15 s; it"
        " gives way to a red rule that what was read is enough for, and to nothing else.",
        "Look at the database; what could be read stands below.",
    ),
    HEALTHY: ("Healthy", "None of the rules applies, and all of them could be asked.", "None."),
}
