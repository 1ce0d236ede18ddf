"""Settings: read from the environment, checked, the bad one named.

``Settings`` is the one table of them; ``docs/settings.md`` is made from it and a test compares the
two. Durations take a plain number of seconds or a number with a unit: ``90``, ``90s``, ``5m``,
``1h``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from queueapp.database_address import database_url
from queueapp.errors import SettingError
from queueapp.jobs.verdict import Thresholds
from queueapp.setting_readers import (
    Network,
    a_day_at_least,
    duration,
    header,
    kinds,
    names,
    networks,
    one_of,
    positive_duration,
    rate_store,
    secret_key,
    size,
    switch,
    thresholds,
    up_to_a_day,
    up_to_a_year,
    whole,
)

# A count of what waits reads so many entries of an index at most.
MOST_WAITING = 1_000_000
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _setting(
    env: str, default: str, read: Callable[[str], Any], about: str, *, secret: bool = False
) -> Any:
    """One setting; neither a message nor a printed ``Settings`` shows a secret one."""
    meta = {"env": env, "default": default, "read": read, "about": about, "secret": secret}
    return field(metadata=meta, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting of the product, in the order of the documentation."""

    database_url: str = _setting(
        "DATABASE_URL", "", database_url,
        "The PostgreSQL database. Several hosts (`//user:pw@h1,h2/db`): the one that takes writes."
        " Empty: a local PostgreSQL under `instance/` is started, or reused (not in production)."
        " `sqlite:////path/to/file`: see docs/sqlite.md.",
        secret=True,
    )  # fmt: skip
    env: str = _setting(
        "QUEUE_ENV", "development", one_of("development", "production"),
        "`production` refuses to start without `DATABASE_URL`; so does a Heroku dyno.",
    )  # fmt: skip
    handlers: tuple[str, ...] = _setting(
        "QUEUE_HANDLERS", "", names,
        "Python modules with `@handler` functions, comma-separated; imported at start.",
    )  # fmt: skip
    external_kinds: tuple[str, ...] = _setting(
        "QUEUE_EXTERNAL_KINDS", "", kinds,
        "Kinds that other programs run: accepted at enqueue, never claimed by `flask work`.",
    )  # fmt: skip
    accept_unknown_kinds: bool = _setting(
        "QUEUE_ACCEPT_UNKNOWN_KINDS", "0", switch,
        "Accept jobs of kinds that no handler here knows (they wait for a worker that does).",
    )  # fmt: skip
    concurrency: int = _setting(
        "QUEUE_CONCURRENCY", "10", whole(0, 500),
        "Handler threads of one `flask work`; 0 runs sweeper and housekeeping only.",
    )  # fmt: skip
    processes: int = _setting(
        "QUEUE_PROCESSES", "1", whole(1, 64),
        "Worker processes of one `flask work`; with more than one a supervisor restarts those that"
        " die.",
    )  # fmt: skip
    max_jobs: int = _setting(
        "QUEUE_MAX_JOBS", "0", whole(0, 1_000_000_000),
        "Replace a worker process after about so many jobs (± 10 %); 0: never.",
    )  # fmt: skip
    max_rss: int = _setting(
        "QUEUE_MAX_RSS", "0", size,
        "Replace a worker process that uses more memory than this, such as 512MB; 0: never.",
    )  # fmt: skip
    lease: float = _setting(
        "QUEUE_LEASE", "60s", up_to_a_day,
        "How long a claim lasts unless renewed; renewed every third of it. 1s to 1d.",
    )  # fmt: skip
    grace: float = _setting(
        "QUEUE_GRACE", "25s", duration,
        "How long a stopping worker waits for running handlers; keep it below the platform's kill.",
    )  # fmt: skip
    poll: float = _setting(
        "QUEUE_POLL", "1.5s", positive_duration,
        "How often a worker looks at the queue when nothing wakes it; pauses and holds are heeded"
        " within this time.",
    )  # fmt: skip
    prefetch: int = _setting(
        "QUEUE_PREFETCH", "500", whole(0, 500),
        "How many claims a worker may hold beyond its free threads, while all its jobs are short.",
    )  # fmt: skip
    job_timeout: float = _setting(
        "QUEUE_JOB_TIMEOUT", "1h", duration,
        "Longest run of an attempt whose job names no timeout; 0 means no limit.",
    )  # fmt: skip
    max_waiters: int = _setting(
        "QUEUE_MAX_WAITERS", "0", whole(0, 500),
        "How many requests of a web process may wait at once, a thread each; 0: a quarter of"
        " `WEB_THREADS`.",
    )  # fmt: skip
    max_attempts: int = _setting(
        "QUEUE_MAX_ATTEMPTS", "5", whole(1, 10_000),
        "Attempts of a job when neither the job nor its handler says.",
    )  # fmt: skip
    backoff_base: float = _setting(
        "QUEUE_BACKOFF_BASE", "5s", positive_duration,
        "Wait before the second attempt; doubled for each further one.",
    )  # fmt: skip
    backoff_cap: float = _setting(
        "QUEUE_BACKOFF_CAP", "1h", positive_duration,
        "Longest wait between two attempts, before the jitter of 20 %.",
    )  # fmt: skip
    max_handbacks: int = _setting(
        "QUEUE_MAX_HANDBACKS", "1000", whole(1, 1_000_000),
        "How often a job may be given back without using an attempt before it fails.",
    )  # fmt: skip
    keep_succeeded: float = _setting(
        "QUEUE_KEEP_SUCCEEDED", "7d", positive_duration,
        "How long a succeeded job's row is kept after its end; its history stays in the ledger.",
    )  # fmt: skip
    keep_failed: float = _setting(
        "QUEUE_KEEP_FAILED", "90d", positive_duration,
        "The same for a failed job.",
    )  # fmt: skip
    keep_cancelled: float = _setting(
        "QUEUE_KEEP_CANCELLED", "30d", positive_duration,
        "The same for a cancelled job.",
    )  # fmt: skip
    keep_ledger: float = _setting(
        "QUEUE_KEEP_LEDGER", "90d", a_day_at_least,
        "How long the ledger is kept, by whole days in UTC; a day at least.",
    )  # fmt: skip
    idempotency_days: int = _setting(
        "QUEUE_IDEMPOTENCY_DAYS", "7", whole(1, 3650),
        "How many days an idempotency key is remembered at least after its job's end.",
    )  # fmt: skip
    pooler: bool = _setting(
        "QUEUE_POOLER", "0", switch,
        "The database is reached through a transaction pooler: no session settings, no prepared"
        " statements, no LISTEN.",
    )  # fmt: skip
    connect_timeout: float = _setting(
        "QUEUE_CONNECT_TIMEOUT", "4s", positive_duration,
        "Longest wait for a new database connection, shared by the hosts of the address"
        " (two seconds each at least).",
    )  # fmt: skip
    web_query_timeout: float = _setting(
        "QUEUE_WEB_QUERY_TIMEOUT", "5s", positive_duration,
        "Longest database statement of the API and the console; then the answer is a 503.",
    )  # fmt: skip
    work_query_timeout: float = _setting(
        "QUEUE_WORK_QUERY_TIMEOUT", "30s", positive_duration,
        "Longest statement of a worker's hot path; four times that for its housekeeping.",
    )  # fmt: skip
    lock_timeout: float = _setting(
        "QUEUE_LOCK_TIMEOUT", "3s", positive_duration,
        "Longest wait for a lock that somebody else holds; handlers' sessions wait as they like.",
    )  # fmt: skip
    network_timeout: float = _setting(
        "QUEUE_NETWORK_TIMEOUT", "20s", positive_duration,
        "When a peer that acknowledges no packet counts as gone.",
    )  # fmt: skip
    idle_timeout: float = _setting(
        "QUEUE_IDLE_TIMEOUT", "5m", positive_duration,
        "When the server closes a connection that web or handlers do not use: others may need it.",
    )  # fmt: skip
    expected_workers: int = _setting(
        "QUEUE_EXPECTED_WORKERS", "0", whole(0, 10_000),
        "How many worker processes there should be; fewer are told of; 0: any number is fine.",
    )  # fmt: skip
    verdict: Thresholds = _setting(  # noqa: RUF009
        "QUEUE_VERDICT", "", thresholds,
        "Thresholds of the verdict that differ from the defaults: `stalled=5m failing=30%`; see"
        " docs/verdict.md.",
    )  # fmt: skip
    release: str = _setting(
        "QUEUE_RELEASE", "", str,
        "Name of the deployed release, shown with each worker.",
    )  # fmt: skip
    tokens: str = _setting(
        "QUEUE_TOKENS", "", str,
        "API tokens, separated by white space: `name:role:sha256-of-the-token`, with limits behind"
        " (`:kinds=a.b,c:priority=5:rate=100/s`); `flask token new` makes them.",
        secret=True,
    )  # fmt: skip
    tokens_file: str = _setting(
        "QUEUE_TOKENS_FILE", "", str,
        "A file with further entries of the same form, and comments behind `#`; read at start.",
    )  # fmt: skip
    rate_store: str = _setting(
        "QUEUE_RATE_STORE", "", rate_store,
        "Where the rates of tokens are counted. Empty: each web process by itself. `redis://…`: all"
        " together (needs the package `redis`).",
        secret=True,
    )  # fmt: skip
    soft_limit: int = _setting(
        "QUEUE_SOFT_LIMIT", "0", whole(0, MOST_WAITING),
        "From so many queued jobs on, answers of the API that create jobs say"
        " `Queue-Estimated-Wait`; 0: never.",
    )  # fmt: skip
    hard_limit: int = _setting(
        "QUEUE_HARD_LIMIT", "0", whole(0, MOST_WAITING),
        "How many jobs may be queued, due and scheduled: beyond, the API answers 429 `queue_full`;"
        " 0: no limit.",
    )  # fmt: skip
    users: str = _setting(
        "QUEUE_USERS", "", str,
        "People who sign in to the console, separated by white space: `name:role:password-hash`, as"
        " `flask user new` prints it. Keep it between single quotes: a hash has `$` signs.",
        secret=True,
    )  # fmt: skip
    users_file: str = _setting(
        "QUEUE_USERS_FILE", "", str,
        "A file with further entries of the same form, and comments behind `#`; read at start.",
    )  # fmt: skip
    secret_key: str = _setting(
        "QUEUE_SECRET_KEY", "", secret_key,
        "Signs the sessions; 32 characters at least. Empty: made from the people's entries, so that"
        " any change of those ends all sessions.",
        secret=True,
    )  # fmt: skip
    session_length: float = _setting(
        "QUEUE_SESSION_LENGTH", "12h", up_to_a_year,
        "How long after signing in a person has to sign in again, 1m to 365d.",
    )  # fmt: skip
    trusted_proxies: tuple[Network, ...] = _setting(
        "QUEUE_TRUSTED_PROXIES", "", networks,
        "Addresses and networks of proxies in front, comma-separated: they say where a request"
        " comes from (`X-Forwarded-For`).",
    )  # fmt: skip
    proxy_user_header: str = _setting(
        "QUEUE_PROXY_USER_HEADER", "", header,
        "The header in which trusted proxies name whom they signed in, such as `X-Forwarded-User`."
        " They have to set or remove it in every request.",
    )  # fmt: skip
    proxy_role: str = _setting(
        "QUEUE_PROXY_ROLE", "none", one_of("none", "viewer", "operator", "admin"),
        "The role of people whom a proxy names and `QUEUE_USERS` does not; `none`: no access.",
    )  # fmt: skip
    http_allowed_hosts: tuple[str, ...] = _setting(
        "QUEUE_HTTP_ALLOWED_HOSTS", "", names,
        "Hosts that `http.request` may call: `api.example.com`, `*.example.com`, with `:port` to"
        " name one. Empty: none, and a worker leaves the kind to workers that may.",
    )  # fmt: skip
    http_allow_private: bool = _setting(
        "QUEUE_HTTP_ALLOW_PRIVATE", "0", switch,
        "Let `http.request` reach loopback and private addresses of its allowed hosts.",
    )  # fmt: skip
    log_level: str = _setting(
        "JOB_WORKER_LOG_LEVEL", "INFO", one_of(*LOG_LEVELS),
        "How much a worker says: INFO is one line a job, DEBUG every poll, claim and renewal.",
    )  # fmt: skip

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file of SQLite's, for one worker process."""
        return self.database_url.startswith("sqlite")


def load(environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read every setting from ``environ``; ``overrides`` (by setting name, as text) win.

    Raises SettingError that names the first unusable one.
    """
    texts = {**environ, **{name: str(value) for name, value in (overrides or {}).items()}}
    return Settings(**{entry.name: _read(entry.metadata, texts) for entry in fields(Settings)})


def _read(meta: Mapping[str, Any], texts: Mapping[str, str]) -> Any:
    text = texts.get(meta["env"], meta["default"])
    try:
        return meta["read"](text)
    except ValueError as error:
        shown = "" if meta["secret"] else f", not {text!r}"
        raise SettingError(f"{meta['env']}: {error}{shown}", setting=meta["env"]) from None


def needs_database_url(settings: Settings) -> bool:
    """Whether a local PostgreSQL would be wrong here: in production, or on a Heroku dyno."""
    return settings.env == "production" or "DYNO" in os.environ
