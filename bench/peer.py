"""What the bench must know of a queue to measure it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What a peer runs on, and so what has to be installed for it."""

    OURS = "this product"
    PYTHON = "Python"
    NODE = "Node"


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where a queue keeps its jobs, and how to ask it what became of them.

    ``finished``: a number that grows by one with each job done (where finished rows are deleted,
    the rows that are left, counted below zero). ``unsettled``: jobs in the hands of a worker. On
    PostgreSQL a query, on Redis a command. ``waiting`` and ``history`` fill the tables with {n}
    jobs that wait, or that have ended; None: through the queue's own API, or not at all.
    """

    finished: str
    unsettled: str
    waiting: str | None = None
    history: str | None = None
    # A job enqueued through the API, of which the statements above make copies.
    seed: bool = False
    redis: bool = False


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One queue at one setting. ``jobs`` and ``cap_s`` bound a drain, for the slow ones."""

    name: str
    title: str
    settings: str
    keeps: str
    kind: Kind
    store: Store
    program: str = ""
    package: str = ""
    variant: str = "default"
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    jobs: int = 20_000
    cap_s: float = 8.0
    # What a start needs before it is idle.
    warm_up_s: float = 2.5
    # Too slow for two workers to tell anything.
    two_workers: bool = True
    # Jobs that ran and are not marked done when a drain is cut short by the cap. A worker that
    # stops with grace should have none.
    cut_slack: int = 25
