"""An index of the jobs that are held by themselves, so that all of them are counted and found."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Only held rows are in it: no claim, renewal or end of an attempt pays for it. Moves wait while
    # it is built, in one read of the table, and readers wait for nothing. CONCURRENTLY would wait
    # for the oldest transaction of all, outside of ours.
    op.execute(
        "CREATE INDEX ix_jobs_held_alone ON jobs (kind, id)"
        " WHERE status = 'held' AND held_for = 'job'"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_jobs_held_alone")
