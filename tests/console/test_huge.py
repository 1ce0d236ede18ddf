"""Jobs with megabytes in them, as SQL may write them: pages stay small, lists carry no payload."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.console.conftest import Console
from tests.factories import make_job

LARGEST_LIST = 300 * 1024
# Three bodies, each cut.
LARGEST_PAGE = 1024 * 1024
HUGE = {
    "one line": "jsonb_build_object('message', repeat('é', 2500000))",
    "names": "(SELECT jsonb_object_agg('name-' || n, n) FROM generate_series(1, 20000) n)",
    "nested": "(repeat('[', 900) || repeat(']', 900))::jsonb",
    "list": "(SELECT jsonb_agg(n) FROM generate_series(1, 300000) n)",
}

pytestmark = pytest.mark.postgresql("its functions make the payloads")


def enlarge(session: Session, value: str) -> None:
    session.execute(
        sa.text(f"UPDATE jobs SET payload = {value}, result = {value}, error_message = :text"),
        {"text": "x" * 2_000_000},
    )
    session.commit()


def test_a_list_of_huge_jobs_is_a_small_page(
    console: Console, client: FlaskClient, session: Session
) -> None:
    for _ in range(50):
        make_job(session)
    failed = make_job(session, Status.FAILED)
    make_job(session, Status.RUNNING)
    enlarge(session, HUGE["one line"])

    lists = ("/jobs", "/", "/events", "/errors", "/audit", "/kinds", "/workers", "/operations",
             "/workers/test:1:000000", "/jobs/1/cancel", "/go?q=demo.")  # fmt: skip
    for path in lists:
        assert len(console.get(path)) < LARGEST_LIST, path
    assert len(client.get("/api/jobs?limit=50").data) < LARGEST_LIST
    # The page of a cause shows one error whole, and a cell of each field.
    assert len(console.get(f"/errors/{failed.error_fingerprint}")) < 10 * LARGEST_PAGE


@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
def test_the_page_of_a_huge_job_is_cut_and_leads_to_the_whole(
    console: Console, client: FlaskClient, session: Session, value: str
) -> None:
    job = make_job(session)
    enlarge(session, value)

    page = console.get(f"/jobs/{job.id}")

    assert len(page) < LARGEST_PAGE
    assert f'href="/api/jobs/{job.id}"' in page
    whole = client.get(f"/api/jobs/{job.id}").get_json()
    assert whole["payload"] == session.scalars(sa.select(Job.payload)).one()
