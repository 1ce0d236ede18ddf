"""GET /api/system: what the page tells, for programs."""

from __future__ import annotations

from flask.testing import FlaskClient

from queueapp.jobs.system.report import READINGS
from queueapp.jobs.system.told import Tone
from tests.api.conftest import body


def test_every_reading_is_told_the_worst_first(client: FlaskClient) -> None:
    told = body(client.get("/api/system"))["readings"]

    assert sorted(one["code"] for one in told) == sorted(one.code for one in READINGS)
    order = [list(Tone).index(Tone(one["tone"])) for one in told]
    assert order == sorted(order)
    assert all(one["sentence"] for one in told)
