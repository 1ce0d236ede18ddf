"""Operations: one verb over all jobs that a filter finds, planned first, then applied in batches.

Their whole state is the ``op_`` events of the scope ``op:<id>`` in the ledger. A plan remembers
what was visible when it was made; a batch moves only jobs of which the ledger has said nothing
since. So neither two drivers nor a repeated request can move a job twice, and jobs that are created
or moved later are not touched.
"""

from queueapp.jobs.operations.driver import BATCH, step, stop
from queueapp.jobs.operations.planning import Survey, left_of, plan, survey
from queueapp.jobs.operations.state import Operation, State, find
from queueapp.jobs.operations.verbs import VERBS
from queueapp.jobs.operations.walk import Counts

__all__ = [
    "BATCH",
    "VERBS",
    "Counts",
    "Operation",
    "State",
    "Survey",
    "find",
    "left_of",
    "plan",
    "step",
    "stop",
    "survey",
]
