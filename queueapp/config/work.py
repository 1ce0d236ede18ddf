"""What runs jobs: handlers and the processes of ``flask work``."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.config.readers import (
    duration,
    kinds,
    names,
    one_of,
    positive_duration,
    size,
    switch,
    up_to_a_day,
    whole,
)
from queueapp.config.setting import setting

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What runs jobs: handlers and the processes of ``flask work``."""

    handlers: tuple[str, ...] = setting(
        "QUEUE_HANDLERS", "", names,
        "Python modules with `@handler` functions, comma-separated; imported at start.",
    )  # fmt: skip
    external_kinds: tuple[str, ...] = setting(
        "QUEUE_EXTERNAL_KINDS", "", kinds,
        "Kinds that other programs run: accepted at enqueue, never claimed by `flask work`.",
    )  # fmt: skip
    accept_unknown_kinds: bool = setting(
        "QUEUE_ACCEPT_UNKNOWN_KINDS", "0", switch,
        "Accept jobs of kinds that no handler here knows (they wait for a worker that does).",
    )  # fmt: skip
    http_allowed_hosts: tuple[str, ...] = setting(
        "QUEUE_HTTP_ALLOWED_HOSTS", "", names,
        "Hosts that `http.request` may call: `api.example.com`, `*.example.com`, with `:port` to"
        " name one. Empty: none, and a worker leaves the kind to workers that may.",
    )  # fmt: skip
    http_allow_private: bool = setting(
        "QUEUE_HTTP_ALLOW_PRIVATE", "0", switch,
        "Let `http.request` reach loopback and private addresses of its allowed hosts.",
    )  # fmt: skip
    concurrency: int = setting(
        "QUEUE_CONCURRENCY", "10", whole(0, 500),
        "Handler threads of one `flask work`; 0 runs sweeper and housekeeping only.",
    )  # fmt: skip
    processes: int = setting(
        "QUEUE_PROCESSES", "1", whole(1, 64),
        "Worker processes of one `flask work`; with more than one a supervisor restarts those that"
        " die.",
    )  # fmt: skip
    prefetch: int = setting(
        "QUEUE_PREFETCH", "500", whole(0, 500),
        "How many claims a worker may hold beyond its free threads, while all its jobs are short.",
    )  # fmt: skip
    lease: float = setting(
        "QUEUE_LEASE", "60s", up_to_a_day,
        "How long a claim lasts unless renewed; renewed every third of it. 1s to 1d.",
    )  # fmt: skip
    job_timeout: float = setting(
        "QUEUE_JOB_TIMEOUT", "1h", duration,
        "Longest run of an attempt whose job names no timeout; 0 means no limit.",
    )  # fmt: skip
    max_attempts: int = setting(
        "QUEUE_MAX_ATTEMPTS", "5", whole(1, 10_000),
        "Attempts of a job when neither the job nor its handler says.",
    )  # fmt: skip
    backoff_base: float = setting(
        "QUEUE_BACKOFF_BASE", "5s", positive_duration,
        "Wait before the second attempt; doubled for each further one.",
    )  # fmt: skip
    backoff_cap: float = setting(
        "QUEUE_BACKOFF_CAP", "1h", positive_duration,
        "Longest wait between two attempts, before the jitter of 20 %.",
    )  # fmt: skip
    max_handbacks: int = setting(
        "QUEUE_MAX_HANDBACKS", "1000", whole(1, 1_000_000),
        "How often a job may be given back without using an attempt before it fails.",
    )  # fmt: skip
    grace: float = setting(
        "QUEUE_GRACE", "25s", duration,
        "How long a stopping worker waits for running handlers; keep it below the platform's kill.",
    )  # fmt: skip
    poll: float = setting(
        "QUEUE_POLL", "1.5s", positive_duration,
        "How often a worker looks at the queue when nothing wakes it; pauses and holds are heeded"
        " within this time.",
    )  # fmt: skip
    max_jobs: int = setting(
        "QUEUE_MAX_JOBS", "0", whole(0, 1_000_000_000),
        "Replace a worker process after about so many jobs (± 10 %); 0: never.",
    )  # fmt: skip
    max_rss: int = setting(
        "QUEUE_MAX_RSS", "0", size,
        "Replace a worker process that uses more memory than this, such as 512MB; 0: never.",
    )  # fmt: skip
    release: str = setting(
        "QUEUE_RELEASE", "", str,
        "Name of the deployed release, shown with each worker; without it no deploy is told.",
    )  # fmt: skip
    log_level: str = setting(
        "JOB_WORKER_LOG_LEVEL", "INFO", one_of(*LOG_LEVELS),
        "How much a worker says: INFO is one line a job, DEBUG every poll, claim and renewal.",
    )  # fmt: skip
