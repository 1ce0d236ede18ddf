"""Roles, permissions and the table that joins them. Pure."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a principal is. A person's role contains the one before it; a token has any of them."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    PRODUCER = "producer"
    WORKER = "worker"


# Those of people; producer and worker are for programs.
PEOPLE = (Role.VIEWER.value, Role.OPERATOR.value, Role.ADMIN.value)


class Permission(StrEnum):
    """What a route needs; every route declares exactly one."""

    READ = "read"  # every job, payloads and errors included, and the state of the queue
    READ_OWN = "read_own"  # READ, or else only the jobs one has produced oneself
    READ_KINDS = "read_kinds"  # which kinds there are, and what each takes
    PRODUCE = "produce"  # create jobs
    CANCEL = "cancel"  # ACT, or else only the jobs one has produced oneself
    ACT = "act"  # move any job: retry, hold, reschedule, release
    ADMIN = "admin"  # what cannot be undone
    WORK = "work"  # lease jobs and settle them


# What a permission lets its holder do, behind "may not".
ABOUT: dict[Permission, str] = {
    Permission.READ: "look at all jobs",
    Permission.READ_OWN: "look at jobs",
    Permission.READ_KINDS: "look at the kinds",
    Permission.PRODUCE: "create jobs",
    Permission.CANCEL: "cancel jobs",
    Permission.ACT: "change jobs or the queue",
    Permission.ADMIN: "do what cannot be undone",
    Permission.WORK: "run jobs",
}

_MANY = {Role.VIEWER: "viewers", Role.OPERATOR: "operators", Role.ADMIN: "admins"}

# How many jobs one operation of an operator may move; an admin may move all.
MOST_JOBS = 10_000

_OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
_READERS = _OPERATORS | {Role.VIEWER}

GRANTS: dict[Permission, frozenset[Role]] = {
    Permission.READ: _READERS,
    Permission.READ_OWN: _READERS | {Role.PRODUCER},
    Permission.READ_KINDS: frozenset(Role),
    Permission.PRODUCE: _OPERATORS | {Role.PRODUCER},
    Permission.CANCEL: _OPERATORS | {Role.PRODUCER},
    Permission.ACT: _OPERATORS,
    Permission.ADMIN: frozenset({Role.ADMIN}),
    Permission.WORK: frozenset({Role.ADMIN, Role.WORKER}),
}


def people_who_may(permission: Permission) -> str:
    """The roles of people that grant it, in words: ``operators and admins``."""
    *others, last = (many for role, many in _MANY.items() if role in GRANTS[permission])
    return f"{', '.join(others)} and {last}" if others else last
