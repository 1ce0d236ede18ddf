"""The marks in a question: how each job stood that it spoke of, for the answer to be about that."""

from __future__ import annotations

from collections.abc import Sequence

from flask import request

from queueapp.errors import BadRequest
from queueapp.jobs.seen import Seen


def seen(ids: Sequence[int]) -> dict[int, Seen] | None:
    """How the jobs of the form stood when it asked; None for a form that asked nobody.

    Raises BadRequest where it does not say so of each of ``ids``.
    """
    texts = request.form.getlist("seen")
    if not texts:
        return None
    found = dict(_mark(text) for text in texts)
    if not found.keys() >= set(ids):
        raise _unread()
    return found


def written(job_id: int, mark: Seen) -> str:
    """What stands in the form for one job."""
    return f"{job_id}@{mark}"


def _mark(text: str) -> tuple[int, Seen]:
    number, _, rest = text.partition("@")
    mark = Seen.read(rest)
    if mark is None or not (number.isascii() and number.isdecimal()):
        raise _unread()
    return int(number[:19]), mark


def _unread() -> BadRequest:
    return BadRequest("the form does not say how the jobs stood that it showed: open it again")
