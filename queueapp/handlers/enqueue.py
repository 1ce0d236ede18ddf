"""Create jobs inside the caller's transaction: check everything, then hand over to the domain.

Never commits. The handler's defaults are written into the row here, so that a job means the same to
every worker, whatever version of the handler that has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from queueapp.errors import IdempotencyConflict, InvalidJob, UnknownKind
from queueapp.handlers import policy, registry
from queueapp.handlers.problems import Problem, first_of
from queueapp.handlers.request import EnqueueRequest, check_sent, instant, is_unknown
from queueapp.handlers.request_hash import differing_fields, request_hash
from queueapp.jobs import transitions
from queueapp.jobs.transitions import Json, NewJob

AnySession: TypeAlias = Session | Connection | scoped_session[Session]


# Not frozen: thousands are made at once, and each of its fields would cost a call.
@dataclass(slots=True)
class Enqueued:
    """What became of one request: ``id`` is the new job, or the one that has the key already.

    ``fields``: on a conflict, what this request asks differently. ``job``: its row as it is now,
    where the whole was asked for. ``full``: there was no room; it has no id.
    """

    id: int
    outcome: Literal["new", "replay", "conflict", "full"]
    fields: tuple[str, ...] = ()
    job: Any = field(default=None, compare=False, repr=False)


def enqueue(
    session: AnySession,
    kind: str,
    payload: dict[str, Any] | None = None,
    *,
    priority: int | None = None,
    delay: float | timedelta | None = None,
    available_at: datetime | None = None,
    max_attempts: int | None = None,
    timeout: int | None = None,
    key: str | None = None,
    producer: str = "app",
    actor: str = "app",
    via: str = "python",
) -> Enqueued:
    """Create one job; it exists once ``session`` commits, and not if that rolls back.

    None means not given: an empty payload, priority 0 (higher runs first), due now, the handler's
    attempts and timeout, no idempotency key. Raises InvalidJob that lists every problem,
    UnknownKind, and IdempotencyConflict when ``key`` belongs to a different request of
    ``producer``.
    """
    given = {
        "payload": payload, "priority": priority, "delay": delay, "available_at": available_at,
        "max_attempts": max_attempts, "timeout": timeout, "key": key,
    }  # fmt: skip
    sent: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    job = check(EnqueueRequest(kind=kind, **sent))
    return enqueue_one_checked(session, job, producer=producer, actor=actor, via=via)


def enqueue_one_checked(
    session: AnySession,
    job: NewJob,
    *,
    producer: str,
    actor: str,
    via: str,
    whole: bool = False,
    ceiling: int | None = None,
) -> Enqueued:
    """Create a job that ``check`` has returned, in one statement.

    ``whole``: which answers with the job's row as well. ``ceiling``: the highest id a new one may
    have.
    """
    who = {"producer": producer, "actor": actor, "via": via}
    made = transitions.enqueue_one(_database(session), job, **who, whole=whole, ceiling=ceiling)
    answer = _answered(job, made)
    if answer.outcome == "conflict":
        raise IdempotencyConflict(
            conflict_detail(answer), job_id=answer.id, fields=list(answer.fields)
        )
    return answer


def enqueue_many(
    session: AnySession,
    requests: Sequence[EnqueueRequest],
    *,
    producer: str = "app",
    actor: str = "app",
    via: str = "python",
) -> list[Enqueued]:
    """Create many jobs, thousands in a statement; the answers come in the order of ``requests``.

    All or none: raises InvalidJob with every problem of every job, pointers beginning with the
    job's place (``/3/payload/to``). A conflict of keys is no error here: it is that job's outcome.
    """
    jobs: list[NewJob] = []
    problems: list[Problem] = []
    for place, request in enumerate(requests):
        sent = request.sent()
        text, found = check_sent(sent)
        if found:
            problems += [{**one, "pointer": f"/{place}{one['pointer']}"} for one in found]
        elif not problems:
            jobs.append(_resolved(sent, text))
    _refuse(problems, requests)
    return enqueue_checked(session, jobs, producer=producer, actor=actor, via=via)


def check(request: EnqueueRequest) -> NewJob:
    """The job that ``request`` asks for. Raises InvalidJob that lists every problem."""
    sent = request.sent()
    text, problems = check_sent(sent)
    _refuse(problems, [request])
    return _resolved(sent, text)


def enqueue_checked(
    session: AnySession, jobs: Sequence[NewJob], *, producer: str, actor: str, via: str
) -> list[Enqueued]:
    """Create jobs that ``check`` has returned; the answers come in their order."""
    if not jobs:
        return []
    who = {"producer": producer, "actor": actor, "via": via}
    answers = transitions.enqueue(_database(session), jobs, **who)
    return [_answered(job, answer) for job, answer in zip(jobs, answers, strict=True)]


def conflict_detail(answer: Enqueued) -> str:
    """Say whose the key is, and what differs."""
    return (
        f"the idempotency key belongs to job {answer.id}, asked for with a different"
        f" {', '.join(answer.fields)}"
    )


def _refuse(problems: list[Problem], requests: Sequence[EnqueueRequest]) -> None:
    if not problems:
        return
    unknown = sorted({request.kind for request in requests if is_unknown(request.kind)})
    if unknown and all(one["pointer"].endswith("/kind") for one in problems):
        names = ", ".join(unknown)
        raise UnknownKind(f"no handler here runs {names}", errors=problems, kinds=unknown)
    first = f"{problems[0]['pointer']} {problems[0]['detail']}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    errors = first_of(problems) if len(requests) == 1 else problems
    raise InvalidJob(f"the job is not valid: {first}{more}", errors=errors)


def _database(session: AnySession) -> Session | Connection:
    return session() if isinstance(session, scoped_session) else session


def _answered(job: NewJob, answer: transitions.Enqueued) -> Enqueued:
    if answer.outcome != "conflict":
        return Enqueued(answer.id, answer.outcome, (), answer.row)
    differing = differing_fields(job.request_hash or "", answer.request_hash)
    return Enqueued(answer.id, answer.outcome, differing, answer.row)


def _resolved(sent: dict[str, Any], payload: str) -> NewJob:
    known = registry.find(sent["kind"])
    attempts = known.max_attempts if known else None
    job = NewJob(
        kind=sent["kind"],
        payload=Json(payload),
        max_attempts=attempts or policy.current().max_attempts,
        timeout_s=known.timeout_s if known else None,
    )
    # Most say no more than that, and pay for no more.
    for name, value in sent.items():
        if name in _RESOLVED:
            _RESOLVED[name](job, value)
    if "key" in sent:
        job.key, job.request_hash = sent["key"], _hash(sent)
    return job


def _set_delay(job: NewJob, delay: float | timedelta) -> None:
    job.delay_s = delay.total_seconds() if isinstance(delay, timedelta) else delay


def _set_instant(job: NewJob, due: datetime | str) -> None:
    job.available_at = instant(due)


def _set(field_name: str) -> Callable[[NewJob, Any], None]:
    return lambda job, value: setattr(job, field_name, value)


_RESOLVED: dict[str, Callable[[NewJob, Any], None]] = {
    "priority": _set("priority"),
    "delay": _set_delay,
    "available_at": _set_instant,
    "max_attempts": _set("max_attempts"),
    "timeout": _set("timeout_s"),
}


def _hash(sent: dict[str, Any]) -> str:
    asked = {name: value for name, value in sent.items() if name != "key"}
    if "available_at" in asked:
        asked["available_at"] = instant(asked["available_at"])
    return request_hash(asked)
