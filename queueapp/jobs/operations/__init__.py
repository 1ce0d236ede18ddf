"""Operations: one verb over all jobs that a filter finds, planned first, then applied in batches.

Their whole state is the ``op_`` events of the scope ``op:<id>`` in the ledger. A plan remembers
what was visible when it was made; a batch moves only jobs of which the ledger has said nothing
since. So neither two drivers nor a repeated request can move a job twice, and jobs that are created
or moved later are not touched. The line of a batch names its jobs, which is where an undo begins.
"""

from queueapp.jobs.operations.canary import Terms, Trial, open_ones, trials_of
from queueapp.jobs.operations.driver import (
    BATCH,
    advance,
    count,
    refuse_beyond,
    refuse_verb,
    step,
    stop,
)
from queueapp.jobs.operations.listing import Cursor, Mark, list_operations, moved_by
from queueapp.jobs.operations.planning import (
    left_of,
    plan,
    planned_before,
    sample_of,
    survey,
    survey_undo,
    why_not_undone,
)
from queueapp.jobs.operations.state import Operation, State, find, known_id
from queueapp.jobs.operations.undo import ASKED_TO_STOP, CHANGED, UNDO
from queueapp.jobs.operations.undone import Undone, undone_of
from queueapp.jobs.operations.verbs import FOR_ADMINS, VERBS
from queueapp.jobs.operations.walk import Counts, Sample, statuses_of

__all__ = [
    "ASKED_TO_STOP",
    "BATCH",
    "CHANGED",
    "FOR_ADMINS",
    "UNDO",
    "VERBS",
    "Counts",
    "Cursor",
    "Mark",
    "Operation",
    "Sample",
    "State",
    "Terms",
    "Trial",
    "Undone",
    "advance",
    "count",
    "find",
    "known_id",
    "left_of",
    "list_operations",
    "moved_by",
    "open_ones",
    "plan",
    "planned_before",
    "refuse_beyond",
    "refuse_verb",
    "sample_of",
    "statuses_of",
    "step",
    "stop",
    "survey",
    "survey_undo",
    "trials_of",
    "undone_of",
    "why_not_undone",
]
