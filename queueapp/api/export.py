"""Lists as files: NDJSON for programs, CSV for spreadsheets, of any length.

They are read page by page, each page in a short transaction of its own: nothing is kept of what was
sent, and however slowly somebody reads, no connection and no snapshot waits for them. A thread
does, so the places are those of requests that wait, and who stops reading loses his.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from flask import Blueprint, Response
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from queueapp.api import describe
from queueapp.api.contract import Answer, Example, Header, Part, contract
from queueapp.api.list_schemas import MOST_WITH_BODIES, ExportQuery
from queueapp.api.lists import allowed, fields_of
from queueapp.api.reading import read_query
from queueapp.api.waiting import a_place_to_wait, hurry_the_caller
from queueapp.auth import Permission, permits
from queueapp.errors import InvalidRequest, TooManyWaiters
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import JobFilter
from queueapp.redaction import Redaction, for_reader

Place = TypeVar("Place")
Rows: TypeAlias = list[dict[str, Any]]
# A page, and where the next one begins: None at the end.
Seen: TypeAlias = tuple[Rows, Place | None]

PAGE = 500
# The longest that a page may be on its way to the reader: one that stands still keeps a place.
STANDSTILL_S = 60.0
_TEXT = {"type": "string"}
_DISPOSITION = Header("Content-Disposition", "A name for the file.")
_MORE = (
    "The whole list behind the filter, newest first, read page by page while it is sent: jobs that"
    " change meanwhile are shown as they are met, each once at most. An answer that breaks off has"
    " no end (its last chunk is missing), so that a client sees it."
)


@dataclass(frozen=True)
class Form:
    """How a list is written: ``head`` of the names, ``lines`` of names and a page of rows."""

    name: str
    content_type: str
    head: Callable[[Sequence[str]], str]
    lines: Callable[[Sequence[str], Rows], str]


bp = Blueprint("api_export", __name__, url_prefix="/api")


@bp.get("/jobs.ndjson")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("A job a line.", None, (_DISPOSITION,), _TEXT, "application/x-ndjson")},
    query=ExportQuery,
    refuses=(InvalidRequest, TooManyWaiters),
    more=_MORE,
    examples=(
        Example("What failed, with payloads.", query="status=failed&fields=id,kind,payload"),
    ),
)
def ndjson() -> Response:
    """Export a list of jobs as NDJSON: one job a line."""
    return _export(NDJSON)


@bp.get("/jobs.csv")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("A job a line, below the names.", None, (_DISPOSITION,), _TEXT, "text/csv")},
    query=ExportQuery,
    refuses=(InvalidRequest, TooManyWaiters),
    more=f"{_MORE} A text that a spreadsheet would take for a formula begins with an apostrophe;"
    " programs read NDJSON.",
    examples=(Example("What ended, for a spreadsheet.", query="status=succeeded,failed"),),
)
def comma_separated() -> Response:
    """Export a list of jobs as CSV, for spreadsheets."""
    return _export(CSV)


def _export(form: Form) -> Response:
    query = read_query(ExportQuery)
    names, where = fields_of(query), allowed(query)
    return send(form, "jobs", names, pages_of(db.engine, where, names, for_reader()))


def send(
    form: Form, name: str, names: Sequence[str], pages: Generator[Rows, None, None]
) -> Response:
    """Answer with a list of any length as the file ``name``; each page is read when it is due.

    Raises TooManyWaiters, and what reading the first page raises.
    """
    with ExitStack() as place:
        place.enter_context(a_place_to_wait())
        # What the database refuses is answered as a refusal, while there is still time for one.
        first = next(pages)
        done = place.pop_all()
    hurry_the_caller(STANDSTILL_S)
    texts = _texts(form, names, chain((first,), pages), done)
    response = Response(texts, content_type=form.content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{form.name}"'
    # A reader may leave before the end, or before the beginning.
    response.call_on_close(done.close)
    return response


def _texts(
    form: Form, names: Sequence[str], pages: Iterable[Rows], done: ExitStack
) -> Iterator[str]:
    with done:
        yield form.head(names)
        for rows in pages:
            yield form.lines(names, rows)


def pages_of(
    engine: Engine, where: JobFilter, names: Sequence[str], hidden: Redaction
) -> Generator[Rows, None, None]:
    """The jobs of a filter with these fields, a page at a time; any of them may be empty."""
    columns = describe.columns_of(names)
    limit = MOST_WITH_BODIES if set(names) & set(describe.BODIES) else PAGE

    def look(session: Session, place: tuple[int | None, bool] | None) -> Seen[Any]:
        # Of a long list an index would name 20,000 jobs for each page, in vain.
        before, scan = place or (None, False)
        page = queries.list_jobs(
            session, where, before=before, limit=limit, columns=columns, scan=scan
        )
        rows = [describe.listed_job(job, names, hidden) for job in page.rows]
        # Its lines tell where the jobs of an operation end.
        more = (page.older, page.scanned and where.operation is None)
        return rows, None if page.older is None else more

    return read_pages(engine, look)


def pages_of_ids(
    engine: Engine, ids: Sequence[int], names: Sequence[str], hidden: Redaction
) -> Generator[Rows, None, None]:
    """The same of those of ``ids`` that exist, in their order."""
    columns = describe.columns_of(names)

    def look(session: Session, place: int | None) -> Seen[int]:
        start = place or 0
        end = start + MOST_WITH_BODIES
        found = queries.heads_of(session, ids[start:end], columns=columns)
        rows = [describe.listed_job(job, names, hidden) for job in found]
        return rows, end if end < len(ids) else None

    return read_pages(engine, look)


def read_pages(
    engine: Engine, look: Callable[[Session, Place | None], Seen[Place]]
) -> Generator[Rows, None, None]:
    """A list, a page at a time, each in a bounded session of its own.

    ``look`` gets the place to go on from, None at first, and gives the rows and the next place.
    """
    place: Place | None = None
    while True:
        with Session(engine) as session:
            queries.bound_reads(session)
            rows, place = look(session, place)
        yield rows
        if place is None:
            return


# Some readers end a line at these; JSON has them within strings only.
_BREAKS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


def _no_head(_names: Sequence[str]) -> str:
    return ""


def _json_lines(_names: Sequence[str], rows: Rows) -> str:
    return "".join(f"{describe.json_text(row).translate(_BREAKS)}\n" for row in rows)


# What spreadsheets take for a formula, behind white space and in its wide forms as well.
_FORMULA = re.compile(r"[\s\x00-\x20]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_JSON = ("payload", "result")


def _csv_head(names: Sequence[str]) -> str:
    return _csv([names])


def _csv_lines(names: Sequence[str], rows: Rows) -> str:
    return _csv([_cell(name, row[name]) for name in names] for row in rows)


def _csv(rows: Iterable[Iterable[Any]]) -> str:
    written = io.StringIO()
    # Every text is quoted: where a semicolon separates, one within it would begin a cell.
    csv.writer(written, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
    return written.getvalue()


def _cell(name: str, value: Any) -> Any:
    if value is not None and name in _JSON:
        value = describe.json_text(value)
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


NDJSON = Form("ndjson", "application/x-ndjson", _no_head, _json_lines)
CSV = Form("csv", "text/csv; charset=utf-8; header=present", _csv_head, _csv_lines)
