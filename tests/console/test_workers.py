"""Who is at work: by signs, leases and connections; a dead one's jobs are taken back once."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.extensions import db
from queueapp.jobs import control, queries
from queueapp.jobs.claim import Holder
from queueapp.jobs.connection_names import connection_name
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from queueapp.jobs.why import statement
from tests.applications import application
from tests.console.conftest import DIALOG, Console, stands_beside, words
from tests.console.hostile import TEXT
from tests.factories import HOLDER, claim_one, make_job
from tests.jobs.plans import sequential_scans, statements_of
from tests.jobs.seeds import seed

DEAD, ALIVE = "worker:web-1:7:aaaaaa", "worker:web-2:8:bbbbbb"
RELEASE, DRAIN = "/release?worker=", "/drain?worker="
TOLD = {"slots": 4, "lost": 0, "kinds": ["demo.echo"], "lease_s": 60, "host": "web-1"}


def sign(session: Session, name: str, *, ago_s: float = 0, **told: Any) -> None:
    """A sign of life, so many seconds ago; committed."""
    one = control.record(session, Event.WORKER_SEEN, scope=name, actor=name, data={**TOLD, **told})
    age = f"created_at = created_at - interval '{ago_s} seconds'"
    session.execute(sa.text(f"UPDATE job_events SET {age} WHERE id = :id"), {"id": one})
    session.commit()


def held_by(session: Session, name: str, count: int = 1, **fields: Any) -> list[int]:
    """Running jobs of a worker; committed."""
    ids = [make_job(session, Status.RUNNING, **fields).id for _ in range(count)]
    session.execute(sa.update(Job).where(Job.id.in_(ids)).values(locked_by=name))
    session.commit()
    return ids


def shared_roll_of(console: Console) -> Any:
    return console.client.application.extensions["queue_roll"]


def claims_in(page: str) -> list[str]:
    return [html.unescape(c) for c in re.findall(r'name="claim" value="([^"]+)"', page)]


def job(session: Session, job_id: int) -> Any:
    session.rollback()
    return queries.get_job(session, job_id)


@pytest.fixture
def connected(database_url: str, engine: sa.Engine) -> Iterator[Callable[[], None]]:
    """A connection of the worker ALIVE, and how to end it.

    The server needs a moment for one that was closed: it is waited for.
    """
    plain = make_url(database_url).set(drivername="postgresql")
    name = connection_name("work", ALIVE.removeprefix("worker:"))
    address = plain.render_as_string(hide_password=False)

    def end() -> None:
        with engine.connect() as other:
            other.execute(sa.text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})

    with closing(psycopg.connect(address, application_name=name)) as connection:
        pid = connection.info.backend_pid
        yield end
        end()


def test_without_workers_the_page_teaches_how_to_start_one(console: Console) -> None:
    shown = words(console.get("/workers"))

    assert "No worker has been heard of" in shown
    assert "flask work" in shown


@pytest.mark.postgresql("connections")
def test_stale_workers_come_first_with_what_they_hold(
    console: Console, session: Session, connected: object
) -> None:
    sign(session, ALIVE)
    sign(session, DEAD, ago_s=300)
    [running] = held_by(session, ALIVE)
    dead_jobs = held_by(session, DEAD, 2)

    page = console.get("/workers")

    assert re.findall(r'<tr id="worker-(worker:[^"]+)"', page) == [DEAD, ALIVE]
    dead, alive = (words(row) for row in re.findall(r'<tr id="worker-.*?</tr>', page, re.DOTALL))
    assert "silent" in dead
    assert "5 min 0 s" in dead
    assert f"2 of 4 2 {dead_jobs[0]} demo.echo" in dead
    assert "Release 2 jobs" in dead
    assert re.search(rf"live \d+ s 1 of 4 1 {running}", alive)
    assert "Release" not in alive
    assert "1 live worker , 1 of 4 slots busy" in words(page)
    assert "1 other holds 2 jobs and may be dead" in words(page)
    assert f'href="/workers/{DEAD}"' in console.get("/")


@pytest.mark.postgresql("connections")
def test_a_worker_whose_connections_are_gone_is_dead_before_it_is_silent(
    console: Console, session: Session, connected: Callable[[], None]
) -> None:
    sign(session, ALIVE)
    before = words(console.get(f"/workers/{ALIVE}"))

    connected()
    page = words(console.get(f"/workers/{ALIVE}"))

    assert "1 connection of it is open" in before
    assert "no connection of it is open" in page


@pytest.mark.postgresql("connections")
def test_behind_a_pooler_a_missing_connection_proves_nothing(
    session: Session, database_url: str
) -> None:
    sign(session, ALIVE)
    with application(database_url, QUEUE_POOLER="1") as app:
        page = words(app.test_client().get("/workers").text)

    assert "behind a pooler the database's connections are the pooler's" in page
    assert re.search(r"live \d+ s", page)
    assert "unknown" in page


@pytest.mark.postgresql("connections")
def test_where_the_address_names_the_connections_a_missing_one_proves_nothing(
    session: Session, database_url: str
) -> None:
    sign(session, ALIVE)
    url = make_url(database_url).update_query_dict({"application_name": "mine"})
    with application(url.render_as_string(hide_password=False)) as app:
        page = words(app.test_client().get("/workers").text)

    assert "DATABASE_URL gives its connections a name of its own" in page
    assert re.search(r"live \d+ s", page)


def test_a_token_that_leases_over_http_is_one_worker(console: Console, session: Session) -> None:
    for kinds in (["a.one"], ["b.two"]):
        scope = f"worker:token:gpu:{kinds[0]}"
        data = {"slots": 3, "kinds": kinds, "lease_s": 30, "via": "api"}
        control.record(session, Event.WORKER_SEEN, scope=scope, actor="token:gpu", data=data)
    session.commit()
    [held] = held_by(session, "token:gpu")

    page = words(console.get("/workers/token:gpu"))

    assert "6 the jobs that it asks for at once" in page
    assert "a.one, b.two" in page
    assert f"{held} demo.echo" in page
    assert "Every program with this token goes by this name" in page


def test_a_token_at_a_long_job_lives_as_long_as_it_renews(
    console: Console, session: Session
) -> None:
    """It asks for no other meanwhile, so its last sign may be old."""
    sign(session, "worker:token:gpu:1a", ago_s=5000, via="api", lease_s=30)
    [held] = held_by(session, "token:gpu")
    assert "live" in words(console.get("/workers/token:gpu"))
    assert "Release" not in words(console.get("/workers"))

    soon = datetime.now(UTC) + timedelta(seconds=5)
    session.execute(sa.update(Job).where(Job.id == held).values(lease_expires_at=soon))
    session.commit()
    assert "silent" in words(console.get("/workers/token:gpu"))
    assert "Release 1 job" in words(console.get("/workers"))


@pytest.mark.postgresql("connections")
def test_a_worker_whose_connections_bear_no_name_is_not_called_dead(
    console: Console, session: Session
) -> None:
    """It goes through a pooler, say, and the console does not."""
    sign(session, ALIVE, nameless=True)
    held_by(session, ALIVE)

    row = words(re.findall(r'<tr id="worker-.*?</tr>', console.get("/workers"), re.DOTALL)[0])

    assert "live" in row
    assert "Release" not in row


def test_many_names_hide_nobody_who_lives(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "MOST_WORKERS", 1)
    sign(session, DEAD, ago_s=5000)
    sign(session, ALIVE, nameless=True)
    held_by(session, ALIVE)

    page = words(console.get(f"/workers/{ALIVE}"))

    assert re.search(r"live \d+ s", words(console.get("/workers")))
    assert "Release" not in page


def test_one_worker_tells_its_facts_and_last_results(console: Console, session: Session) -> None:
    for status in (Status.SUCCEEDED, Status.FAILED):
        make_job(session, status)
    # The results of tests stand under the name of their holder.
    [held] = held_by(session, HOLDER.name, progress=40)
    sign(session, HOLDER.name, version="1.2", release="v7", lost=1)

    page = words(console.get(f"/workers/{HOLDER.name}"))

    assert "version 1.2 release v7" in page
    assert "3, 1 lost to handlers that do not return" in page
    assert f"{held} demo.echo 1 of 5 40 %" in page
    assert re.search(r"Last results.* failed 2 demo.echo.* succeeded 1 demo.echo", page)


@pytest.mark.parametrize("path", ["/", RELEASE, DRAIN])
def test_a_name_that_nobody_bears_is_no_worker(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/workers{path}worker:<b>")

    assert answer.status_code == 404
    assert "No such worker" in words(answer.text)
    assert "No worker 'worker:<b>' holds a job" in words(answer.text)


def test_a_name_that_no_worker_can_have_is_shown_in_part(client: FlaskClient) -> None:
    answer = client.get(f"/workers/a%00{'b' * 600}")

    assert answer.status_code == 404
    assert f"No worker 'a\\x00{'b' * 498}' holds a job" in words(answer.text)


def test_all_jobs_of_a_dead_worker_are_released_with_actor_and_reason(
    console: Console, session: Session
) -> None:
    sign(session, DEAD, ago_s=300)
    ids = held_by(session, DEAD, 3)
    [last] = held_by(session, DEAD, attempts=5)

    page = console.get(f"/workers/release?worker={DEAD}", Referer="http://localhost/workers")
    assert "They may run twice." in words(page)
    assert "1 job has no attempt left and ends as failed" in words(page)
    assert 'value="the worker has been silent for 5 min 0 s"' in page
    answer = console.post(
        "/workers/release",
        worker=DEAD,
        claim=claims_in(page),
        next="/workers",
        reason="host is gone",
    )

    assert answer.headers["Location"] == "/workers?done=release.4.0.0"
    landed = console.get("/workers?done=release.4.0.0")
    assert "Released 4 jobs. Look at what was released" in words(landed)
    assert 'href="/events?event=released"' in landed
    log = console.get("/events?event=released")
    assert all(f'href="/jobs/{job_id}"' in log for job_id in ids)
    for job_id in ids:
        assert (job(session, job_id).status, job(session, job_id).locked_by) == ("queued", None)
        line = queries.events_of(session, job_id)[-1]
        assert (line.event, line.actor, line.reason) == ("released", "user:local", "host is gone")
        assert line.data["via"] == "console"
    assert job(session, last).status == "failed"


@pytest.mark.postgresql("connections")
def test_one_job_of_a_dead_worker_is_released_from_its_page(
    console: Console, session: Session, connected: Callable[[], None]
) -> None:
    sign(session, ALIVE)
    [kept, taken] = held_by(session, ALIVE, 2)
    [waiting] = [make_job(session).id]
    session.commit()
    # Not while its holder is alive.
    assert 'data-verb="release"' not in console.get(f"/jobs/{taken}")
    connected()
    assert 'data-verb="release"' not in console.get(f"/jobs/{waiting}")

    page = console.get(f"/jobs/{taken}")
    [question] = re.findall(r'data-verb="release" href="([^"]+)"', page)
    page = console.get(html.unescape(question), Referer=f"http://localhost/jobs/{taken}")
    assert f"Release 1 job of {ALIVE}?" in words(page)
    assert "It may run twice." in words(page)
    assert "It holds 1 job more , which stays with it." in words(page)
    assert [claim.partition("@")[0] for claim in claims_in(page)] == [str(taken)]
    [after] = re.findall(r'name="next" value="([^"]+)"', page)
    form = {"worker": ALIVE, "job": taken, "claim": claims_in(page), "next": after}
    answer = console.post("/workers/release", **form)

    assert answer.headers["Location"] == f"/jobs/{taken}?done=release.1.0.0"
    assert (job(session, taken).status, job(session, kept).status) == ("queued", "running")
    # Somebody else has it now, or nobody.
    page = console.get(f"/workers/release?worker={ALIVE}&job={taken}")
    assert f"{ALIVE} no longer holds job {taken}" in words(page)
    assert not claims_in(page)
    for odd in ("x", "0", "-1", str(2**63)):
        answer = console.client.get(f"/workers/release?worker={ALIVE}&job={odd}")
        assert answer.status_code == 400


@pytest.mark.postgresql("connections")
def test_a_holder_that_came_back_keeps_the_one_job_that_was_asked_about(
    console: Console, session: Session, connected: object
) -> None:
    sign(session, ALIVE)
    [kept, asked] = held_by(session, ALIVE, 2)
    page = console.get(f"/workers/release?worker={ALIVE}&job={asked}")

    form = {"worker": ALIVE, "job": asked, "claim": claims_in(page)}
    refused = console.click("/workers/release", **form)

    assert refused.status_code == 409
    assert claims_in(refused.text) == form["claim"]
    assert {job(session, one).status for one in (kept, asked)} == {"running"}


def test_only_the_claims_that_were_seen_are_taken(console: Console, session: Session) -> None:
    sign(session, DEAD, ago_s=300)
    kept, taken = held_by(session, DEAD, 2)
    page = console.get(f"/workers/release?worker={DEAD}")

    # The worker comes back: it lost one job, and has claimed it again.
    requeue = sa.text(
        "UPDATE jobs SET status = 'queued', locked_by = NULL, lease_token = NULL,"
        " lease_expires_at = NULL, claimed_at = NULL WHERE id = :id"
    )
    session.execute(requeue, {"id": kept})
    claim = claim_one(session, kept, Holder(DEAD, lease_s=60))
    [newer] = held_by(session, DEAD)
    answer = console.post("/workers/release", worker=DEAD, claim=claims_in(page), next="/workers")

    assert answer.headers["Location"] == "/workers?done=release.1.0.1"
    assert job(session, taken).status == "queued"
    assert job(session, kept).lease_token == claim.token
    assert job(session, newer).status == "running"


def test_claims_of_somebody_else_are_not_taken(console: Console, session: Session) -> None:
    held_by(session, DEAD)
    [other] = held_by(session, ALIVE)
    claim = f"{other}@{job(session, other).claimed_at.isoformat()}"

    console.post("/workers/release", worker=DEAD, claim=claim, next="/workers")

    assert job(session, other).status == "running"


@pytest.mark.postgresql("connections")
def test_one_that_has_only_just_begun_is_not_taken_for_dead(
    console: Console, session: Session, connected: object
) -> None:
    """It holds a job before its first sign is seen, and its connections are there."""
    [job_id] = held_by(session, ALIVE)
    assert "It may live." in words(console.get(f"/workers/{ALIVE}"))
    asked = console.client.get(f"/workers/release?worker={ALIVE}", headers=DIALOG).text

    refused = console.click("/workers/release", worker=ALIVE, claim=claims_in(asked))

    assert refused.status_code == 409
    assert job(session, job_id).status == "running"


@pytest.mark.postgresql("connections")
def test_a_live_workers_jobs_are_released_only_by_who_knows_that_it_lives(
    console: Console, session: Session, connected: object
) -> None:
    sign(session, ALIVE)
    [job_id] = held_by(session, ALIVE)
    page = console.client.get(f"/workers/release?worker={ALIVE}", headers=DIALOG).text
    assert 'name="alive" value="yes" required' in page
    form = {"worker": ALIVE, "claim": claims_in(page)}

    refused = console.click("/workers/release", **form)
    assert refused.status_code == 409
    assert stands_beside("alive", refused.text).startswith("Nothing was released: the worker lives")
    assert refused.text.startswith('<div hx-swap-oob="innerHTML:#dialog-body">')
    assert claims_in(refused.text) == form["claim"]
    assert job(session, job_id).status == "running"

    done = console.click("/workers/release", **form, alive="yes")
    assert "Released 1 job." in words(done.text)
    assert job(session, job_id).status == "queued"


@pytest.mark.postgresql("connections")
def test_a_worker_is_asked_to_drain_once_and_for_a_reason(
    console: Console, session: Session, connected: object
) -> None:
    sign(session, ALIVE)
    [job_id] = held_by(session, ALIVE)
    address = f"/workers/drain?worker={ALIVE}"

    assert f'href="{address}"' in console.get(f"/workers/{ALIVE}")
    assert "finishes the 1 job that it holds" in words(console.get(address))
    assert console.post("/workers/drain", worker=ALIVE, reason=" ").status_code == 422
    asked = [console.post("/workers/drain", worker=ALIVE, reason="why <b>") for _ in range(2)]

    assert {answer.location for answer in asked} == {f"/workers/{ALIVE}?done=drain"}
    [line] = session.scalars(sa.select(JobEvent).where(JobEvent.event == "drain_requested"))
    assert (line.scope, line.actor, line.reason) == (ALIVE, "user:local", "why <b>")
    assert line.data["via"] == "console"
    again = words(console.get(address))
    assert "is asked to drain" in again
    assert re.search(r"By user:local , \d s ago: why <b>", again)
    assert job(session, job_id).status == "running"
    # Once the worker says so it counts no more among those that can take a job.
    sign(session, ALIVE, slots=0, drains=True)
    shared_roll_of(console).forget()
    page = words(console.get(f"/workers/{ALIVE}"))
    assert "It drains , asked by user:local" in page
    assert "why <b>" in page
    assert "Ask to drain" not in page
    assert "0 of 0 slots busy, 1 drains." in words(console.get("/workers"))
    assert f"drain – {ALIVE.removeprefix('worker:')} user:local console why <b>" in words(
        console.get("/audit?verb=queue")
    )


@pytest.mark.parametrize("name", ["token:elsewhere", "worker:gone:1:cccccc", "worker:no:1:dddddd"])
def test_who_cannot_drain_is_not_asked(console: Console, session: Session, name: str) -> None:
    held_by(session, "token:elsewhere")
    gone = "worker:gone:1:cccccc"
    sign(session, gone)
    control.record(session, Event.WORKER_STOPPED, scope=gone, actor=gone, reason="stopped")
    session.commit()

    refused = console.post("/workers/drain", worker=name, reason="r")

    assert refused.status_code == (404 if ":no:" in name else 409)
    if ":no:" not in name:
        assert "cannot be asked" in words(console.get(f"/workers/drain?worker={name}"))
        assert "/workers/drain" not in console.get(f"/workers/{name}")
    assert not session.scalars(sa.select(JobEvent).where(JobEvent.event == "drain_requested")).all()


@pytest.mark.parametrize(
    "claim", ["x", "1@yesterday", "0@2026-01-01T00:00:00+00:00", "1@2026-02-30T00:00:00+00:00"]
)
def test_an_odd_claim_is_refused(console: Console, claim: str) -> None:
    assert console.post("/workers/release", worker="w", claim=claim).status_code == 400


def test_hostile_names_and_words_are_text(console: Console, session: Session) -> None:
    sign(session, TEXT, ago_s=300, kinds=[TEXT], host=TEXT, version=TEXT, release=TEXT)
    held_by(session, TEXT)

    pages = [console.get("/workers")]
    [address] = re.findall(r'<th[^>]*><a class="who"[^>]*href="(/workers/[^"]+)"', pages[0])
    pages += [console.get(html.unescape(address))]
    [question] = re.findall(r'data-verb="release" href="([^"]+)"', pages[0])
    pages += [console.get(html.unescape(question))]

    for page in pages:
        assert "<script>x7" not in page
        assert "hx-get='/x7'" not in page
        assert "{{7*7}}" in page


def test_it_leads_back_to_this_console_only(console: Console, session: Session) -> None:
    sign(session, DEAD, ago_s=300)

    for place in ("//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example/"):
        asked = {"worker": DEAD, "next": place}
        page = console.client.get("/workers/release", query_string=asked).text
        assert 'name="next" value="/workers"' in page
        answer = console.post("/workers/release", **asked)
        assert answer.headers["Location"] == "/workers?done=release.0.0.0"


@pytest.mark.postgresql("plans")
def test_the_pages_scan_no_table(console: Console, session: Session, database_url: str) -> None:
    seed(session, 20_000)
    sign(session, "seed:1:aa", ago_s=300)
    app = create_app({"DATABASE_URL": database_url, "TESTING": True})
    with app.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        for path in ("/workers", *(f"/workers{of}seed:1:aa" for of in ("/", RELEASE, DRAIN))):
            assert app.test_client().get(path).status_code == 200

    queries.bound_reads(session)
    assert sequential_scans(session, sent) == []
    engine.dispose()
