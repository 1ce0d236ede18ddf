"""Every deliberate failure: its class, its stable code and its HTTP status.

Raise one class per cause that a caller can act on. ``code`` never changes; the message is for
people and names the bad value and the way out; ``context`` carries the same facts for programs
and becomes members of the problem+json answer.
"""

from __future__ import annotations

from typing import Any, ClassVar


class QueueError(Exception):
    """Base of all deliberate failures."""

    code: ClassVar[str] = "queue_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "The queue could not do this"

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class SettingError(QueueError):
    """A setting is missing or unusable; the message names it."""

    code = "bad_setting"
    title = "A setting is wrong"


class BadRequest(QueueError):
    """Not JSON, a bad header or a bad query parameter."""

    code = "bad_request"
    status = 400
    title = "The request cannot be read"


class NotAuthenticated(QueueError):
    """No usable credentials where some are needed."""

    code = "not_authenticated"
    status = 401
    title = "Credentials are needed"


class NotAllowed(QueueError):
    """The caller is known but may not do this, or nobody may from where they are."""

    code = "not_allowed"
    status = 403
    title = "Not allowed"


class OperationNeedsAdmin(QueueError):
    """The operation is for more jobs than an operator may move, for all there are, or it purges."""

    code = "operation_needs_admin"
    status = 403
    title = "An admin has to apply this operation"


class BeyondLimit(QueueError):
    """The token's role grants it, a limit of the token does not; ``limit`` names it, ``errors``."""

    code = "beyond_limit"
    status = 403
    title = "Beyond a limit of this token"


class ReadOnly(QueueError):
    """QUEUE_READ_ONLY is on: neither the console nor the API changes anything, for whoever asks."""

    code = "read_only"
    status = 403
    title = "Nothing is changed from here"


class JobNotFound(QueueError):
    """No job with that id: it never existed, or it was purged, by retention or by an admin."""

    code = "job_not_found"
    status = 404
    title = "No such job"


class KindNotFound(QueueError):
    """No kind of that name may be created here."""

    code = "kind_not_found"
    status = 404
    title = "No such kind"


class OperationNotFound(QueueError):
    """No operation of that id: it was never planned, or its lines of the ledger are too old."""

    code = "operation_not_found"
    status = 404
    title = "No such operation"


class WorkerNotFound(QueueError):
    """No worker of that name holds a job, or has been heard of since yesterday."""

    code = "worker_not_found"
    status = 404
    title = "No such worker"


class PageNotFound(QueueError):
    """The router knows no such address."""

    code = "not_found"
    status = 404
    title = "No such address"


class MethodNotAllowed(QueueError):
    """The address exists, the method does not."""

    code = "method_not_allowed"
    status = 405
    title = "Method not allowed"


class RequestTimeout(QueueError):
    """The request came too slowly, or stopped on its way."""

    code = "request_timeout"
    status = 408
    title = "The request comes too slowly"


class IllegalMove(QueueError):
    """The job's status does not allow this verb; the answer has ``job_id`` and ``job_status``."""

    code = "illegal_move"
    status = 409
    title = "The job's status does not allow this"


class JobBusy(QueueError):
    """Another session has held the job's row for longer than a person should wait."""

    code = "job_busy"
    status = 409
    title = "The job is locked by somebody else"


class OperationBusy(QueueError):
    """Somebody else is applying the operation at this moment."""

    code = "operation_busy"
    status = 409
    title = "The operation is being applied by somebody else"


class OperationStopped(QueueError):
    """The operation was stopped, and stays so: plan another one for what it has left."""

    code = "operation_stopped"
    status = 409
    title = "The operation was stopped"


class NotUndoable(QueueError):
    """There is no way back from this operation, or not yet; the detail says why."""

    code = "not_undoable"
    status = 409
    title = "The operation cannot be undone"


class CannotDrain(QueueError):
    """The worker has ended, or leases over HTTP; the detail says which."""

    code = "cannot_drain"
    status = 409
    title = "The worker cannot be asked to drain"


class WorkerIsLive(QueueError):
    """A worker that lives keeps its jobs, unless somebody says that they know it does."""

    code = "worker_is_live"
    status = 409
    title = "The worker lives"


class IdempotencyConflict(QueueError):
    """The key made something else: ``job_id`` or ``operation``; ``fields`` names what differs."""

    code = "idempotency_conflict"
    status = 409
    title = "The idempotency key belongs to a different request"


class LeaseLost(QueueError):
    """Every lease of the request is lost: its jobs are somebody else's, or over. ``items``."""

    code = "lease_lost"
    status = 409
    title = "The leases are lost"


class CursorGone(QueueError):
    """What the cursor stood behind is not in this ledger (any more): begin again without one."""

    code = "cursor_gone"
    status = 410
    title = "The cursor leads nowhere"


class BodyTooLarge(QueueError):
    """The request body is over the limit."""

    code = "body_too_large"
    status = 413
    title = "The request body is too large"


class NotJson(QueueError):
    """The body is of another media type than application/json."""

    code = "unsupported_media_type"
    status = 415
    title = "The body must be application/json"


class InvalidRequest(QueueError):
    """Well-formed but invalid; ``errors`` lists the problems: ``{"pointer", "detail"}``."""

    code = "invalid_request"
    status = 422
    title = "The request is not valid"


class InvalidJob(InvalidRequest):
    """A job that cannot be enqueued as asked for; ``errors`` lists the problems."""

    code = "invalid_job"
    title = "The job is not valid"


class UnknownKind(InvalidJob):
    """No handler of that kind is registered."""

    code = "unknown_kind"
    title = "No handler for this kind"


class RateLimited(QueueError):
    """The token has created as many jobs as its rate allows; ``retry_after`` says when to go on."""

    code = "rate_limited"
    status = 429
    title = "Faster than this token may"


class QueueFull(QueueError):
    """As many jobs wait as may (QUEUE_HARD_LIMIT); ``retry_after`` says when to try again."""

    code = "queue_full"
    status = 429
    title = "The queue is full"


class DatabaseUnavailable(QueueError):
    """The database does not answer, or is read-only. ``retry_after`` says when to try again."""

    code = "database_unavailable"
    status = 503
    title = "The database is not available"


class TooManyWaiters(QueueError):
    """As many requests wait, or export, already as may. ``retry_after`` says when to try again."""

    code = "too_many_waiters"
    status = 503
    title = "Too many requests are waiting"


class SchemaMismatch(QueueError):
    """The database's schema is not the one this release needs."""

    code = "schema_mismatch"
    status = 503
    title = "The database schema does not fit this release"
