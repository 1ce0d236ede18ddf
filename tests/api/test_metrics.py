"""GET /metrics: the database's numbers, whoever is asked, and nothing that is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp import judgement, shared
from queueapp.api import metrics
from queueapp.api.exposition import exposition
from queueapp.extensions import db
from queueapp.jobs import control, queries
from queueapp.jobs.database import run
from queueapp.jobs.metrics import FAMILIES, Family, Sample, measuring
from queueapp.jobs.metrics.samples import JOB_EVENTS, READINGS
from queueapp.jobs.minute_totals import OTHER
from queueapp.jobs.queries import bound_reads, priorities
from queueapp.jobs.status import Event, Status
from queueapp.jobs.verdict import RULES
from tests.applications import NOWHERE, application
from tests.factories import make_job
from tests.jobs.filling import FINISHED, analyze, fill
from tests.jobs.plans import sequential_scans, statements_of
from tests.live.proxy import Proxy
from tests.scenes import ECHO, Scene
from tests.scraped import Scraped, scraped
from tests.sqlite import migrated

CODES = {*(rule.code for rule in RULES), "unknown", "healthy"}


@pytest.fixture
def scene(session: Session) -> Scene:
    return Scene(session)


def scrape(client: FlaskClient) -> Scraped:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    return scraped(answer.text)


def test_the_numbers_are_the_databases(client: FlaskClient, scene: Scene) -> None:
    told: dict[str, Any] = {"enqueued": 50, "claimed": 60, "succeeded": 30, "retry_scheduled": 10}
    scene.worker()
    scene.minutes(**told, retries=12, wait={"5": 60}, run={"10": 38, "3": 2}, pages=17)
    scene.due(90, priority=5)
    scene.due(20, priority=5)
    scene.due(10)
    scene.running(30)
    scene.ended(5, Status.FAILED)
    control.hold_kind(scene.session, "report.build", actor="user:bo", reason="provider down")
    scene.session.commit()

    found = scrape(client)

    assert found["queue_verdict"] == 1
    assert found.of("queue_verdict_rule", rule="failing") == 1
    assert found.by("queue_finding_level", "rule")["failing"] == 1
    wanted = {"queued": 3, "running": 1, "failed": 1, "succeeded": 0, "cancelled": 0, "held": 0}
    assert found.by("queue_jobs", "status") == wanted
    assert found["queue_due"] == 3
    assert 90 <= found["queue_oldest_due_age_seconds"] < 120
    assert found.by("queue_priority_due", "priority") == {"5": 2, "0": 1, OTHER: 0}
    assert 10 <= found.of("queue_priority_oldest_due_age_seconds", priority="0") < 40
    assert (found["queue_paused"], found["queue_kinds_held"]) == (0, 1)
    assert (found["queue_workers_alive"], found["queue_workers_expected"]) == (1, 0)
    assert (found["queue_slots"], found["queue_slots_busy"]) == (2, 1)
    assert found["queue_failed_last_hour"] == 1
    assert found["queue_arrived_per_minute"] == pytest.approx(50, rel=0.01)
    assert found["queue_ended_per_minute"] == pytest.approx(30, rel=0.01)
    assert found["queue_failed_attempts_ratio"] == 0.25
    waits = found.by("queue_recent_wait_seconds", "quantile")
    assert waits == {"0.5": 0.032, "0.95": 0.032}
    assert found.by("queue_recent_run_seconds", "quantile") == {"0.5": 1.024, "0.95": 1.024}
    assert found["queue_claim_pages"] == 17
    assert 10 <= found["queue_statistics_age_seconds"] < 40
    assert (found["queue_schema_ok"], found["queue_readings_failed"]) == (1, 0)


def test_due_jobs_at_lower_priorities_than_were_looked_at_are_told(
    client: FlaskClient, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", 2)
    for priority in range(5):
        make_job(scene.session, priority=priority)
    scene.session.commit()

    found = scrape(client)

    assert (found["queue_due"], found.of("queue_capped", count="due")) == (3, 1)
    assert found.of("queue_reading_ok", reading="line") == 0
    assert found.of("queue_jobs", status="queued") == 5


def test_what_nobody_has_counted_of_late_is_no_number(client: FlaskClient, scene: Scene) -> None:
    """Neither what it was, nor a zero; counters stand still."""
    scene.worker(stopped=130)
    scene.minutes(succeeded=30, failed=30, wait={"5": 40}, run={"10": 40}, upto=130)

    found = scrape(client)

    for name in ("arrived_per_minute", "ended_per_minute", "failed_attempts_ratio"):
        assert math.isnan(found[f"queue_{name}"]), name
    for name in ("wait", "run"):
        assert all(map(math.isnan, found.by(f"queue_recent_{name}_seconds", "quantile").values()))
    assert found.of("queue_events_total", event="succeeded") == 12 * 30
    assert found["queue_statistics_age_seconds"] >= 130


def test_counters_are_what_all_lines_have_counted(client: FlaskClient, scene: Scene) -> None:
    scene.minutes(3, enqueued=50, claimed=60, succeeded=30, retries=12, wait={"5": 59, "30": 1})

    found = scrape(client)

    assert found.of("queue_events_total", event="enqueued") == 150
    assert found.of("queue_events_total", event="purged") == 0
    assert found["queue_retries_total"] == 36
    assert found.of("queue_kind_events_total", kind=ECHO, event="succeeded") == 90
    assert found.of("queue_kind_events_total", kind=OTHER, event="succeeded") == 0
    assert found.of("queue_wait_seconds_bucket", le="0.016") == 0
    assert found.of("queue_wait_seconds_bucket", le="0.032") == 177
    assert found.of("queue_wait_seconds_bucket", le="4194.304") == 177
    assert found.of("queue_wait_seconds_count") == 180


def test_an_empty_queue_says_its_zeros(client: FlaskClient) -> None:
    found = scrape(client)

    assert (found["queue_up"], found["queue_verdict"], found["queue_due"]) == (1, 0, 0)
    assert found.by("queue_verdict_rule", "rule") == {
        code: float(code == "healthy") for code in CODES
    }
    assert found.by("queue_finding_level", "rule") == {rule.code: 0.0 for rule in RULES}
    assert found.by("queue_events_total", "event") == {str(event): 0.0 for event in JOB_EVENTS}
    assert set(found.by("queue_jobs", "status").values()) == {0.0}
    assert found.by("queue_priority_due", "priority") == {"0": 0.0, OTHER: 0.0}
    assert found["queue_oldest_due_age_seconds"] == 0
    assert math.isnan(found.of("queue_recent_wait_seconds", quantile="0.95"))
    assert math.isnan(found["queue_statistics_age_seconds"])


def test_every_metric_has_its_name_type_and_labels(client: FlaskClient, scene: Scene) -> None:
    scene.worker()
    scene.minutes(succeeded=1, pages=1)
    found = scrape(client)

    assert found.types == {family.name: str(family.type) for family in FAMILIES}
    for family in FAMILIES:
        beside = {"le"} if family.type == "histogram" else set()
        for name, labels in found.series[family.name]:
            assert {label for label, _ in labels} - beside == set(family.labels), name


def test_priorities_beyond_the_twentieth_are_told_together(
    client: FlaskClient, scene: Scene, session: Session
) -> None:
    for priority in range(-5, 21):
        make_job(session, priority=priority)
    session.commit()

    found = scrape(client).by("queue_priority_due", "priority")

    assert len(found) == 22
    assert (found["20"], found["0"], found[OTHER]) == (1, 1, 5)
    assert sum(found.values()) == 26


def test_counts_that_stopped_say_so(
    client: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    capped = dict.fromkeys(Status, 10_001)
    monkeypatch.setitem(measuring._READS, "counts", lambda *_: capped)

    found = scrape(client)

    assert set(found.by("queue_jobs", "status").values()) == {10_000.0}
    assert found.of("queue_capped", count="queued") == 1
    assert found.of("queue_capped", count="due") == 0


@pytest.mark.postgresql("a statement that takes long")
def test_what_could_not_be_read_is_left_out_and_named(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "bound_reads", partial(bound_reads, seconds=0.1))
    monkeypatch.setitem(measuring._READS, "counts", lambda it, _: run(it, "SELECT pg_sleep(9)"))

    found = scrape(client)

    assert found["queue_up"] == 1
    assert found.of("queue_reading_ok", reading="counts") == 0
    assert found.of("queue_reading_ok", reading="notify") == 1
    assert found["queue_readings_failed"] == 1
    assert found.series["queue_jobs"] == {}
    assert found["queue_connections"] >= 1


@pytest.fixture
def proxied(database_url: str) -> Iterator[tuple[Flask, Proxy]]:
    proxy = Proxy(database_url)
    with application(proxy.url) as app:
        yield app, proxy
    proxy.close()


ALONE = {
    "queue_up", "queue_reading_age_seconds", "queue_reading_ok", "queue_readings_failed",
    "queue_build_info", "queue_verdict", "queue_verdict_rule",
}  # fmt: skip


@pytest.mark.postgresql("a server that goes away")
def test_without_the_database_nothing_is_told_but_that(
    proxied: tuple[Flask, Proxy], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, proxy = proxied
    scene.due(5)
    client = app.test_client()
    assert scrape(client)["queue_due"] == 1
    proxy.close()

    soon = scrape(client)
    for module in (shared, metrics):
        monkeypatch.setattr(module, "OLD_S", 0.0)
    later = scrape(client)

    for found in (soon, later):
        assert found["queue_up"] == 0
        assert {name for name, series in found.series.items() if series} == ALONE
        assert set(found.by("queue_reading_ok", "reading").values()) == {0.0}
        assert set(found.by("queue_reading_ok", "reading")) == {*READINGS, *measuring.PARTS}
    # As on the pages: for a moment the verdict stays.
    assert (soon["queue_verdict"], later["queue_verdict"]) == (2, 3)
    assert later.of("queue_verdict_rule", rule="unknown") == 1
    assert sum(later.by("queue_verdict_rule", "rule").values()) == 1
    assert later["queue_reading_age_seconds"] > 0


def test_a_process_that_never_saw_the_database_answers() -> None:
    with application(NOWHERE) as app:
        found = scrape(app.test_client())

    assert (found["queue_up"], found["queue_verdict"]) == (0, 3)
    assert math.isnan(found["queue_reading_age_seconds"])


@pytest.mark.postgresql("statements")
def test_fifty_scrapes_cost_what_one_costs(fresh_app: Flask, session: Session) -> None:
    for reading in (judgement.shared(fresh_app), metrics.shared(fresh_app)):
        assert reading.life_s == 0
        reading.life_s = 60.0
    make_job(session)
    session.commit()
    with fresh_app.app_context():
        engine = db.engine

    def ask(_: int) -> str:
        return fresh_app.test_client().get("/metrics").text

    with statements_of(engine) as sent, ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))

    assert {scraped(answer)["queue_due"] for answer in answers} == {1}
    assert 10 <= len(sent) <= 22
    assert [text for text, _ in sent].count(measuring.LAST_LINES) <= 2


@pytest.mark.postgresql("buffers")
def test_what_a_scrape_reads_follows_its_bounds_and_not_the_tables(
    session: Session, engine: sa.Engine
) -> None:
    Scene(session).minutes(succeeded=1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        fill(connection, 24_000, **FINISHED)
        fill(connection, 6_000, available_at="now() + n * interval '1 s'")
        analyze(connection)
        with engine.connect() as asking, statements_of(engine) as sent:
            measuring.measure(asking)
        read = sum(buffers(connection, *one) for one in sent[1:])

    queries.bound_reads(session)
    assert sequential_scans(session, sent) == []
    assert read <= 2_000


def buffers(connection: sa.Connection, statement: str, parameters: Any) -> int:
    connection.exec_driver_sql("SET enable_seqscan = off")
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
    [[plan]] = connection.exec_driver_sql(explain, parameters).all()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


def test_on_sqlite_it_tells_what_can_be_known(tmp_path: Path) -> None:
    with application(migrated(tmp_path / "queue.db")) as app:
        with app.app_context(), Session(db.engine) as session:
            Scene(session).minutes(succeeded=1)
        found = scrape(app.test_client())

    assert (found["queue_up"], found["queue_schema_ok"], found["queue_readings_failed"]) == (
        1,
        1,
        0,
    )
    assert found.of("queue_events_total", event=Event.SUCCEEDED) == 12
    for name in ("queue_connections", "queue_dead_rows", "queue_oldest_transaction_seconds"):
        assert found.series[name] == {}


def test_any_text_can_be_a_label() -> None:
    odd = 'a"b\\n\n{x="y"} 1\\'
    family = Family("queue_odd", "one \\ two\nthree", "", ("kind",))

    found = scraped(exposition([family], [Sample("queue_odd", 0.5, {"kind": odd})]))

    assert found.of("queue_odd", kind=odd) == 0.5
    assert found.about["queue_odd"] == "one \\\\ two\\nthree"


def test_it_takes_no_parameters_and_refuses_as_programs_expect(client: FlaskClient) -> None:
    for answer in (client.get("/metrics?name=queue_up"), client.post("/metrics")):
        assert answer.status_code in (400, 405)
        assert answer.content_type == "application/problem+json"
