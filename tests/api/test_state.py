"""GET /api/stats, /healthz and /readyz: true, bounded, and clear about what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.queries import priorities
from queueapp.jobs.status import Status
from tests.api.conftest import body, problem
from tests.applications import application
from tests.factories import make_job

Elsewhere = Callable[..., FlaskClient]


@pytest.fixture
def elsewhere(database_url: str) -> Iterator[Elsewhere]:
    """A client of an application on a changed database address."""
    with ExitStack() as stack:

        def make(**changes: object) -> FlaskClient:
            url = sa.make_url(database_url).set(**changes)  # type: ignore[arg-type]
            address = url.render_as_string(hide_password=False)
            return stack.enter_context(application(address)).test_client()

        yield make


def test_stats_count_by_status_and_say_how_long_the_first_has_waited(
    client: FlaskClient, session: Session
) -> None:
    for status in (Status.QUEUED, Status.QUEUED, Status.RUNNING, Status.FAILED):
        make_job(session, status)
    make_job(session, delay_s=3600)
    make_job(session, priority=9, available_at=None)
    session.execute(
        sa.text(
            "UPDATE jobs SET available_at = clock_timestamp() - interval '90 s',"
            " created_at = clock_timestamp() - interval '90 s'"
            " WHERE id = (SELECT min(id) FROM jobs)"
        )
    )
    session.commit()

    stats = body(client.get("/api/stats"))

    counts = {name: one["count"] for name, one in stats["status"].items()}
    assert counts == {
        "queued": 4, "running": 1, "succeeded": 0, "failed": 1, "cancelled": 0, "held": 0,
    }  # fmt: skip
    assert stats["due"] == {"count": 3, "more": False}
    assert 90 <= stats["oldest_due_age_s"] < 100
    assert datetime.fromisoformat(stats["oldest_due_at"]) < datetime.fromisoformat(stats["as_of"])


def test_an_empty_queue_has_nothing_due(client: FlaskClient) -> None:
    stats = body(client.get("/api/stats"))

    assert stats["due"] == {"count": 0, "more": False}
    assert stats["oldest_due_at"] is None
    assert stats["oldest_due_age_s"] is None


def test_counts_stop_at_their_bound(
    client: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.api.stats.COUNT_LIMIT", 2)
    for _ in range(3):
        make_job(session)
    session.commit()

    assert body(client.get("/api/stats"))["status"]["queued"] == {"count": 2, "more": True}


def test_due_jobs_at_lower_priorities_than_were_looked_at_may_be_more(
    client: FlaskClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "MOST_PRIORITIES", 2)
    for priority in range(5):
        make_job(session, priority=priority)
    session.commit()

    stats = body(client.get("/api/stats"))

    assert stats["due"] == {"count": 3, "more": True}
    assert stats["status"]["queued"] == {"count": 5, "more": False}


def test_a_ready_database_is_reported_with_its_schema(client: FlaskClient) -> None:
    ready = body(client.get("/readyz"))

    assert ready["status"] == "ready"
    assert ready["ledger_days_ahead"] >= 3
    assert ready["warnings"] == []


def test_missing_days_of_the_ledger_are_a_warning(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queueapp.jobs.partitions.days_ahead", lambda _database: 1)

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert "1 days ahead only" in body(answer)["warnings"][0]


def test_a_database_of_another_revision_is_not_ready(client: FlaskClient, session: Session) -> None:
    revision = session.scalar(sa.text("SELECT version_num FROM alembic_version"))
    try:
        session.execute(sa.text("UPDATE alembic_version SET version_num = '0000'"))
        session.commit()
        answer = client.get("/readyz")
    finally:
        session.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": revision})
        session.commit()

    assert problem(answer) == (503, "schema_mismatch")
    assert "flask db upgrade" in body(answer)["detail"]
    assert (body(answer)["revision"], body(answer)["needed"]) == ("0000", revision)


@pytest.mark.postgresql("another database of the same server")
def test_a_database_without_tables_says_what_to_run(elsewhere: Elsewhere) -> None:
    empty = elsewhere(database="postgres")

    for answer in (empty.get("/readyz"), empty.get("/api/jobs"), empty.get("/api/stats")):
        assert problem(answer) == (503, "schema_mismatch")
        assert "flask db upgrade" in body(answer)["detail"]


@pytest.mark.postgresql("read-only transactions")
def test_a_read_only_database_takes_no_jobs_but_shows_them(elsewhere: Elsewhere) -> None:
    client = elsewhere(query={"options": "-c default_transaction_read_only=on"})

    created = client.post("/api/jobs", json={"kind": "demo.echo"})

    assert problem(created) == (503, "database_unavailable")
    assert created.headers["Retry-After"] == "5"
    assert "read-only" in body(created)["detail"]
    assert problem(client.get("/readyz")) == (503, "database_unavailable")
    assert client.get("/api/jobs").status_code == 200


@pytest.mark.postgresql("a server that does not answer")
def test_a_silent_database_is_503_and_the_process_still_healthy(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    client = elsewhere(host="127.0.0.1", port=1, query={}, password="hunter2")

    for path in ("/api/jobs", "/api/stats", "/readyz"):
        answer = client.get(path)
        assert problem(answer) == (503, "database_unavailable")
        assert answer.headers["Retry-After"] == "5"
    well = {"status": "ok", "verdict": "unknown", "rule": "unknown", "age_s": 0.0}
    assert body(client.get("/healthz")) == well
    assert "hunter2" not in caplog.text
    assert "refused" in caplog.text


@pytest.mark.postgresql("statement_timeout")
def test_a_query_cut_off_by_the_database_is_503(elsewhere: Elsewhere, session: Session) -> None:
    client = elsewhere(query={"options": "-c lock_timeout=0"})
    session.execute(sa.text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))

    answer = client.get("/api/jobs")

    assert problem(answer) == (503, "database_unavailable")
    assert "too long" in body(answer)["detail"]
