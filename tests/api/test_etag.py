"""GET /api/jobs/<id> with an ETag: sent again only when it has changed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.api.conftest import Api
from tests.factories import make_job


def test_a_job_that_is_still_the_same_is_not_sent_again(api: Api, client: FlaskClient) -> None:
    path = f"/api/jobs/{api.make(payload={'message': 'é'})['id']}"
    first = client.get(path)
    mark = first.headers["ETag"]

    assert mark.startswith('"')  # strong: the answers are the same to the byte
    assert client.get(path).headers["ETag"] == mark
    for shown in (mark, f'"other", {mark}', f"W/{mark}", "*"):
        again = client.get(path, headers={"If-None-Match": shown})
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == mark
        assert "Content-Type" not in again.headers
    head = client.head(path)
    assert (head.status_code, head.data, head.headers["ETag"]) == (200, b"", mark)
    other = client.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.data) == (200, first.data)


CHANGES = {"progress": 7, "progress_note": "half", "lease_expires_at": "now", "error_class": "E"}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_changes_the_mark(
    api: Api, client: FlaskClient, session: Session, name: str
) -> None:
    job = make_job(session, Status.RUNNING).id
    session.commit()
    mark = api.get(f"/{job}").headers["ETag"]

    value = sa.func.now() if CHANGES[name] == "now" else CHANGES[name]
    session.execute(sa.update(Job).where(Job.id == job).values({name: value}))
    session.commit()
    answer = client.get(f"/api/jobs/{job}", headers={"If-None-Match": mark})

    assert answer.status_code == 200
    assert answer.headers["ETag"] != mark


def test_jobs_that_are_alike_have_marks_of_their_own(api: Api) -> None:
    marks = {api.get(f"/{api.make()['id']}").headers["ETag"] for _ in range(2)}

    assert len(marks) == 2


def test_a_mark_says_nothing_to_whoever_may_not_read(client: FlaskClient) -> None:
    answer = client.get("/api/jobs/7", headers={"If-None-Match": "*"})

    assert answer.status_code == 404
    assert "ETag" not in answer.headers
