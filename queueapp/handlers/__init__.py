"""Handlers: the registry, what a handler may ask for, the producers' ``enqueue``, built-in kinds.

Knows the domain below and nothing of Flask, HTTP, the worker or the environment: ``create_app``
hands the settings over as a ``Policy``.
"""

from __future__ import annotations

from queueapp.handlers.clone import clone
from queueapp.handlers.context import Defer, Fail, JobContext, Progress, Retry, Stop
from queueapp.handlers.enqueue import (
    Enqueued,
    check,
    conflict_detail,
    enqueue,
    enqueue_checked,
    enqueue_many,
    enqueue_one_checked,
)
from queueapp.handlers.policy import Policy, configure, current
from queueapp.handlers.registry import Handler, find, handler, kinds, load
from queueapp.handlers.request import EnqueueRequest

__all__ = [
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
    "check",
    "clone",
    "configure",
    "conflict_detail",
    "current",
    "enqueue",
    "enqueue_checked",
    "enqueue_many",
    "enqueue_one_checked",
    "find",
    "handler",
    "kinds",
    "load",
]
