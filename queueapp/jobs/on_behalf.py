"""On behalf of which request the present code acts: it is written into what people do.

A log has the same id, so that a line of the audit trail leads to what else the request did.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

# The id of the request; None where nobody asks over HTTP: a worker, a command, an own program.
REQUEST: ContextVar[str | None] = ContextVar("queue_request_id", default=None)


def told() -> dict[str, Any]:
    """What a line of the ledger says of the request, if there is one."""
    request_id = REQUEST.get()
    return {} if request_id is None else {"request_id": request_id}
