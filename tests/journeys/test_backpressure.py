"""Producers that are faster than the workers: refused in time, and nothing accepted is lost."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until

DEPTH = "SELECT count(*) FROM jobs WHERE status = 'queued'"
TICK = {"kind": "journey.tick", "payload": {"ms": 30}}


class Producer:
    """Creates jobs as fast as it is answered, on several connections, whatever the answer is."""

    def __init__(self, web: Web, name: str, connections: int = 4) -> None:
        self.accepted: list[int] = []
        self.answers: Counter[int] = Counter()
        self.waits: list[str | None] = []
        self._web, self._name = web, name
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(number,)) for number in range(connections)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _produce(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._web.port, timeout=30)
        with contextlib.closing(connection):
            for path, wanted in self._requests(number):
                if self._stop.is_set():
                    return
                headers = {"Content-Type": "application/json"}
                connection.request("POST", path, json.dumps(wanted), headers)
                answer = connection.getresponse()
                self._note(answer, json.loads(answer.read()))

    def _requests(self, number: int) -> Iterator[tuple[str, Any]]:
        """One by one, with a key and without, and together, all or none and each by itself."""
        for turn in itertools.count():
            keys = [f"{self._name}-{number}-{turn}-{place}" for place in range(5)]
            keyed = [{**TICK, "idempotency_key": key} for key in keys]
            yield "/api/jobs", TICK
            yield "/api/jobs", keyed[0]
            yield "/api/jobs/bulk", [*keyed, *[TICK] * 2]
            yield "/api/jobs/bulk?atomic=false", [TICK] * 7

    def _note(self, answer: http.client.HTTPResponse, told: dict[str, Any]) -> None:
        self.answers[answer.status] += 1
        if answer.status == 429:
            assert told["code"] == "queue_full", told
            self.waits.append(answer.headers["Retry-After"])
        made = told.get("items", [told] if answer.status == 201 else [])
        self.accepted += [one["id"] for one in made if one.get("outcome", "new") == "new"]


class Watch:
    """Counts what waits, again and again."""

    def __init__(self, journey: Journey) -> None:
        self.depths: Counter[int] = Counter()
        self._journey = journey
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        with self._journey.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            while not self._stop.is_set():
                self.depths[connection.scalar(sa.text(DEPTH)) or 0] += 1


def has_both(producers: list[Producer], *, accepted: int, refused: int) -> bool:
    """Whether so many jobs were accepted, and so many requests refused."""
    jobs = sum(len(one.accepted) for one in producers)
    return jobs >= accepted and sum(one.answers[429] for one in producers) >= refused


@pytest.mark.timeout(240)
@pytest.mark.postgresql("several processes that create")
@pytest.mark.parametrize(("limit", "jobs"), [(60, 200), (500, 2_500)])
@pytest.mark.slow
def test_two_producers_at_full_speed_keep_to_the_hard_limit_and_lose_nothing(
    journey: Journey, limit: int, jobs: int
) -> None:
    web = journey.web(workers=2, threads=4, QUEUE_HARD_LIMIT=str(limit))
    # What is given back unused would wait again, beside the limit.
    worker = journey.work("--concurrency", "2", QUEUE_PREFETCH="0")

    watch = Watch(journey)
    producers = [Producer(web, name) for name in ("a", "b")]
    try:
        until(lambda: has_both(producers, accepted=jobs, refused=50), "enough of both", 100)
    finally:
        for one in producers:
            one.stop()
        watch.stop()

    ids = [job for one in producers for job in one.accepted]
    assert max(watch.depths) == limit, "never above, and used up to it"
    assert {status for one in producers for status in one.answers} == {200, 201, 429}
    # Nothing is known of the rate within the first minute.
    assert {wait for one in producers for wait in one.waits} <= {"60", *map(str, range(1, 60))}
    enqueued = journey.rows("SELECT job_id FROM job_events WHERE event = 'enqueued'")
    assert sorted(row.job_id for row in enqueued) == sorted(ids), "each once, and no other"
    journey.wait_for_end(ids)
    assert worker.is_running
    stand(journey, accepted=ids)
