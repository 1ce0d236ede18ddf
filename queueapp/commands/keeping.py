"""How long what is kept, from the settings: for workers and for ``flask purge``."""

from __future__ import annotations

from datetime import timedelta

from queueapp.config import Settings
from queueapp.jobs.transitions import Keep


def keep_of(settings: Settings) -> Keep:
    """How long what is kept."""
    return Keep(
        succeeded=timedelta(seconds=settings.keep_succeeded),
        failed=timedelta(seconds=settings.keep_failed),
        cancelled=timedelta(seconds=settings.keep_cancelled),
        keyed=timedelta(days=settings.idempotency_days),
        ledger=timedelta(seconds=settings.keep_ledger),
    )
