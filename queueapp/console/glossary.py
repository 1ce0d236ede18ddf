"""The words of the console, one line each: where jobs stand, and what people can do.

The page /help shows them; a test holds them against the statuses and the verbs that there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from queueapp.jobs.queries import Did, View
from queueapp.jobs.status import Status

# In the order of a job's life; the views are parts of queued.
STATUSES: Mapping[Status | View, str] = {
    Status.QUEUED: "it waits for a worker, or for its time",
    View.DUE: "queued, and its time has come: the next free worker takes it",
    View.SCHEDULED: "queued, for a later time; what is to be retried is among them",
    View.RETRYING: "scheduled, after an attempt that failed: it waits out its backoff",
    Status.RUNNING: "a worker has it, under a lease that it renews",
    Status.HELD: "parked by a person, by itself or with its kind; nothing starts it",
    Status.SUCCEEDED: "over: its handler returned",
    Status.FAILED: "over: its attempts are used up, or another one would not help",
    Status.CANCELLED: "over: somebody cancelled it before it could succeed",
}

VERBS: Mapping[Did, str] = {
    Did.RETRY: "a failed or cancelled job runs again now, with all its attempts; its history stays",
    Did.CANCEL: "a waiting job never runs; a running one is asked to stop at its next check, and"
    " nothing is killed",
    Did.HOLD: "a queued job is parked where it is, until somebody lifts the hold",
    Did.UNHOLD: "a held job is back in the line",
    Did.RESCHEDULE: "its priority or the time when it is due changes",
    Did.RELEASE: "a running job is taken from a worker that is dead: another may start it. If the"
    " first one lives, the job may run twice",
    Did.CLONE: "a new job of the same kind, payload and limits, due now; both lead to each other,"
    " and the old one stays as it is",
    Did.PURGE: "jobs that are over are removed for good, one by one or all that match, by an admin;"
    " what happened to them stays in the ledger. There is no undo",
    Did.PAUSE: "nothing new starts in the whole queue; what runs goes on",
    Did.RESUME: "the pause is over",
    Did.HOLD_KIND: "nothing new of a kind starts; its waiting jobs are parked",
    Did.UNHOLD_KIND: "the hold on a kind is over, and its jobs are back in the line",
    Did.DRAIN: "a worker takes no new job, finishes what it runs, and ends",
    Did.PLAN: "one verb over all jobs that a filter finds, counted first; nothing moves yet",
    Did.BEGIN: "a plan is confirmed, or somebody goes on with what another has begun: jobs move",
    Did.STOP: "an operation moves nothing more; what is done stays done",
    Did.FINISH: "an operation has been through all that it was planned for",
    Did.RUN_NOW: "many waiting jobs are due at once; one by one it is a reschedule. Their priority"
    " stays",
    Did.UNDO: "what an operation did is taken back, as far as nothing has happened since",
    Did.CANARY: "“Retry 5 first”: five failed jobs are retried, and the rest follows only if four"
    " of them succeed",
}

# What verbs are called on their buttons, where that is not their name.
NAMES: Mapping[Did, str] = {Did.CANARY: "retry 5 first"}
