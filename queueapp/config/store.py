"""The database: where it is, how long it may take, how long what is kept."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.config.readers import a_day_at_least, one_of, positive_duration, switch, whole
from queueapp.config.setting import setting
from queueapp.database_address import database_url


@dataclass(frozen=True, kw_only=True)
class Store:
    """The database: where it is, how long it may take, how long what is kept."""

    database_url: str = setting(
        "DATABASE_URL", "", database_url,
        "The PostgreSQL database. Several hosts (`//user:pw@h1,h2/db`): the one that takes writes."
        " Empty: a local PostgreSQL under `instance/` is started, or reused (not in production)."
        " `sqlite:////path/to/file`: see docs/sqlite.md.",
        secret=True,
    )  # fmt: skip
    env: str = setting(
        "QUEUE_ENV", "development", one_of("development", "production"),
        "`production` refuses to start without `DATABASE_URL`; so does a Heroku dyno.",
    )  # fmt: skip
    pooler: bool = setting(
        "QUEUE_POOLER", "0", switch,
        "The database is reached through a transaction pooler: no session settings, no prepared"
        " statements, no LISTEN.",
    )  # fmt: skip
    connect_timeout: float = setting(
        "QUEUE_CONNECT_TIMEOUT", "4s", positive_duration,
        "Longest wait for a new database connection, shared by the hosts of the address"
        " (two seconds each at least).",
    )  # fmt: skip
    web_query_timeout: float = setting(
        "QUEUE_WEB_QUERY_TIMEOUT", "5s", positive_duration,
        "Longest database statement of the API and the console; then the answer is a 503.",
    )  # fmt: skip
    work_query_timeout: float = setting(
        "QUEUE_WORK_QUERY_TIMEOUT", "30s", positive_duration,
        "Longest statement of a worker's hot path; four times that for its housekeeping.",
    )  # fmt: skip
    lock_timeout: float = setting(
        "QUEUE_LOCK_TIMEOUT", "3s", positive_duration,
        "Longest wait for a lock that somebody else holds; handlers' sessions wait as they like.",
    )  # fmt: skip
    network_timeout: float = setting(
        "QUEUE_NETWORK_TIMEOUT", "20s", positive_duration,
        "When a peer that acknowledges no packet counts as gone.",
    )  # fmt: skip
    idle_timeout: float = setting(
        "QUEUE_IDLE_TIMEOUT", "5m", positive_duration,
        "When the server closes a connection that web or handlers do not use: others may need it.",
    )  # fmt: skip
    keep_succeeded: float = setting(
        "QUEUE_KEEP_SUCCEEDED", "7d", positive_duration,
        "How long a succeeded job's row is kept after its end; its history stays in the ledger.",
    )  # fmt: skip
    keep_failed: float = setting(
        "QUEUE_KEEP_FAILED", "90d", positive_duration,
        "The same for a failed job.",
    )  # fmt: skip
    keep_cancelled: float = setting(
        "QUEUE_KEEP_CANCELLED", "30d", positive_duration,
        "The same for a cancelled job.",
    )  # fmt: skip
    keep_ledger: float = setting(
        "QUEUE_KEEP_LEDGER", "90d", a_day_at_least,
        "How long the ledger is kept, by whole days in UTC; a day at least.",
    )  # fmt: skip
    idempotency_days: int = setting(
        "QUEUE_IDEMPOTENCY_DAYS", "7", whole(1, 3650),
        "How many days an idempotency key is remembered at least after its job's end.",
    )  # fmt: skip
