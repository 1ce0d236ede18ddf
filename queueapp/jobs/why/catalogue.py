"""The ordered list of rules, each with its meaning and its next step; docs/why.md is made from it.

What the fields of the evidence mean stands in ``FIELDS``, one meaning whatever the rule.
"""

from __future__ import annotations

from queueapp.jobs.why import rules
from queueapp.jobs.why.rules import Rule

_BY_SWITCH = ("by", "since", "reason")
_TRIED = ("attempts", "max_attempts")
_SLOTS = ("slots", "busy")

RULES: tuple[Rule, ...] = (
    Rule(
        "final",
        "It has ended.",
        "None; a failed or cancelled job can be retried.",
        ("ended_at", "by", "reason", *_TRIED, "error_class", "error_message"),
        rules._final,
    ),
    Rule(
        "lease_expired",
        "Its holder said nothing until the lease ran out, or its attempt timed out; it has not"
        " been taken back yet.",
        "Wait for a sweeper; without any worker run `flask jobs sweep`.",
        ("holder", "lease_expires_at", "overdue_s", "timed_out", "live_workers", *_TRIED),
        rules._lease_expired,
    ),
    Rule(
        "running",
        "A worker has it.",
        "Wait; if it runs for much longer than usual, look at the worker's log, or cancel it.",
        (
            *("holder", "holder_is_live", "claimed_at", "started_at", "lease_age_s"),
            *("lease_expires_at", "lease_left_s", "renewed_at", "is_silent", "run_s"),
            *("usual_p95_s", "usual_runs", "times_out_at", "progress", "progress_note"),
            *("cancel_requested_at", *_TRIED),
        ),
        rules._running,
    ),
    Rule(
        "held",
        "Somebody put this one job on hold.",
        "Ask who held it; lifting the hold lets it run.",
        _BY_SWITCH,
        rules._held,
    ),
    Rule(
        "due_later",
        "Its time has not come: it was scheduled, rescheduled, deferred, or waits for a retry."
        " After two attempts that were lost with their workers the step is to find out why.",
        "Wait until it is due.",
        ("available_at", "due_in_s", "moved_by", *_TRIED, "error_class", "handbacks"),
        rules._due_later,
    ),
    Rule(
        "kind_held",
        "Its kind is on hold.",
        "Ask who held the kind; lifting the hold lets it run.",
        ("kind", *_BY_SWITCH, "moved"),
        rules._kind_held,
        blocks=True,
    ),
    Rule(
        "hold_lifted",
        "The hold on its kind is over, and it has not been brought back yet.",
        "Wait; a live worker brings such jobs back, 500 at a time.",
        ("kind", "live_workers"),
        rules._hold_lifted,
    ),
    Rule(
        "queue_paused",
        "The whole queue is paused.",
        "Ask who paused it; resuming the queue lets it run.",
        _BY_SWITCH,
        rules._queue_paused,
        blocks=True,
    ),
    Rule(
        "no_live_worker",
        "No worker that can run jobs has been heard of for 150 seconds, or none of those is"
        " connected to the database.",
        "Start `flask work`.",
        ("last_worker", "last_seen_at", "stopped_at", "stopped_for", "live_without_slots"),
        rules._no_live_worker,
        blocks=True,
    ),
    Rule(
        "no_worker_for_kind",
        "Workers live, and none of them runs this kind.",
        "Start a worker whose `QUEUE_HANDLERS` and `--kinds` include it.",
        ("kind", "live_workers", "live_kinds", "handbacks"),
        rules._no_worker_for_kind,
        blocks=True,
    ),
    Rule(
        "jobs_ahead",
        "Other due jobs are claimed before it: of a higher priority, or due earlier.",
        "Wait, raise its priority, or start more workers.",
        (
            *("ahead", "ahead_is_least", "claims_per_s", "last_claim_s", "estimate_s"),
            *("waiting_s", "priority", *_SLOTS, "handbacks"),
        ),
        rules._jobs_ahead,
    ),
    Rule(
        "slots_busy",
        "Every thread that runs its kind is taken, and nothing is before it, or nothing at all is"
        " claimed any more.",
        "Wait for a thread; look at the longest runner; start more workers.",
        (
            *("workers", *_SLOTS, "longest", "ahead", "ahead_is_least", "last_claim_s"),
            *("waiting_s", "handbacks"),
        ),
        rules._slots_busy,
        blocks=True,
    ),
    Rule(
        "next_in_line",
        "Nothing is in its way.",
        "Wait a moment; if it stays so for long, look at the workers' logs.",
        ("workers", *_SLOTS, "waiting_s", "handbacks"),
        rules._next_in_line,
    ),
)

FIELDS: dict[str, str] = {
    "ahead": "due jobs before it in claim order, exact up to 10,000",
    "ahead_is_least": "there are more than `ahead`",
    "attempts": "claims that count, since it was created or last retried",
    "available_at": "when it is due",
    "busy": "of `slots`, those at work",
    "by": "the actor of the event",
    "cancel_requested_at": "when somebody asked its handler to stop",
    "claimed_at": "when its holder took it",
    "claims_per_s": "claims that were not given back, over the last minutes' statistics;"
    " null: unknown",
    "due_in_s": "seconds until it is due",
    "ended_at": "when it ended",
    "error_class": "the last error",
    "error_message": "its text, the first 500 characters",
    "estimate_s": "seconds until it starts at that rate, if nothing comes before it; at least that"
    " with `ahead_is_least`; null: unknown, or nothing was claimed for longer than the rate allows",
    "handbacks": "attempts given back without being used; from 20 on the sentence says so",
    "holder": "the worker that has it",
    "holder_is_live": "whether that worker has signed within 150 s and is connected; null: it"
    " never has",
    "is_silent": "the lease was not renewed for two thirds of its length; null: unknown",
    "kind": "the job's kind",
    "last_claim_s": "seconds since any job was claimed; null: not known",
    "last_seen_at": "when that worker last signed, since yesterday 00:00 UTC",
    "last_worker": "the worker that was heard of last; null: none",
    "lease_age_s": "seconds since it was claimed",
    "lease_expires_at": "until when the lease reaches",
    "lease_left_s": "seconds until then",
    "live_kinds": "the kinds that live workers run, up to 50",
    "live_without_slots": "live workers that take no jobs (`--concurrency 0`, all threads lost, or"
    " asked to drain)",
    "live_workers": "workers that have signed within 150 s, not stopped, and are connected; for"
    " `no_worker_for_kind` those with threads, else those of `flask work`",
    "longest": "the job that one of those threads has been at for the longest: `id`, `kind`,"
    " `started_at`, `run_s`, `holder`; null to a producer",
    "max_attempts": "how often it may be tried",
    "moved": "the job itself has been moved to held",
    "moved_by": "the event that set `available_at`: `event_id`, `event`, `by`, `reason`, `at`;"
    " null: not among the newest 20",
    "overdue_s": "seconds since the lease ran out",
    "priority": "the job's priority",
    "progress": "0 to 100, what the handler says",
    "progress_note": "its words",
    "reason": "why, in the words of the event",
    "renewed_at": "when the lease was last renewed or taken, from its end and the holder's lease;"
    " null: unknown",
    "run_s": "seconds since its handler began",
    "since": "when that was",
    "slots": "threads of live workers that run the kind; of workers elsewhere, the jobs that they"
    " ask for at once",
    "started_at": "when its handler began; null: claimed ahead of time",
    "stopped_at": "when that worker ended by itself",
    "stopped_for": "why it did",
    "timed_out": "the attempt ran longer than its time-out",
    "times_out_at": "when the attempt times out; null: never, or not begun",
    "usual_p95_s": "95 of 100 runs of the kind in the last two hours ended within this, rounded up"
    " to 2ⁿ ms; null: none",
    "usual_runs": "how many runs that is taken from",
    "waiting_s": "seconds since it was due",
    "workers": "live workers that run the kind",
}
