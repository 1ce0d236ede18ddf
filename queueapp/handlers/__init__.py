"""Handlers: the registry, what a handler may ask for, the producers' ``enqueue``, built-in kinds.

Knows the domain below and nothing of Flask, HTTP, the worker or the environment: ``create_app``
hands the settings over as a ``Policy``.
"""

from __future__ import annotations

from queueapp.handlers.clone import clone
from queueapp.handlers.context import Defer, Fail, JobContext, Progress, Retry, Stop, StopReason
from queueapp.handlers.enqueue import (
    Enqueued,
    check,
    conflict_detail,
    enqueue,
    enqueue_checked,
    enqueue_many,
    enqueue_one,
    enqueue_one_checked,
)
from queueapp.handlers.policy import Policy, configure, current
from queueapp.handlers.registry import Handler, find, handler, kinds, load
from queueapp.handlers.request import NOT_SENT, EnqueueRequest
from queueapp.handlers.request_hash import differing_fields

__all__ = [
    "NOT_SENT",
    "Defer",
    "EnqueueRequest",
    "Enqueued",
    "Fail",
    "Handler",
    "JobContext",
    "Policy",
    "Progress",
    "Retry",
    "Stop",
    "StopReason",
    "check",
    "clone",
    "configure",
    "conflict_detail",
    "current",
    "differing_fields",
    "enqueue",
    "enqueue_checked",
    "enqueue_many",
    "enqueue_one",
    "enqueue_one_checked",
    "find",
    "handler",
    "kinds",
    "load",
]
