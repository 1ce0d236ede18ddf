"""How long a worker waits at its start for a database, and how much it says meanwhile."""

from __future__ import annotations

import logging
import time

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from queueapp.worker import patience

NOWHERE = "postgresql+psycopg://127.0.0.1:1/none"


def test_a_drain_waits_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    monkeypatch.setattr(patience, "LONGEST_WAIT_S", 2.0)
    engine = sa.create_engine(NOWHERE, poolclass=sa.NullPool)

    with caplog.at_level(logging.WARNING), pytest.raises(OperationalError):
        patience.wait_for_database(engine, deadline=1000.0 + patience.DRAIN_WAIT_S)

    assert 55 < clock[0] - 1000.0 <= 60
    told = [one for one in caplog.records if "takes no connection yet" in one.message]
    # About 30 tries: the first three, then every tenth.
    assert 5 <= len(told) <= 6
