"""A console on a standby closes by itself, and opens when the standby is promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.applications import application
from tests.console.conftest import words
from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.standby import follow, promote


@pytest.fixture
def standby(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    standby = follow(cluster, tmp_path / "standby")
    yield standby
    # The one that waits for the other at a commit is ended first.
    standby.remove()


@pytest.mark.slow
def test_a_console_on_a_standby_is_read_only_until_it_is_promoted(
    cluster_journey: Journey, cluster: Cluster, standby: Cluster
) -> None:
    job_id = cluster_journey.enqueue_one("journey.tick", {"ms": 1})
    with application(standby.url) as app:
        client = app.test_client()
        until(lambda: client.get(f"/jobs/{job_id}").status_code == 200, "the standby has the job")

        page = client.get("/")
        refused = client.post(f"/api/jobs/{job_id}/cancel")

        assert page.status_code == 200
        assert "Read-only: the database is a standby" in words(page.text)
        assert not has_verbs(client, job_id)
        assert refused.status_code == 503
        assert refused.json is not None
        assert refused.json["code"] == "database_unavailable"
        assert "the database is a standby" in refused.json["detail"]
        assert refused.headers["Retry-After"] == "5"
        assert "This server is a standby" in words(client.get("/system").text)

        cluster.say("ALTER SYSTEM RESET synchronous_standby_names")
        cluster.say("SELECT pg_reload_conf()")
        promote(standby)

        until(lambda: "Read-only: the database" not in words(client.get("/").text), "it opens")
        assert has_verbs(client, job_id)
        assert client.post(f"/api/jobs/{job_id}/cancel").status_code == 200
    cluster_journey.work("--drain").wait()
    stand(cluster_journey, accepted=[job_id])


def has_verbs(client: FlaskClient, job_id: int) -> bool:
    return "data-verb" in client.get(f"/jobs/{job_id}").text
