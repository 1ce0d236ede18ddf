"""The only writers of ``jobs.status``: one function per verb, split by who calls.

Each is set-based, guards itself in its WHERE clause, locks its rows in id order, leaves out what
somebody else has locked, and writes its ledger lines in the same statement. None commits.
"""

from queueapp.jobs.transitions.bereavement import Death, take_back
from queueapp.jobs.transitions.cloning import Original, clone, original_of
from queueapp.jobs.transitions.holding import (
    Begun,
    Held,
    Progress,
    Renewal,
    adopt,
    begin,
    renew,
    write_progress,
)
from queueapp.jobs.transitions.lost_lease import Expired
from queueapp.jobs.transitions.people import (
    By,
    Moved,
    PersonVerb,
    cancel,
    hold,
    purge,
    put_back,
    release,
    release_claims,
    requeue,
    reschedule,
    restore,
    run_now,
    unhold,
)
from queueapp.jobs.transitions.producer import Enqueued, Json, NewJob, enqueue, enqueue_one
from queueapp.jobs.transitions.retention import Age, Keep, count_old, purge_old
from queueapp.jobs.transitions.settle import (
    Exchange,
    Outcome,
    exchange,
    explain,
    settle,
)
from queueapp.jobs.transitions.single import one, one_unless_there, release_claim
from queueapp.jobs.transitions.sweeper import expire, locked_overdue

__all__ = [
    "Age",
    "Begun",
    "By",
    "Death",
    "Enqueued",
    "Exchange",
    "Expired",
    "Held",
    "Json",
    "Keep",
    "Moved",
    "NewJob",
    "Original",
    "Outcome",
    "PersonVerb",
    "Progress",
    "Renewal",
    "adopt",
    "begin",
    "cancel",
    "clone",
    "count_old",
    "enqueue",
    "enqueue_one",
    "exchange",
    "expire",
    "explain",
    "hold",
    "locked_overdue",
    "one",
    "one_unless_there",
    "original_of",
    "purge",
    "purge_old",
    "put_back",
    "release",
    "release_claim",
    "release_claims",
    "renew",
    "requeue",
    "reschedule",
    "restore",
    "run_now",
    "settle",
    "take_back",
    "unhold",
    "write_progress",
]
