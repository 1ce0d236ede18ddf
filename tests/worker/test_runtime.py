"""What a worker does with its connections: at its end, and while the server has few."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from queueapp.extensions import db
from queueapp.worker import runtime
from queueapp.worker.line import Line
from queueapp.worker.shutdown import MARGIN_S, SIGN_OFF_S
from tests.worker.conftest import Bench


@pytest.mark.postgresql("refused connections")
def test_a_connection_that_gave_way_is_closed_when_it_returns(bench: Bench) -> None:
    worker = bench.worker()
    with bench.app.app_context():
        idle, used = db.engine.raw_connection(), db.engine.raw_connection()
        drivers: list[Any] = [idle.driver_connection, used.driver_connection]
        idle.close()

        worker._give_way()
        found = [driver.closed for driver in drivers]
        used.close()
        with db.engine.connect() as fresh:
            assert fresh.exec_driver_sql("SELECT 1").scalar() == 1

    assert found == [True, False]
    assert all(driver.closed for driver in drivers)


def test_nobody_waits_long_for_a_sign_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = bench.worker()
    for loop in worker._loops:
        loop.stop()
        loop.start()
    monkeypatch.setattr(runtime, "SIGN_OFF_S", 0.1)
    over = threading.Event()
    monkeypatch.setattr(worker.upkeep, "sign_off", lambda _reason: over.wait(60))

    worker._sign_off()

    assert not over.is_set()
    assert "could not sign off" in caplog.text
    over.set()
    assert SIGN_OFF_S < MARGIN_S


@pytest.mark.postgresql("connections that are cut")
def test_a_line_that_is_lent_is_not_cut_for_its_borrower(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lender, borrower, third = (Line(bench.engine) for _ in range(3))
    borrower.share_with(lender, give_way=lambda: None)
    monkeypatch.setattr(borrower, "_opened", lambda: (None, None))
    lender.open()
    done: list[Any] = []

    with borrower.use() as connection:

        def cut(but_for: Line) -> None:
            thread = threading.Thread(target=lambda: lender.cut(but_for=but_for))
            thread.start()
            thread.join(10)

        cut(borrower)
        done.append(connection.exec_driver_sql("SELECT 1").scalar())
        cut(third)
        driver: Any = connection.connection.driver_connection
        with pytest.raises(psycopg.OperationalError):
            driver.execute("SELECT 1")

    assert done == [1]
    lender.drop()
