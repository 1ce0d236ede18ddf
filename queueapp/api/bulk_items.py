"""Many jobs in one document: a JSON array, or NDJSON read line by line.

Each item is parsed and checked when it is met and kept as what will be written, so the values of a
body are never in memory all at once. Nothing is parsed behind the first item that is one too many.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from queueapp.api.invalid import invalid_at
from queueapp.api.reading import job_request
from queueapp.api.strict_json import parse, parse_array
from queueapp.auth.limits import NONE, Limits, checked_within
from queueapp.errors import BeyondLimit, InvalidJob, InvalidRequest, QueueError
from queueapp.handlers.problems import Problem, problem
from queueapp.jobs.transitions import NewJob

# As long as the body of one job may be: bytes of a line, characters of an item in an array.
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


def item_of(body: Any, limits: Limits = NONE) -> Good | Bad:
    """Check one item, which ``limits`` must allow."""
    try:
        return Good(checked_within(job_request(body, limits), limits))
    except (InvalidRequest, BeyondLimit) as error:
        return _bad(error)


def items_of_array(raw: bytes, most: int, limits: Limits = NONE) -> Iterator[Good | Bad]:
    """Check item by item. Raises InvalidRequest for what is no array, and for too many."""
    for met, value in enumerate(parse_array(raw, LONGEST_LINE)):
        if met == most:
            raise too_many(most)
        yield item_of(value, limits)


def item_of_line(line: bytes, limits: Limits = NONE) -> Good | Bad:
    """Check one line of NDJSON."""
    if len(line) > LONGEST_LINE:
        detail = f"the line is longer than {LONGEST_LINE // 1024} KiB"
        return Bad(InvalidJob.code, detail, [problem((), detail)])
    try:
        return item_of(parse(line), limits)
    except QueueError as error:
        return _bad(error)


def lines_of(stream: BinaryIO | io.BufferedIOBase) -> Iterator[bytes]:
    """The lines, each cut where it is longer than a line may be; what is cut off is passed over."""
    while line := stream.readline(LONGEST_LINE + 2):
        cut = len(line) == LONGEST_LINE + 2 and not line.endswith(b"\n")
        # One that was cut stays too long, whatever it is cut at.
        yield line if cut else line.rstrip(b"\r\n")
        while cut:
            rest = stream.readline(LONGEST_LINE)
            cut = bool(rest) and not rest.endswith(b"\n")


def items_of_lines(
    lines: Iterable[bytes], most: int, limits: Limits = NONE
) -> Iterator[Good | Bad]:
    """Check line by line; empty lines are none. Raises InvalidRequest for too many."""
    met = 0
    for line in lines:
        if not line.strip():
            continue
        if met == most:
            raise too_many(most)
        met += 1
        yield item_of_line(line, limits)


def sparing(items: Iterable[Good | Bad], most: int) -> Iterator[Good | Bad]:
    """Pass the items on; after ``most`` problems in all only the first of each bad one is kept."""
    kept = 0
    for item in items:
        if isinstance(item, Bad):
            if kept >= most:
                item = replace(item, errors=item.errors[:1])
            kept += len(item.errors)
        yield item


def too_many(most: int) -> InvalidRequest:
    """The refusal of more than ``most`` jobs, which names the first one over it."""
    return invalid_at((most,), f"more than {most} jobs; send several requests")


def _bad(error: QueueError) -> Bad:
    errors = error.context.get("errors") or [problem((), error.message)]
    return Bad(error.code, error.message, errors)
