"""Kinds of job that do not return, in each of the ways that nothing can interrupt."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from queueapp import JobContext, handler
from tests.live.kinds import gate, noted
from tests.live.spoiling import OWN_ROW, WRITE

_NEVER_S = 1_000_000


def _from_a_socket() -> None:
    here, _there = socket.socketpair()
    here.recv(1)


def _in_the_database(session: Any) -> None:
    session.execute(text(WRITE), {"note": "written by an attempt given up"})
    session.execute(text("SELECT pg_sleep(60)"))


def _with_its_row(context: JobContext) -> None:
    context.session.execute(text(OWN_ROW), {"id": context.id})
    time.sleep(_NEVER_S)


HANGS: dict[str, Callable[[JobContext], object]] = {
    "socket": lambda _: _from_a_socket(),
    "event": lambda _: threading.Event().wait(),
    "sleep": lambda _: time.sleep(_NEVER_S),
    "c": lambda _: ctypes.CDLL(None).sleep(_NEVER_S),
    "database": lambda context: _in_the_database(context.session),
    "row": _with_its_row,
    "gate": gate,
}


@handler("journey.hangs")
def hangs(context: JobContext, how: str, first: int = 1) -> dict[str, Any]:
    """Do not return from the first attempts."""
    if how == "gate" and context.attempt <= first:
        return gate(context)
    with noted(context) as result:
        if context.attempt <= first:
            HANGS[how](context)
        return result
