"""The readings of the metrics."""

from __future__ import annotations

from queueapp.jobs.metrics import measuring
from queueapp.jobs.sqlite.replacements import reworded

reworded(
    measuring.LAST_LINES,
    """
SELECT created_at, data -> 'totals' AS "totals [json_text]", data -> 'claim' AS "claim [json_text]"
FROM job_events
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND data ->> 'drill' IS NULL
  AND created_at >= :lately AND created_at < :tomorrow
ORDER BY id DESC LIMIT :lines""",
)
