"""The verdict of this process's queue: one for the pages, the API, ``/healthz`` and the command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import psycopg
from flask import Flask
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from queueapp.config import Settings, needs_database_url
from queueapp.connections import address_of
from queueapp.database_address import place_of
from queueapp.errors import QueueError
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Sample
from queueapp.jobs.queries.attempted import tried
from queueapp.jobs.verdict import (
    Facts,
    Level,
    NoWrites,
    Step,
    Unread,
    Verdict,
    judge,
    not_known,
    read,
)
from queueapp.jobs.why.words import span
from queueapp.local_postgres import LocalPostgresUnavailable
from queueapp.shared import Shared, Snapshot
from queueapp.shared_readings import name_failure, share

# How long ``/healthz`` waits for a look at the queue.
HEALTH_WAIT_S = 1.0


@dataclass(frozen=True)
class Look:
    """The verdict and what it was made from (None: nothing could be read), and how old it is.

    ``samples``: of the causes in it, by fingerprint; without those that could not be read.
    """

    verdict: Verdict
    facts: Facts | None
    age_s: float = 0.0
    samples: Mapping[str, Sample] = field(default_factory=dict)


def init_app(app: Flask) -> None:
    """Let ``app`` share one look at the queue."""
    app.extensions["queue_look"] = share(app, lambda: look(app))


def shared(app: Flask) -> Shared[Look]:
    """The look that all of the process share."""
    found: Shared[Look] = app.extensions["queue_look"]
    return found


def present(
    app: Flask, *, wait_s: float | None = None, life_s: float | None = None, begun: bool = False
) -> Look:
    """The shared look, at most ``LIFE_S`` old while the database answers; see ``Shared.get``."""
    return aged(shared(app).get(wait_s=wait_s, life_s=life_s, begun=begun), app)


def recent(app: Flask, **asked: float | None) -> Look:
    """The shared look at once, if it is not old: what a page beside it needs."""
    return aged(shared(app).soon(**asked), app)


def at_hand(app: Flask) -> Look | None:
    """The shared look as it is, without reading; None before the first one."""
    snapshot = shared(app).peek()
    return aged(snapshot, app) if snapshot.value else None


def no_writes(app: Flask) -> NoWrites | None:
    """Why the database takes no writes, as the last look knows; nothing is read.

    None: it takes them, or that is not known of now.
    """
    known = shared(app).peek().present
    return known.facts.no_writes if known and known.facts else None


def look(app: Flask) -> Look:
    """Look at the queue now. Raises what the database raises."""
    settings: Settings = app.extensions["queue_settings"]
    is_new = no_writes(app) is not None
    with app.app_context(), db.engine.connect() as connection:
        if is_new:
            connection.invalidate()
        facts = _read(connection, settings)
        if facts.no_writes and not is_new:
            # A connection keeps what was so when it was made: a new one tells what is so now.
            connection.invalidate()
            connection.rollback()
            facts = _read(connection, settings)
        groups = facts.groups.groups if facts.groups else ()
        ids = {one.fingerprint: one.sample for one in groups if one.fingerprint}
        samples = tried(connection, lambda it: queries.samples_of(it, ids, facts.now))
        if facts.no_writes:
            # It may lead to a server that another one has followed on: a new connection finds that.
            connection.invalidate()
    return Look(judge(facts), facts, samples=samples.value or {})


def look_or_say_why(app: Flask) -> Look:
    """Look at the queue now; a database that does not answer is not known."""
    try:
        return look(app)
    except (SQLAlchemyError, psycopg.Error, QueueError, LocalPostgresUnavailable) as error:
        return aged(Snapshot[Look](None, 0.0, name_failure(error)), app)


def _read(connection: Connection, settings: Settings) -> Facts:
    return read(
        connection,
        job_timeout_s=settings.job_timeout,
        thresholds=settings.verdict,
        expected_workers=settings.expected_workers,
        pooled=settings.pooler,
    )


def aged(snapshot: Snapshot[Look], app: Flask) -> Look:
    """What a look of ``app`` is worth at its age: one that is too old says nothing of now."""
    failure = snapshot.why_not
    if snapshot.value is None:
        return Look(_unknown(app, Unread("queue", failure)), None)
    if snapshot.present is not None:
        return replace(snapshot.value, age_s=snapshot.age_s)
    old = snapshot.value.verdict
    # Each process has a look of its own, so the age may differ from one load to the next.
    ago = span(snapshot.age_s)
    reason = f"{failure}; what stands below was last read by this web process {ago} ago"
    found = replace(_unknown(app, Unread("queue", reason)), as_of=old.as_of)
    others = tuple(one for one in old.findings if one.level in (Level.AMBER, Level.RED))
    known = snapshot.value
    return Look(replace(found, others=others), known.facts, snapshot.age_s, known.samples)


def _unknown(app: Flask, unread: Unread) -> Verdict:
    said = f"The queue could not be read: {unread.reason}."
    # No page would tell more: each asks the same database.
    found = replace(not_known(unread, sentence=said), step=Step(_what_to_check(app)))
    return Verdict(found, (), datetime.now(UTC), (unread,))


def _what_to_check(app: Flask) -> str:
    address = address_of(app)
    if address.has_local_server or (not address.is_local and address.is_of_this_folder):
        return (
            "If the local PostgreSQL under `instance/` does not run, any command of this folder,"
            " such as `flask system`, starts it again; if it runs and hangs, its `server.log` there"
            " and the machine's disk and memory tell why."
        )
    if address.is_local and needs_database_url(address.settings):
        return "Set DATABASE_URL where this process is started, and start it again."
    if address.is_local:
        return "Do one of what it names, then start the command again."
    place = place_of(address.settings.database_url)
    if address.settings.is_sqlite:
        return f"Is the file {place} there, and can it be written? `flask system` tells more."
    return (
        f"Does PostgreSQL run at {place}, and does it take connections? Look at its log;"
        " `flask system` tells more where it can be run."
    )


def page_of(
    app: Flask, paths: Iterable[str], *, may: Callable[[str], bool] = lambda _: True
) -> str | None:
    """The first of ``paths`` that this application serves, None without any.

    ``may``: whether the reader may call an endpoint.
    """
    adapter = app.url_map.bind("localhost")
    for path in paths:
        try:
            endpoint, _ = adapter.match(re.split("[?#]", path)[0], method="GET")
        except HTTPException:
            continue
        if may(endpoint):
            return path
    return None
