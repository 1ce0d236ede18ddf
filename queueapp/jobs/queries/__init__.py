"""Every shared read. Reads never write, never count without a bound, never load bodies in lists.

Statuses stand in the statements as literals, so that a generic plan can use the partial indexes.
"""

from queueapp.jobs.queries.actions import Action, last_actions, marks_of_hour
from queueapp.jobs.queries.activity import failed_since, longest_running
from queueapp.jobs.queries.acts import Act, ActFilter, Did
from queueapp.jobs.queries.bodies import Bodies, Body, bodies_of
from queueapp.jobs.queries.bounds import COUNT_LIMIT, SCAN_LIMIT, bound_reads
from queueapp.jobs.queries.clock import Pulse, database_now, pulse, pulse_of_job
from queueapp.jobs.queries.counting import Counted, Split, count_jobs, split_jobs
from queueapp.jobs.queries.deploys import last_deploy
from queueapp.jobs.queries.depth import (
    PriorityDepth,
    WaitingCounts,
    depth_by_priority,
    priorities_are_cut,
    status_counts,
)
from queueapp.jobs.queries.drain import claims_per_s
from queueapp.jobs.queries.failures import (
    Group,
    Window,
    failure_window,
    group_of,
    groups_of,
    newest_alike,
)
from queueapp.jobs.queries.feed import FeedCursor, end_of_feed, read_feed
from queueapp.jobs.queries.filters import JobFilter, Span, View
from queueapp.jobs.queries.ledger import (
    Cursor,
    EventFilter,
    EventPage,
    events_of,
    last_failure,
    latest_events_of,
    list_events,
    purge_of,
)
from queueapp.jobs.queries.line import Line, waiting_line
from queueapp.jobs.queries.listing import Page, get_head, get_job, heads_of, list_jobs
from queueapp.jobs.queries.oldest import old_transaction, oldest_transaction_s
from queueapp.jobs.queries.payload_fields import (
    MOST_FIELDS,
    PayloadField,
    payload_field,
    payload_fields,
    read_payload_field,
)
from queueapp.jobs.queries.payloads import Field, fields_of
from queueapp.jobs.queries.samples import Sample, samples_of
from queueapp.jobs.queries.standings import Standing, standings_of
from queueapp.jobs.queries.trail import ActPage, list_acts

__all__ = [
    "COUNT_LIMIT",
    "MOST_FIELDS",
    "SCAN_LIMIT",
    "Act",
    "ActFilter",
    "ActPage",
    "Action",
    "Bodies",
    "Body",
    "Counted",
    "Cursor",
    "Did",
    "EventFilter",
    "EventPage",
    "FeedCursor",
    "Field",
    "Group",
    "JobFilter",
    "Line",
    "Page",
    "PayloadField",
    "PriorityDepth",
    "Pulse",
    "Sample",
    "Span",
    "Split",
    "Standing",
    "View",
    "WaitingCounts",
    "Window",
    "bodies_of",
    "bound_reads",
    "claims_per_s",
    "count_jobs",
    "database_now",
    "depth_by_priority",
    "end_of_feed",
    "events_of",
    "failed_since",
    "failure_window",
    "fields_of",
    "get_head",
    "get_job",
    "group_of",
    "groups_of",
    "heads_of",
    "last_actions",
    "last_deploy",
    "last_failure",
    "latest_events_of",
    "list_acts",
    "list_events",
    "list_jobs",
    "longest_running",
    "marks_of_hour",
    "newest_alike",
    "old_transaction",
    "oldest_transaction_s",
    "payload_field",
    "payload_fields",
    "priorities_are_cut",
    "pulse",
    "pulse_of_job",
    "purge_of",
    "read_feed",
    "read_payload_field",
    "samples_of",
    "split_jobs",
    "standings_of",
    "status_counts",
    "waiting_line",
]
