"""The product's own hot statement, driven by pgbench: what its SQL gives without any Python.

The script is made from the statement that a worker sends, so that it cannot drift from it. What one
call claims, the next one settles: the claims come back as the document of outcomes (and the place
where the next claim begins) in two variables of pgbench. So does an outcome that was not accepted:
a rival's claim may have come too late for a row and hold it locked for a moment.
"""

from __future__ import annotations

import re

from bench.pgbench import Script
from queueapp.connections import WORKER_SESSION
from queueapp.jobs.cursor import NOWHERE
from queueapp.jobs.transitions.settle import exchange_statement

# As the default worker has them: ten threads, the rest of a batch is prefetched.
SLOTS = 10
_PARAMETER = re.compile(r"%\((\w+)\)s")
# The last SELECT: what the worker reads. It becomes one more CTE, for a statement that writes must
# stand at the top.
_ANSWER = " SELECT NULL AS settled,"

# What a worker would send of jobs that did nothing.
_OUTCOME = (
    "jsonb_build_object('id', id, 'token', token, 'verb', 'succeed', 'ran_s', 0.00001,"
    " 'data', jsonb_build_object('run_ms', 0.01, 'slot', 0))"
)
_PLACE = (
    "jsonb_build_object('priority', priority, 'available_at', available_at,"
    " 'created_at', created_at, 'id', id)"
)


def script(*, batch: int, clients: int) -> Script:
    """Claim ``batch`` jobs a call and settle them with the next one.

    What the last call of each client has claimed is left running.
    """
    variables = {
        "outcomes": "[]", "places": NOWHERE, "me": "pgbench", "lease": 60, "job_timeout": 3600,
        "n": batch, "slots": min(batch, SLOTS),
    }  # fmt: skip
    text = made_of(exchange_statement(only=False, skip=False))
    unknown = set(_PARAMETER.findall(exchange_statement(only=False, skip=False))) - set(variables)
    if unknown:
        raise ValueError(f"the statement has parameters that are not known here: {unknown}")
    return Script(text=text, variables=variables, session=WORKER_SESSION, clients=clients)


def made_of(statement: str) -> str:
    """The script: ``statement`` on one line, its answer folded into the variables of the next."""
    if statement.count(_ANSWER) != 1:
        raise ValueError("the statement does not end as expected: look at bench/exchange.py")
    writing, answer = _PARAMETER.sub(r":\1", statement.replace("%%", "%")).split(_ANSWER)
    # The payload is looked at, as if it were sent.
    return (
        f"{writing}, answer AS MATERIALIZED (SELECT NULL AS settled,{answer}),"
        f" claims AS (SELECT * FROM answer WHERE settled IS NULL),"
        f" next AS (SELECT id, lease_token AS token FROM claims UNION ALL SELECT id, token"
        f" FROM outcome WHERE token NOT IN (SELECT lease_token FROM answer WHERE settled <> ''))"
        f" SELECT (SELECT coalesce(jsonb_agg({_OUTCOME}), '[]') FROM next) AS outcomes,"
        f" coalesce((SELECT jsonb_agg({_PLACE}) FROM (SELECT DISTINCT ON (priority) * FROM claims"
        f" ORDER BY priority, available_at DESC, created_at DESC, id DESC) last), '[]') AS places,"
        f" coalesce(sum(length(payload)), 0) AS payload FROM claims\n\\gset\n"
    )
