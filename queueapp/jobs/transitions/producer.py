"""Enqueue: the one verb of producers, in four statements that share their parts.

One job takes the shortest, which looks for a rival only if there is a key. Many without a key take
the quick one, many of which some have keys the one that answers each with its outcome. What is too
much for one statement takes several in one transaction.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from queueapp.jobs.autocommit import ask, is_autocommit, one_transaction, wake
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.transitions import enqueue_statements as sql

# A rival's row with our key is committed but younger than our snapshot: the next statement sees it.
_ROUNDS = 5

# One statement takes no more: a document of JSON ends at 256 MB for PostgreSQL, and a statement of
# the web after QUEUE_WEB_QUERY_TIMEOUT.
MOST_JOBS = 5_000
MOST_TEXT = 4 * 1024 * 1024

# By whether it has a key, whether its row is wanted, whether there is a ceiling.
_OF_ONE = {
    (False, False, False): sql.FRESH,
    (False, True, False): sql.FRESH_WHOLE,
    (True, False, False): sql.ONE,
    (True, True, False): sql.ONE_WHOLE,
    (False, False, True): sql.FRESH_BELOW,
    (False, True, True): sql.FRESH_WHOLE_BELOW,
    (True, False, True): sql.ONE_BELOW,
    (True, True, True): sql.ONE_WHOLE_BELOW,
}

_text = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=datetime.isoformat
).encode


class Json(str):
    """JSON text: a payload that its producer has encoded already."""

    __slots__ = ()


# Not frozen: thousands are made at once, and each of its fields would cost a call.
@dataclass(kw_only=True)
class NewJob:
    """A job as it will be written: checked, its handler's defaults resolved.

    ``payload``: a value, or its text as ``Json``. ``delay_s`` counts from the enqueue by the
    database's clock; ``available_at`` wins over it. ``key`` and ``request_hash`` are given together
    or not at all.
    """

    kind: str
    payload: Any
    priority: int = 0
    delay_s: float | None = None
    available_at: datetime | None = None
    max_attempts: int = 5
    timeout_s: int | None = None
    key: str | None = None
    request_hash: str | None = None


@dataclass(slots=True)
class Enqueued:
    """What became of one request: a new job, a replay of an earlier one, or another request's key.

    ``full``: there was no room for it below the ceiling of ids; it has no id.
    ``request_hash`` is the stored one: on a conflict it tells which fields differ. ``row`` is the
    whole job as it is now, where that was asked for.
    """

    id: int
    outcome: Literal["new", "replay", "conflict", "full"]
    request_hash: str | None = None
    row: Any = None


def enqueue(
    database: Database, jobs: Sequence[NewJob], *, producer: str, actor: str, via: str
) -> list[Enqueued]:
    """Write ``jobs`` and their ledger lines; answers come in the order of the requests.

    Does not commit; on a connection in autocommit mode it is there at once, all or none. A key that
    a rival transaction is writing right now makes this wait for it.
    """
    who = {"producer": producer, "actor": actor, "via": via}
    if len(jobs) == 1:
        return [enqueue_one(database, jobs[0], producer=producer, actor=actor, via=via)]
    if all(job.key is None for job in jobs):
        answers = _many(database, jobs, who)
    else:
        answers = _keyed(database, jobs, who)
    if any(answer.outcome == "new" for answer in answers):
        wake(database)
    return answers


def enqueue_one(
    database: Database,
    job: NewJob,
    *,
    producer: str,
    actor: str,
    via: str,
    whole: bool = False,
    ceiling: int | None = None,
) -> Enqueued:
    """Do the same for one job, in one round trip; ``whole``: answer with its row as well.

    ``ceiling``: the highest id that a new job may have, see ``queueapp.jobs.room``.
    """
    statement = _OF_ONE[job.key is not None, whole, ceiling is not None]
    # A copy of its own dictionary: a payload may be large.
    given = {**vars(job), "payload": _json(job), "producer": producer, "actor": actor, "via": via}
    if ceiling is not None:
        given["ceiling"] = ceiling
    for _ in range(_ROUNDS):
        for row in ask(database, statement, given):
            if row.outcome == "new":
                wake(database)
            if row.outcome == "full":
                return Enqueued(0, "full")
            return Enqueued(row.id, row.outcome, row.request_hash, row if whole else None)
    raise _undecided(1)


def _many(database: Database, jobs: Sequence[NewJob], who: Mapping[str, str]) -> list[Enqueued]:
    chunks = _chunks(database, map(_item, jobs))
    with _as_one(database, len(chunks)):
        return [
            Enqueued(row.id, "new")
            for chunk in chunks
            for row in run(database, sql.MANY, jobs=f"[{','.join(chunk)}]", **who)
        ]


def _keyed(database: Database, jobs: Sequence[NewJob], who: Mapping[str, str]) -> list[Enqueued]:
    places: Sequence[int] = range(len(jobs))
    items = [_keyed_item(job) for job in jobs]
    chunks = _chunks(database, items)
    answers: dict[int, Enqueued] = {}
    with _as_one(database, len(chunks)):
        if len(chunks) > 1:
            # Two bulks must take their keys in one order, whatever is in which statement.
            ids = run(database, sql.IDS, n=len(items))
            items = [f'{{"id":{row.id},{item[1:]}' for row, item in zip(ids, items, strict=True)]
            places = sorted(places, key=lambda place: (jobs[place].key or "", place))
            chunks = _chunks(database, (items[place] for place in places))
        begin = 0
        for chunk in chunks:
            here = places[begin : begin + len(chunk)]
            answers.update(_decided(database, dict(zip(here, chunk, strict=True)), who))
            begin += len(chunk)
    return [answers[place] for place in range(len(jobs))]


def _decided(
    database: Database, items: dict[int, str], who: Mapping[str, str]
) -> Iterator[tuple[int, Enqueued]]:
    for _ in range(_ROUNDS):
        places = list(items)
        for row in run(database, sql.KEYED, jobs=f"[{','.join(items.values())}]", **who):
            if row.outcome != "unknown":
                place = places[row.pos - 1]
                yield place, Enqueued(row.id, row.outcome, row.request_hash)
                del items[place]
        if not items:
            return
    raise _undecided(len(items))


def _undecided(count: int) -> RuntimeError:
    return RuntimeError(f"{count} keyed jobs stayed undecided after {_ROUNDS} rounds")


def _as_one(database: Database, statements: int) -> AbstractContextManager[object]:
    """All or none of several statements, also where each would be committed by itself."""
    connection = connection_of(database)
    if statements > 1 and is_autocommit(connection):
        return one_transaction(connection)
    return contextlib.nullcontext()


def _chunks(database: Database, items: Iterable[str]) -> list[list[str]]:
    if connection_of(database).dialect.name == "sqlite":
        return [list(items)]  # it has no limit, and all of it is in this process anyway
    chunks: list[list[str]] = []
    length = 0
    for item in items:
        if not chunks or len(chunks[-1]) == MOST_JOBS or length + len(item) > MOST_TEXT:
            chunks.append([])
            length = 0
        chunks[-1].append(item)
        length += len(item)
    return chunks


def _json(job: NewJob) -> str:
    return job.payload if isinstance(job.payload, Json) else _text(job.payload)


def _item(job: NewJob) -> str:
    """The job as an object of the document; what is not said is NULL."""
    # By hand: the payload is text already, and thousands of these are made at once.
    due = "" if job.delay_s is None else f',"delay_s":{float(job.delay_s)!r}'
    if job.available_at is not None:
        due = f'{due},"available_at":"{job.available_at.isoformat()}"'
    if job.timeout_s is not None:
        due = f'{due},"timeout_s":{job.timeout_s:d}'
    return (
        f'{{"kind":{_text(job.kind)},"payload":{_json(job)},"priority":{job.priority:d}'
        f',"max_attempts":{job.max_attempts:d}{due}}}'
    )


def _keyed_item(job: NewJob) -> str:
    item = _item(job)
    if job.key is None:
        return item
    return f'{item[:-1]},"key":{_text(job.key)},"request_hash":{_text(job.request_hash)}}}'
