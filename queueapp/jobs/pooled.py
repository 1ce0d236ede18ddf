"""What a session must be like where it cannot be told: behind a transaction pooler.

There a setting would reach whoever uses the server's connection next, so ``ALTER ROLE`` sets them.
"""

from __future__ import annotations

from queueapp.errors import SettingError
from queueapp.jobs.database import Database, run

# Every statement is written for this one; a worker's own run outside transactions of ours.
ISOLATION = "read committed"

_FOUND = """
SELECT quote_ident(current_user) AS role,
  current_setting('default_transaction_isolation') AS isolation,
  current_setting('datestyle') AS datestyle,
  array_remove(ARRAY[
    CASE WHEN current_setting('jit')::bool THEN 'jit = off' END,
    CASE WHEN current_setting('enable_seqscan')::bool THEN 'enable_seqscan = off' END,
    CASE WHEN current_setting('enable_bitmapscan')::bool THEN 'enable_bitmapscan = off' END,
    CASE WHEN current_setting('idle_in_transaction_session_timeout') = '0'
      THEN 'idle_in_transaction_session_timeout = ''1h''' END
  ], NULL) AS advised
"""


def check(database: Database) -> list[str]:
    """Look at the session that the pooler gives us; what would be better, with the words to say.

    Raises SettingError when the queue would not work right there.
    """
    [found] = run(database, _FOUND)
    if found.isolation != ISOLATION:
        raise SettingError(
            f"behind the pooler transactions are {found.isolation}, the queue needs {ISOLATION}:"
            f" ALTER ROLE {found.role} SET default_transaction_isolation = '{ISOLATION}';"
            " then have the pooler reconnect",
            setting="QUEUE_POOLER",
        )
    # The driver reads instants in no other style.
    if not found.datestyle.startswith("ISO"):
        raise SettingError(
            f"behind the pooler dates are written as {found.datestyle}, the queue needs ISO:"
            f" ALTER ROLE {found.role} SET datestyle = 'ISO'; then have the pooler reconnect",
            setting="QUEUE_POOLER",
        )
    if not found.advised:
        return []
    lines = "; ".join(f"ALTER ROLE {found.role} SET {each}" for each in found.advised)
    return [f"behind a pooler the role's own settings hold, better ones are: {lines}"]
