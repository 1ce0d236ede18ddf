"""The API and the console: who may, how much, and what is well."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.config.readers import (
    Network,
    Redacted,
    header,
    networks,
    one_of,
    prefix,
    rate_store,
    redactions,
    secret_key,
    switch,
    thresholds,
    up_to_a_year,
    whole,
)
from queueapp.config.setting import setting
from queueapp.jobs.verdict import Thresholds

# A count of what waits reads so many entries of an index at most.
MOST_WAITING = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Web:
    """The API and the console: who may, how much, and what is well."""

    tokens: str = setting(
        "QUEUE_TOKENS", "", str,
        "API tokens, separated by white space: `name:role:sha256-of-the-token`, with limits behind"
        " (`:kinds=a.b,c:priority=5:rate=100/s`); `flask token new` makes them.",
        secret=True,
    )  # fmt: skip
    tokens_file: str = setting(
        "QUEUE_TOKENS_FILE", "", str,
        "A file with further entries of the same form, and comments behind `#`; read at start.",
    )  # fmt: skip
    rate_store: str = setting(
        "QUEUE_RATE_STORE", "", rate_store,
        "Where the rates of tokens are counted. Empty: each web process by itself. `redis://…`: all"
        " together (needs the package `redis`).",
        secret=True,
    )  # fmt: skip
    soft_limit: int = setting(
        "QUEUE_SOFT_LIMIT", "0", whole(0, MOST_WAITING),
        "From so many queued jobs on, answers of the API that create jobs say"
        " `Queue-Estimated-Wait`; 0: never.",
    )  # fmt: skip
    hard_limit: int = setting(
        "QUEUE_HARD_LIMIT", "0", whole(0, MOST_WAITING),
        "How many jobs may be queued, due and scheduled: beyond, the API answers 429 `queue_full`;"
        " 0: no limit.",
    )  # fmt: skip
    max_waiters: int = setting(
        "QUEUE_MAX_WAITERS", "0", whole(0, 500),
        "How many requests of a web process may wait at once, a thread each; 0: a quarter of"
        " `WEB_THREADS`.",
    )  # fmt: skip
    users: str = setting(
        "QUEUE_USERS", "", str,
        "People who sign in to the console, separated by white space: `name:role:password-hash`, as"
        " `flask user new` prints it. Keep it between single quotes: a hash has `$` signs.",
        secret=True,
    )  # fmt: skip
    users_file: str = setting(
        "QUEUE_USERS_FILE", "", str,
        "A file with further entries of the same form, and comments behind `#`; read at start.",
    )  # fmt: skip
    secret_key: str = setting(
        "QUEUE_SECRET_KEY", "", secret_key,
        "Signs the sessions; 32 characters at least. Empty: made from the people's entries, so that"
        " any change of those ends all sessions.",
        secret=True,
    )  # fmt: skip
    redact: tuple[Redacted, ...] = setting(
        "QUEUE_REDACT",
        "*:password *:passwd *:secret *:client_secret *:token *:access_token *:refresh_token"
        " *:api_key *:x_api_key *:authorization *:cookie *:set_cookie *:private_key",
        redactions,
        "Fields of payloads and results that only admins see: `kind:name` at any depth,"
        " `kind:path.from.the.root`, `*` for any kind. Set it to add your own; `none:none` hides"
        " nothing.",
    )  # fmt: skip
    session_length: float = setting(
        "QUEUE_SESSION_LENGTH", "12h", up_to_a_year,
        "How long after signing in a person has to sign in again, 1m to 365d.",
    )  # fmt: skip
    trusted_proxies: tuple[Network, ...] = setting(
        "QUEUE_TRUSTED_PROXIES", "", networks,
        "Addresses and networks of proxies in front, comma-separated: they say where a request"
        " comes from (`X-Forwarded-For`).",
    )  # fmt: skip
    proxy_user_header: str = setting(
        "QUEUE_PROXY_USER_HEADER", "", header,
        "The header in which trusted proxies name whom they signed in, such as `X-Forwarded-User`."
        " They have to set or remove it in every request.",
    )  # fmt: skip
    proxy_role: str = setting(
        "QUEUE_PROXY_ROLE", "none", one_of("none", "viewer", "operator", "admin"),
        "The role of people whom a proxy names and `QUEUE_USERS` does not; `none`: no access.",
    )  # fmt: skip
    read_only: bool = setting(
        "QUEUE_READ_ONLY", "0", switch,
        "The console and the API show everything and change nothing, for whoever asks. Workers go"
        " on, those over HTTP too; so do commands.",
    )  # fmt: skip
    prefix: str = setting(
        "QUEUE_PREFIX", "", prefix,
        "The path under which a proxy shows the application, such as `/queue`, whether it passes"
        " the prefix on or takes it off. Empty: it has a site of its own.",
    )  # fmt: skip
    drill: bool = setting(
        "QUEUE_DRILL", "0", switch,
        "The console is that of a drill: its pages do not offer `flask work` to copy, which would"
        " work elsewhere. `flask demo incident` sets it.",
    )  # fmt: skip
    expected_workers: int = setting(
        "QUEUE_EXPECTED_WORKERS", "0", whole(0, 10_000),
        "How many worker processes there should be; fewer are told of; 0: any number is fine.",
    )  # fmt: skip
    verdict: Thresholds = setting(  # noqa: RUF009
        "QUEUE_VERDICT", "", thresholds,
        "Thresholds of the verdict that differ from the defaults: `stalled=5m failing=30%`; see"
        " docs/verdict.md.",
    )  # fmt: skip
