"""Rules for the database: what it refuses, and what will become a problem. Pure."""

from __future__ import annotations

from queueapp.jobs.partitions import WARN_BELOW_DAYS
from queueapp.jobs.queries.oldest import OLD_S
from queueapp.jobs.verdict.facts import Facts, NoWrites
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.why.words import counted, span


def read_only(facts: Facts) -> Said | None:
    """The database refuses whatever would be written. A standby is as it should be."""
    if facts.no_writes is not NoWrites.READ_ONLY:
        return None
    return Said(
        Level.RED,
        "The database takes no writes: no job can be created, claimed or ended.",
        None,
        {},
        ("/system",),
    )


def ledger_ends(facts: Facts) -> Said | None:
    """The ledger has no partitions for the days to come."""
    assert facts.system is not None
    days = facts.system.days_ahead
    if days >= WARN_BELOW_DAYS:
        return None
    left = f"for {counted(days, 'day')} ahead only" if days >= 0 else "not even for today"
    return Said(
        Level.AMBER,
        f"The ledger has partitions {left}.",
        None,
        {"days_ahead": days},
        ("/system",),
    )


def unseen(facts: Facts) -> str | None:
    """What is to be said of transactions that may be as old as they like, unseen."""
    system = facts.system
    if system is None or not system.hidden:
        return None
    return (
        f"How long transactions of other roles have been open cannot be seen:"
        f" {counted(system.hidden, 'connection')} of theirs {'is' if system.hidden == 1 else 'are'}"
        f" hidden from {system.role} (GRANT pg_read_all_stats TO {system.role})."
    )


def old_transaction(facts: Facts) -> Said | None:
    """Somebody keeps the database from cleaning up."""
    assert facts.system is not None
    open_s = facts.system.oldest_transaction_s
    if open_s is None or open_s < OLD_S:
        return None
    return Said(
        Level.AMBER,
        f"A transaction has been open for {span(open_s)}: until it ends the tables grow, and claims"
        " read more.",
        facts.ago(open_s),
        {"oldest_transaction_s": open_s},
        ("/system",),
    )
