"""A producer in another language, written from ``/api/docs/`` alone: create, wait for, cancel."""

from __future__ import annotations

import re
from pathlib import Path

from queueapp.auth.tokens import entry_of, new_token
from tests.live import needs
from tests.live.checks import stand
from tests.live.journey import Journey

PRODUCER = Path(__file__).parents[2] / "examples" / "producers" / "producer.mjs"


def test_a_producer_in_node_creates_waits_and_cancels(journey: Journey) -> None:
    node, token = needs.program("node", "nodejs"), new_token()
    web = journey.web(QUEUE_TOKENS=entry_of(token, "shop", "producer"))
    url = f"http://127.0.0.1:{web.port}"
    # While nobody runs the first job, its producer waits, for as long as it takes.
    producer = journey.processes.start_line(
        "producer", f"exec '{node}' '{PRODUCER}'", QUEUE_URL=url, QUEUE_TOKEN=token
    )
    journey.work("--concurrency=1")

    assert producer.wait() == 0, producer.said()
    one, later, cancelled = producer.said().splitlines()
    assert re.fullmatch(r"job (\d+): succeeded { slept_s: 1 }", one)
    assert re.match(r"job (\d+): queued, due 20", later)
    assert re.fullmatch(r"job (\d+): cancelled", cancelled)
    rows = journey.rows("SELECT producer, status FROM jobs ORDER BY id")
    assert [tuple(row) for row in rows] == [("shop", "succeeded"), ("shop", "cancelled")]

    # A refusal is told with the place of what is wrong, and ends the script.
    refused = journey.processes.start_line(
        "refused", f"exec '{node}' '{PRODUCER}'", QUEUE_URL=url, QUEUE_TOKEN="wrong"
    )
    assert refused.wait() == 1
    assert "not_authenticated" in refused.said()
    stand(journey)
