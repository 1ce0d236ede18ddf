"""Behind a transaction pooler the role's settings hold: what is refused, what is advised."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.errors import SettingError
from queueapp.jobs import pooled

GOOD = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "idle_in_transaction_session_timeout": "1h",
}


def tell(session: Session, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        session.execute(text(f"SET LOCAL {name} = '{value}'"))


def test_settings_that_would_be_better_are_named_in_words_that_can_be_pasted(
    session: Session,
) -> None:
    tell(session, GOOD)
    assert pooled.check(session) == []

    tell(session, {"jit": "on", "idle_in_transaction_session_timeout": "0"})
    [warning] = pooled.check(session)

    statements = warning.partition("are: ")[2]
    role = session.scalar(text("SELECT quote_ident(current_user)"))
    assert statements == (
        f"ALTER ROLE {role} SET jit = off;"
        f" ALTER ROLE {role} SET idle_in_transaction_session_timeout = '1h'"
    )
    session.execute(text(statements))
    session.rollback()


@pytest.mark.parametrize("level", ["serializable", "repeatable read", "read uncommitted"])
def test_another_isolation_is_refused_with_the_cure(session: Session, level: str) -> None:
    tell(session, {"default_transaction_isolation": level})

    with pytest.raises(SettingError, match="SET default_transaction_isolation = 'read committed'"):
        pooled.check(session)


def test_a_date_style_that_the_driver_cannot_read_is_refused_with_the_cure(
    session: Session,
) -> None:
    tell(session, {"datestyle": "SQL, DMY"})

    with pytest.raises(SettingError, match="SET datestyle = 'ISO'"):
        pooled.check(session)
