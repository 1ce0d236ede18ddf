"""Many jobs in one document: a JSON array, or NDJSON read line by line.

Each item is checked when it is met and kept as what will be written, so a body is never in memory
as text, values and rows at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from queueapp.api.reading import job_request
from queueapp.api.strict_json import parse
from queueapp.errors import InvalidJob, InvalidRequest, QueueError
from queueapp.handlers import check
from queueapp.handlers.problems import Problem, problem
from queueapp.jobs.transitions import NewJob

# As long as the body of one job may be.
LONGEST_LINE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Good:
    """An item that can be written."""

    job: NewJob


@dataclass(frozen=True, slots=True)
class Bad:
    """An item that cannot; pointers begin at the item."""

    code: str
    detail: str
    errors: list[Problem]


def item_of(body: Any) -> Good | Bad:
    """Check one item."""
    try:
        return Good(check(job_request(body)))
    except InvalidRequest as error:
        return _bad(error)


def items_of_array(value: Any, most: int) -> Iterator[Good | Bad]:
    """Check the items of a parsed body. Raises InvalidRequest for what is no array of jobs."""
    if not isinstance(value, list):
        raise _refusal((), "must be an array of jobs")
    if len(value) > most:
        raise too_many(most)
    return map(item_of, value)


def item_of_line(line: bytes) -> Good | Bad:
    """Check one line of NDJSON."""
    if len(line) > LONGEST_LINE:
        detail = f"the line is longer than {LONGEST_LINE // 1024} KiB"
        return Bad(InvalidJob.code, detail, [problem((), detail)])
    try:
        return item_of(parse(line))
    except QueueError as error:
        return _bad(error)


def lines_of(stream: BinaryIO | io.BufferedIOBase) -> Iterator[bytes]:
    """The lines, each cut where it is longer than a line may be; what is cut off is passed over."""
    while line := stream.readline(LONGEST_LINE + 2):
        yield line.rstrip(b"\r\n")
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
            if not line:
                return


def items_of_lines(lines: Iterable[bytes], most: int) -> Iterator[Good | Bad]:
    """Check line by line; empty lines are none. Raises InvalidRequest for too many."""
    met = 0
    for line in lines:
        if not line.strip():
            continue
        if met == most:
            raise too_many(most)
        met += 1
        yield item_of_line(line)


def too_many(most: int) -> InvalidRequest:
    """The refusal of more than ``most`` jobs, which names the first one over it."""
    return _refusal((most,), f"more than {most} jobs; send several requests")


def _refusal(place: tuple[int, ...], detail: str) -> InvalidRequest:
    found = problem(place, detail)
    return InvalidRequest(f"{found['pointer']} {detail}".strip(), errors=[found])


def _bad(error: QueueError) -> Bad:
    errors = error.context.get("errors") or [problem((), error.message)]
    return Bad(error.code, error.message, errors)
