"""Whether the database can take the queue's work: writable, of the right schema, days ahead."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.errors import DatabaseUnavailable, SchemaMismatch
from queueapp.jobs import partitions, queries
from queueapp.jobs.database import Database, connection_of, run


@dataclass(frozen=True)
class Readiness:
    """A ready database. ``days_ahead``: days of the ledger made after today, -1 for none."""

    revision: str
    days_ahead: int
    old_transaction: str | None = None

    @property
    def warnings(self) -> list[str]:
        """What will become a problem unless somebody acts."""
        found = [self.old_transaction] if self.old_transaction else []
        if self.days_ahead < partitions.WARN_BELOW_DAYS:
            found.append(
                f"the ledger has partitions for {self.days_ahead} days ahead only:"
                " a running flask work makes them"
            )
        return found


def check(database: Database, head: str | None) -> Readiness:
    """Look at the database. ``head`` is the revision of this release.

    Raises DatabaseUnavailable when it is read-only, SchemaMismatch when it has another revision.
    """
    [row] = run(database, "SELECT current_setting('transaction_read_only')::bool AS read_only")
    if row.read_only:
        # It may be so of this connection alone by now.
        connection_of(database).invalidate()
        raise DatabaseUnavailable(
            "the database is read-only at the moment; try again", retry_after=5
        )
    revisions = sorted(
        row.version_num for row in run(database, "SELECT version_num FROM alembic_version")
    )
    if revisions != [head]:
        found = ", ".join(revisions) or "none"
        # Revisions are numbered: an upgrade cannot help a release that is behind its database.
        newer = head is not None and found > head and found != "none"
        way_out = "deploy the release it belongs to" if newer else "run flask db upgrade"
        raise SchemaMismatch(
            f"the database has the schema {found}, this release needs {head}: {way_out}",
            revision=found,
            needed=head,
        )
    return Readiness(
        revisions[0], partitions.days_ahead(database), queries.old_transaction(database)
    )
