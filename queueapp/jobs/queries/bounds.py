"""How much a read may look at, and for how long."""

from __future__ import annotations

from queueapp.jobs.database import Database, run

# Rows that a filter without an index looks at for one page, newest first.
SCAN_LIMIT = 20_000
# Counting stops one past this: the reader is told "10,000+".
COUNT_LIMIT = 10_000
LARGEST_ID = 2**63 - 1

# A plan made from stale statistics must neither scan a table nor spend its time compiling.
_BOUND = """
SELECT set_config('statement_timeout', %(milliseconds)s, true),
  set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)
"""


def bound_reads(database: Database, *, seconds: float = 2.0) -> None:
    """Give every statement of this transaction ``seconds`` at most, and index scans only."""
    run(database, _BOUND, milliseconds=str(int(seconds * 1000)))
