"""Kinds of job that leave their session or context in a bad state, and one that looks at it."""

from __future__ import annotations

import contextlib
from typing import Any

from flask import current_app
from flask.globals import app_ctx
from sqlalchemy import text

from queueapp import JobContext, handler
from queueapp.extensions import db
from tests.live.kinds import noted

WRITE = """
INSERT INTO job_events (scope, event, actor, reason) VALUES ('op:test', 'op_done', 'app', :note)
"""
OWN_ROW = "SELECT FROM jobs WHERE id = :id FOR UPDATE"
_TWICE_THE_ID = "INSERT INTO jobs (id) OVERRIDING SYSTEM VALUE SELECT id FROM jobs"


@handler("journey.spoils")
def spoils(context: JobContext, what: str, own: bool) -> None:
    """Leave a session in some state: the job's ``own`` one, or the one of the application."""
    session = context.session if own else db.session()
    with noted(context):
        if "write" in what:
            session.execute(text(WRITE), {"note": f"{what}, {'own' if own else 'shared'}"})
        if "swallow" in what:
            with contextlib.suppress(Exception):
                session.execute(text(_TWICE_THE_ID))
        if "lock" in what:
            session.execute(text(OWN_ROW), {"id": context.id})
            session.execute(text("SELECT pg_advisory_lock(1)"))
        if "set" in what:
            session.execute(text("CREATE TEMPORARY TABLE IF NOT EXISTS left_over ()"))
            session.execute(text("SET search_path = pg_catalog, public"))
            session.execute(text("SET statement_timeout = 1"))
        if "commit" in what:
            session.commit()
        if "close" in what:
            session.close()
        if "raise" in what:
            raise ValueError(what)


_STATE = """
SELECT current_setting('statement_timeout'), current_setting('search_path'),
  to_regclass('left_over'),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
FROM pg_sleep(0.005)
"""


@handler("journey.uses")
def uses(context: JobContext) -> list[list[Any]]:
    """Use both sessions, and say how they were found."""
    with noted(context):
        found = [session.execute(text(_STATE)).one() for session in (db.session(), context.session)]
        return [list(row) for row in found]


@handler("journey.leaks")
def leaks(context: JobContext, what: str) -> None:
    """Leave a context of the application pushed, or take the worker's away."""
    with noted(context):
        if what == "popped":
            app_ctx.pop()
            return
        db.session.execute(text("SELECT 1"))
        # A request's context pushes one of the application's along.
        app = current_app
        made = app.test_request_context("/") if what == "request" else app.app_context()
        made.push()
        db.session.execute(text(WRITE), {"note": f"{what} left open"})
