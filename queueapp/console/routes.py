"""Every address of the console: importing a page hangs its routes on the blueprint."""

from __future__ import annotations

from queueapp.console.actions import (
    act,
    act_on_many,
    ask,
    ask_many,
    ask_purge,
    purge,
)
from queueapp.console.audit import audit, audit_csv, audit_ndjson
from queueapp.console.blueprint import bp
from queueapp.console.clone import ask_clone, clone
from queueapp.console.drain import ask_drain, drain
from queueapp.console.errors import error_group, errors, plan_for_group
from queueapp.console.events import events, events_csv, events_ndjson
from queueapp.console.go import go
from queueapp.console.help import help_page
from queueapp.console.job import job
from queueapp.console.job_files import jobs_csv, jobs_ndjson
from queueapp.console.jobs import jobs
from queueapp.console.kinds import kind, kinds
from queueapp.console.login import login, sign_in, sign_out
from queueapp.console.now import now
from queueapp.console.operation_list import operations_page
from queueapp.console.operations import (
    apply_operation,
    count_operation,
    operation,
    stop_operation,
)
from queueapp.console.planning import new_operation, plan_operation, undo_operation
from queueapp.console.release import ask_release, release
from queueapp.console.reschedule import ask_reschedule, reschedule
from queueapp.console.settings import choose, settings
from queueapp.console.switches import (
    ask_kind,
    ask_pause,
    ask_resume,
    pause_queue,
    resume_queue,
    switch_kind,
)
from queueapp.console.system import system
from queueapp.console.workers import worker, workers_page

__all__ = [
    "act",
    "act_on_many",
    "apply_operation",
    "ask",
    "ask_clone",
    "ask_drain",
    "ask_kind",
    "ask_many",
    "ask_pause",
    "ask_purge",
    "ask_release",
    "ask_reschedule",
    "ask_resume",
    "audit",
    "audit_csv",
    "audit_ndjson",
    "bp",
    "choose",
    "clone",
    "count_operation",
    "drain",
    "error_group",
    "errors",
    "events",
    "events_csv",
    "events_ndjson",
    "go",
    "help_page",
    "job",
    "jobs",
    "jobs_csv",
    "jobs_ndjson",
    "kind",
    "kinds",
    "login",
    "new_operation",
    "now",
    "operation",
    "operations_page",
    "pause_queue",
    "plan_for_group",
    "plan_operation",
    "purge",
    "release",
    "reschedule",
    "resume_queue",
    "settings",
    "sign_in",
    "sign_out",
    "stop_operation",
    "switch_kind",
    "system",
    "undo_operation",
    "worker",
    "workers_page",
]
