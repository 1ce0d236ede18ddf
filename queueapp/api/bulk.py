"""Create up to five thousand jobs with one request: all or none, or each by itself."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from flask import Blueprint, Response, request, url_for
from werkzeug.exceptions import RequestEntityTooLarge

from queueapp.api import answers, describe
from queueapp.api.bulk_items import (
    Bad,
    Good,
    items_of_array,
    items_of_lines,
    lines_of,
    sparing,
)
from queueapp.api.contract import (
    ESTIMATED_WAIT,
    RETRY_AFTER,
    Answer,
    Body,
    Example,
    Part,
    contract,
)
from queueapp.api.intake import intake
from queueapp.api.reading import (
    read_json,
    read_query,
    refuse_encoded,
    refuse_part,
    whole_chunks,
)
from queueapp.api.schemas import BulkQuery, JobBody
from queueapp.auth import Permission, current_principal, permits
from queueapp.auth.rates import charge
from queueapp.errors import (
    BadRequest,
    BeyondLimit,
    IdempotencyConflict,
    InvalidJob,
    NotJson,
    QueueFull,
    RateLimited,
)
from queueapp.extensions import db
from queueapp.handlers import Enqueued, conflict_detail, enqueue_checked
from queueapp.handlers.problems import problem

LARGEST_BULK = 16 * 1024 * 1024
MOST_ITEMS = 5_000
# A refusal lists no more problems.
MOST_TOLD = 200
# Where each job is answered by itself, each bad one says its first problem; all say no more.
MOST_KEPT = 5_000

bp = Blueprint("api_bulk", __name__, url_prefix="/api/jobs")


@bp.post("/bulk")
@permits(Permission.PRODUCE)
@contract(
    Part.PRODUCE,
    {200: Answer("What became of each job.", answers.BulkAnswer, (ESTIMATED_WAIT, RETRY_AFTER))},
    query=BulkQuery,
    body=Body(JobBody, many=MOST_ITEMS),
    refuses=(BeyondLimit, IdempotencyConflict, InvalidJob, RateLimited, QueueFull),
    more="A JSON array, or NDJSON (one job a line). With `atomic=false` read `counts`: the answer"
    " is 200 whatever became of the jobs.",
    examples=(
        Example(
            "All or none, one job a line.",
            lines=(
                {"kind": "demo.echo", "payload": {"message": "one"}, "idempotency_key": "line-1"},
                {"kind": "demo.echo", "payload": {"message": "two"}, "idempotency_key": "line-2"},
            ),
        ),
        Example(
            "Each that is good.",
            query="atomic=false",
            json=[{"kind": "demo.echo"}, {"kind": "no.such.kind"}],
        ),
    ),
)
def create_many() -> Response:
    """Create up to 5,000 jobs: all or none, or with `?atomic=false` each that is good."""
    query = read_query(BulkQuery)
    items = _read_items()
    good = [item.job for item in items if isinstance(item, Good)]
    if query.atomic:
        _refuse_bad(items)
    principal, session = current_principal(), db.session()
    charge(principal, len(good))
    who: Any = {"producer": principal.producer, "actor": principal.actor, "via": "api"}
    create = partial(enqueue_checked, session, **who)
    made = intake().create_many(
        session, good, create, producer=principal.producer, atomic=query.atomic
    )
    if query.atomic:
        _refuse_conflicts(made)
    session.commit()
    answers = iter(made)
    told = [_bad(item) if isinstance(item, Bad) else _made(next(answers)) for item in items]
    found = Counter(one["outcome"] for one in told)
    counts = {name: found[name] for name in ("new", "replay", "conflict", "invalid")}
    headers = intake().headers()
    if full := found["full"]:
        counts["full"] = full
        headers["Retry-After"] = str(intake().retry_after(full))
    return describe.json_answer({"counts": counts, "items": told}, 200, headers)


def _read_items() -> list[Good | Bad]:
    request.max_content_length, limits = LARGEST_BULK, current_principal().limits
    if "Idempotency-Key" in request.headers:
        raise BadRequest(
            "the header Idempotency-Key is for one job: give each its field idempotency_key"
        )
    if request.mimetype == "application/x-ndjson":
        refuse_encoded()
        with whole_chunks():
            lines = lines_of(io.BufferedReader(_Body(), 64 * 1024))
            return list(sparing(items_of_lines(lines, MOST_ITEMS, limits), MOST_KEPT))
    if request.mimetype != "application/json":
        raise NotJson("send the header Content-Type: application/json, or application/x-ndjson")
    return list(sparing(items_of_array(read_json(), MOST_ITEMS, limits), MOST_KEPT))


class _Body(io.RawIOBase):
    """The body up to the limit, at which one without a length would end without a word."""

    def __init__(self) -> None:
        self._met = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = request.stream.read(len(buffer))
        self._met += len(data)
        if not data:
            refuse_part(self._met)
        if self._met >= LARGEST_BULK and request.content_length is None:
            raise RequestEntityTooLarge
        buffer[: len(data)] = data
        return len(data)


def _refuse_bad(items: Sequence[Good | Bad]) -> None:
    bad = sum(isinstance(item, Bad) for item in items)
    if not bad:
        return
    errors = [
        {**one, "pointer": f"/{place}{one['pointer']}"}
        for place, one in islice(_problems(items), MOST_TOLD)
    ]
    first = f"{errors[0]['pointer']} {errors[0]['detail']}"
    said = f"{bad} of {len(items)} jobs are not valid, so none was created; the first: {first}"
    codes = {item.code for item in items if isinstance(item, Bad)}
    # Nothing is wrong with jobs that another token might create.
    refusal = BeyondLimit if codes == {BeyondLimit.code} else InvalidJob
    raise refusal(said, errors=errors, invalid=bad)


def _problems(items: Sequence[Good | Bad]) -> Iterator[tuple[int, dict[str, str]]]:
    for place, item in enumerate(items):
        if isinstance(item, Bad):
            for one in item.errors:
                yield place, one


def _refuse_conflicts(made: Sequence[Enqueued]) -> None:
    conflicts = [(place, one) for place, one in enumerate(made) if one.outcome == "conflict"]
    if not conflicts:
        return
    # Jobs of this very request are not there any more when the answer is read.
    undone = {one.id: place for place, one in enumerate(made) if one.outcome == "new"}
    errors = [_conflict(place, one, undone) for place, one in conflicts[:MOST_TOLD]]
    first = errors[0]
    raise IdempotencyConflict(
        f"{len(conflicts)} of {len(made)} keys belong to other requests, so no job was created;"
        f" the first: {first['pointer']} {first['detail']}",
        **{name: first[name] for name in ("job_id", "fields") if name in first},
        errors=errors,
    )


def _conflict(place: int, one: Enqueued, undone: Mapping[int, int]) -> dict[str, Any]:
    at, fields = (place, "idempotency_key"), list(one.fields)
    if one.id not in undone:
        return {**problem(at, conflict_detail(one)), "job_id": one.id, "fields": fields}
    said = f"is also the key of /{undone[one.id]}, asked for with a different {', '.join(fields)}"
    return {**problem(at, said), "fields": fields}


def _made(one: Enqueued) -> dict[str, Any]:
    if one.outcome == "full":
        found = {"code": QueueFull.code, "detail": "there was no room for it; try again later"}
        return {"outcome": one.outcome, "problem": found}
    told: dict[str, Any] = {
        "outcome": one.outcome,
        "id": one.id,
        "url": url_for("api_jobs.show", job_id=one.id),
    }
    if one.outcome == "conflict":
        told["problem"] = {
            "code": IdempotencyConflict.code,
            "detail": conflict_detail(one),
            "fields": list(one.fields),
        }
    return told


def _bad(item: Bad) -> dict[str, Any]:
    found = {"code": item.code, "detail": item.detail, "errors": item.errors}
    return {"outcome": "invalid", "problem": found}
