"""Where in the line a form wants jobs to stand. All raise Unfit for what cannot be taken."""

from __future__ import annotations

import re
from datetime import datetime

from flask import request

from queueapp.api.operation_schemas import LONGEST_SPREAD_S
from queueapp.console import preferences
from queueapp.console.forms import Unfit
from queueapp.console.instants import written
from queueapp.handlers.context import LONGEST_DELAY_S
from queueapp.handlers.request import (
    LEAST_PRIORITY,
    MOST_PRIORITY,
    EnqueueRequest,
    instant,
    request_problems,
)


def delay_s() -> float | None:
    """In how many seconds they are to be due; the form has minutes."""
    text = request.form.get("minutes", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) or int(text) * 60 > LONGEST_DELAY_S:
        raise Unfit("minutes", "minutes are a whole number, ten years at most")
    return int(text) * 60.0


def spread_s() -> float | None:
    """Over how many seconds they are to become due; the form has minutes, and nothing for 0."""
    text = request.form.get("spread", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or int(text) * 60 > LONGEST_SPREAD_S:
        most = LONGEST_SPREAD_S // 60
        raise Unfit("spread", f"over a whole number of minutes, {most:,} at most")
    return int(text) * 60.0 or None


def due() -> datetime | None:
    """When, by the clock of whoever asks; within the bounds of a new job."""
    text = request.form.get("due", "").strip()
    if not text:
        return None
    try:
        at = written(text, preferences.present().tz)
    except ValueError as error:
        raise Unfit("due", str(error)) from None
    for problem in request_problems(EnqueueRequest(kind="", available_at=at)):
        if problem["pointer"] == "/available_at":
            raise Unfit("due", f"the time {problem['detail']}")
    return instant(at)


def priority() -> int | None:
    """Higher runs first."""
    text = request.form.get("to_priority", "").strip()
    if not text:
        return None
    is_number = re.fullmatch(r"-?[0-9]{1,5}", text, re.ASCII)
    if not is_number or not LEAST_PRIORITY <= int(text) <= MOST_PRIORITY:
        raise Unfit(
            "to_priority",
            f"a priority is a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY}",
        )
    return int(text)
