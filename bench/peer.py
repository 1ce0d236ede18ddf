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

    ``finished`` counts the jobs that are done; where their rows are deleted it is None, and
    ``left`` counts those that are not. ``unsettled`` counts the ones in the hands of a worker. On
    PostgreSQL each is a query, on Redis a command. ``waiting`` and ``history`` fill the tables with
    {n} jobs that wait, or that have ended; without ``waiting`` the queue's own API does it, and
    ``no_history`` says why there is no ``history``.
    """

    unsettled: str
    finished: str | None = None
    left: str | None = None
    waiting: str | None = None
    history: str | None = None
    no_history: str = ""
    # One job enqueued through the API, of which the statements above make copies.
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
    # Those that say something of this setting; what it shares with another is measured there.
    workloads: tuple[str, ...] = ("w1", "w3", "w3b", "w4", "w5", "w6")
    # What a start needs before it is idle.
    warm_up_s: float = 2.5
    # Jobs that ran and are not marked done when a drain is cut short by the cap. A worker that
    # stops with grace should have none.
    cut_slack: int = 25
