"""Operations: one verb over all jobs that a filter finds, planned first, then applied in batches.

Their whole state is the ``op_`` events of the scope ``op:<id>`` in the ledger. A plan remembers
what was visible when it was made; a batch moves only jobs of which the ledger has said nothing
since. So neither two drivers nor a repeated request can move a job twice, and jobs that are created
or moved later are not touched.
"""

from queueapp.jobs.operations.canary import Canary, Terms, Trial, open_ones, trials_of
from queueapp.jobs.operations.driver import BATCH, advance, step, stop
from queueapp.jobs.operations.planning import Survey, left_of, plan, sample_of, survey
from queueapp.jobs.operations.state import Operation, State, find
from queueapp.jobs.operations.verbs import VERBS
from queueapp.jobs.operations.walk import Counts

__all__ = [
    "BATCH",
    "VERBS",
    "Canary",
    "Counts",
    "Operation",
    "State",
    "Survey",
    "Terms",
    "Trial",
    "advance",
    "find",
    "left_of",
    "open_ones",
    "plan",
    "sample_of",
    "step",
    "stop",
    "survey",
    "trials_of",
]
