"""The same as in process, against gunicorn, as whoever has which token, or none."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.from_document import schemathesis, try_all, wait_for_nothing
from tests.live.journey import Journey
from tests.live.raw import children_of

ROLES = ("admin", "viewer", "producer", "worker")
TOKENS = " ".join(
    f"{role}:{role}:{hashlib.sha256(f'of-{role}'.encode()).hexdigest()}" for role in ROLES
)
# The machine itself, which needs no token; then tokens are asked for.
CALLERS = [
    *((caller, seed) for seed in range(1, 6) for caller in ("machine", "admin")),
    *((caller, 1) for caller in ("viewer", "producer", "worker", "nobody")),
]
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("caller", "seed"), CALLERS)
def test_no_answer_of_gunicorn_is_undocumented(journey: Journey, caller: str, seed: int) -> None:
    settings = {} if caller == "machine" else {"QUEUE_TOKENS": TOKENS}
    web = journey.web(workers=2, threads=4, **settings)
    workers = children_of(web.process)
    schema = schemathesis().openapi.from_url(f"http://127.0.0.1:{web.port}/api/openapi.json")
    checks = [getattr(schemathesis().checks, name) for name in CHECKS]
    headers = {"Authorization": f"Bearer of-{caller}"} if caller in ROLES else {}

    met: Counter[int] = Counter()
    how: dict[str, Any] = {"before": wait_for_nothing, "checks": checks, "headers": headers}
    for mode in ("positive", "negative"):
        met += try_all(schema, mode, seed, examples=6, **how)

    sys.stdout.write(
        f"{caller}, seed {seed}: {met.total()} requests, {dict(sorted(met.items()))}\n"
    )
    assert not [status for status in met if status >= 500]
    assert children_of(web.process) == workers, "a worker has died"
    assert "Traceback" not in web.process.said()
    stand(journey)
