"""Every shared read. Reads never write, never count without a bound, never load bodies in lists.

Statuses stand in the statements as literals, so that a generic plan can use the partial indexes.
"""

from queueapp.jobs.queries.activity import (
    Outcomes,
    Throughput,
    failed_since,
    longest_running,
    newest_failures,
    throughput,
)
from queueapp.jobs.queries.bounds import COUNT_LIMIT, SCAN_LIMIT, bound_reads
from queueapp.jobs.queries.clock import Pulse, database_now, pulse
from queueapp.jobs.queries.depth import (
    PriorityDepth,
    WaitingCounts,
    depth_by_priority,
    status_counts,
)
from queueapp.jobs.queries.filters import JobFilter, View
from queueapp.jobs.queries.ledger import (
    EventFilter,
    EventPage,
    events_of,
    last_failure,
    latest_events_of,
    list_events,
)
from queueapp.jobs.queries.listing import LISTED, Page, get_job, list_jobs

__all__ = [
    "COUNT_LIMIT",
    "LISTED",
    "SCAN_LIMIT",
    "EventFilter",
    "EventPage",
    "JobFilter",
    "Outcomes",
    "Page",
    "PriorityDepth",
    "Pulse",
    "Throughput",
    "View",
    "WaitingCounts",
    "bound_reads",
    "database_now",
    "depth_by_priority",
    "events_of",
    "failed_since",
    "get_job",
    "last_failure",
    "latest_events_of",
    "list_events",
    "list_jobs",
    "longest_running",
    "newest_failures",
    "pulse",
    "status_counts",
    "throughput",
]
