"""Running ``http.request`` as a worker would, and looking at what its receiver got."""

from __future__ import annotations

import json
from typing import Any

from queueapp.handlers import JobContext, find
from tests.handlers.conftest import make_context
from tests.handlers.receiver import Received, Receiver


def request(url: str, context: JobContext | None = None, **fields: Any) -> dict[str, Any]:
    """Run the kind with ``fields``; its result, which must be JSON."""
    known = find("http.request")
    assert known is not None
    result = known.call(context or make_context(kind="http.request"), {"url": url, **fields})
    assert isinstance(result, dict)
    json.dumps(result, allow_nan=False)
    return result


def only(receiver: Receiver) -> Received:
    """The one request that ``receiver`` got."""
    (received,) = receiver.received
    return received
