"""How well the database serves the queue: real states are named, with the next step."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.extensions import db
from queueapp.jobs import control, queries
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event
from queueapp.jobs.system import activity, claim_cost, report, told
from queueapp.jobs.system.report import READINGS
from queueapp.jobs.system.told import Asked
from tests.applications import application
from tests.console.conftest import Console, words
from tests.console.hostile import TEXT
from tests.factories import make_job
from tests.jobs.plans import sequential_scans, statements_of
from tests.jobs.seeds import seed
from tests.live.processes import until
from tests.scenes import ago
from tests.sqlite import migrated

pytestmark = pytest.mark.postgresql("what its server tells")

Outsider = Callable[..., psycopg.Connection[Any]]


def reading(page: str, code: str) -> str:
    """What the page says of one reading: its tone, title, sentence, next step, evidence."""
    found = re.search(rf'<section class="reading" id="reading-{code}".*?</section>', page, re.S)
    assert found
    return words(found[0])


@pytest.fixture
def outsider(database_url: str) -> Iterator[Outsider]:
    """Connections that somebody else has open."""
    opened: list[psycopg.Connection[Any]] = []
    plain = make_url(database_url).set(drivername="postgresql")

    def connect(name: str, **more: Any) -> psycopg.Connection[Any]:
        address = plain.render_as_string(hide_password=False)
        opened.append(psycopg.connect(address, application_name=name, **more))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@contextmanager
def changed(session: Session, change: str, back: str) -> Iterator[None]:
    """Change the server or a table for a while."""
    session.rollback()
    with session.connection().engine.connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        session.rollback()
        connection.execute(sa.text("SET lock_timeout = '10s'"))
        connection.execute(sa.text(change))
        try:
            yield
        finally:
            connection.execute(sa.text(back))


def test_every_reading_is_there_once(console: Console) -> None:
    page = console.get("/system")

    found = re.findall(r'data-reading="(\w+)"', page)
    assert sorted(found) == sorted(one.code for one in READINGS)
    for code in ("read_only", "schema", "locks", "indexes", "days", "ids", "clocks", "notify"):
        assert reading(page, code).startswith("ok "), code


def test_who_holds_the_oldest_snapshot_is_named(
    console: Console, outsider: Outsider, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = outsider("psql of ana")
    ana.execute("SELECT pg_current_xact_id(), 'hunter2'")
    pid = ana.info.backend_pid

    young = reading(console.get("/system"), "snapshot")
    monkeypatch.setattr(activity, "CAREFUL_S", 0.0)
    page = console.get("/system")
    old = reading(page, "snapshot")

    assert young.startswith("ok Oldest snapshot")
    assert f"pid {pid} this one psql of ana" in young
    assert re.findall(r'data-reading="(\w+)"', page)[0] in ("snapshot", "settings")
    assert old.startswith(f"careful Oldest snapshot pid {pid} (psql of ana, ")
    assert "idle in transaction) has held its snapshot for" in old
    assert (
        f"Next: Have its owner commit; the last resort: SELECT pg_terminate_backend({pid});" in old
    )
    ana.rollback()
    assert "psql of ana" not in reading(console.get("/system"), "snapshot")


def test_a_writer_in_another_database_is_named_with_its_database(
    console: Console, outsider: Outsider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps dead rows as well; one that only reads there keeps none here."""
    writer = outsider("psql of ben", dbname="postgres")
    writer.execute("SELECT pg_current_xact_id()")
    reader = outsider("report", dbname="postgres")
    reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT 1")
    monkeypatch.setattr(activity, "CAREFUL_S", 0.0)

    told = reading(console.get("/system"), "snapshot")

    pid = writer.info.backend_pid
    assert told.startswith(f"careful Oldest snapshot pid {pid} (psql of ben, ")
    assert "idle in transaction, in the database postgres) has held its snapshot for" in told
    assert f"SELECT pg_terminate_backend({pid});" in told
    assert f"pid {pid} postgres psql of ben" in told
    assert "report" not in told


def test_the_texts_of_queries_are_for_admins(database_url: str, outsider: Outsider) -> None:
    outsider("psql").execute("SELECT pg_current_xact_id(), 'hunter2'")
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    )

    with application(database_url, QUEUE_TOKENS=tokens) as app:
        seen = {
            role: app.test_client().get(
                "/system", headers={"Authorization": f"Bearer {role}-secret"}
            )
            for role in ("viewer", "operator", "admin")
        }

    assert {role: "hunter2" in answer.text for role, answer in seen.items()} == {
        "viewer": False,
        "operator": False,
        "admin": True,
    }
    assert "shown to admins only" in words(seen["viewer"].text)


def test_a_role_that_may_not_look_says_what_it_cannot_see(
    session: Session, database_url: str, outsider: Outsider
) -> None:
    outsider("psql").execute("SELECT pg_current_xact_id()")
    outsider("queueapp-work w1")
    made = "CREATE ROLE weak; GRANT SELECT ON jobs, job_events TO weak"
    gone = "DROP OWNED BY weak; DROP ROLE weak"
    as_weak = make_url(database_url).update_query_dict({"options": "-c role=weak"})
    address = as_weak.render_as_string(hide_password=False)

    with changed(session, made, gone), application(address) as app:
        page = app.test_client().get("/system").text

    held, locks = reading(page, "snapshot"), reading(page, "locks")
    assert held.startswith("unknown Oldest snapshot 1 connection of other roles may hold")
    assert "Next: Let it see them: GRANT pg_read_all_stats TO weak;" in held
    # What a worker of another role waits for is hidden, too, though not its name.
    assert locks.startswith("unknown Locks Whether ")
    assert "of the queue under another role" in locks
    # Another reading fails by itself, and the others are there.
    assert "unknown Schema – this role may not read it" in reading(page, "schema")
    assert reading(page, "ids").startswith("ok")


def test_a_prepared_transaction_and_a_hostile_name_are_quoted() -> None:
    class Row:
        what, id, age_s, behind = "prepared", "it's", 99.0, 7
        application = role = state = query = elsewhere = None

    _step, command = activity._end_of(Row())  # type: ignore[arg-type]
    assert command == "ROLLBACK PREPARED 'it''s';"


def test_an_invalid_index_and_a_missing_one_are_named(console: Console, session: Session) -> None:
    for _ in range(2):
        make_job(session)
    session.commit()
    drop = "DROP INDEX CONCURRENTLY ix_left"

    # As a build that breaks off leaves it.
    with (
        pytest.raises(sa.exc.IntegrityError),
        changed(session, "CREATE UNIQUE INDEX CONCURRENTLY ix_left ON jobs (kind)", "SELECT 1"),
    ):
        pass
    with changed(session, "SELECT 1", drop):
        invalid = reading(console.get("/system"), "indexes")
    back = "CREATE INDEX ix_jobs_running ON jobs (claimed_at, id) WHERE status = 'running'"
    with changed(session, "DROP INDEX ix_jobs_running", back):
        missing = reading(console.get("/system"), "indexes")

    assert invalid.startswith("bad Indexes ix_left is not valid, so not used")
    assert 'DROP INDEX "ix_left";' in invalid
    assert missing.startswith("bad Indexes ix_jobs_running is missing")
    assert (
        "Next: Make it: CREATE INDEX CONCURRENTLY ix_jobs_running ON jobs (claimed_at, id)"
        in missing
    )
    assert reading(console.get("/system"), "indexes").startswith("ok")


def test_who_blocks_the_queue_is_named(
    console: Console, session: Session, outsider: Outsider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "BLOCKED_S", 0.0)
    job = make_job(session)
    session.commit()
    ana, worker = outsider("psql of ana"), outsider("queueapp-work w", autocommit=True)
    ana.execute("SELECT 1 FROM jobs FOR UPDATE")
    worker.pgconn.send_query(b"UPDATE jobs SET priority = 1")

    blocked = "ok"
    while blocked.startswith("ok"):
        blocked = reading(console.get("/system"), "locks")

    assert blocked.startswith("careful Locks 1 connection of the queue waits for a lock")
    assert f"pid {ana.info.backend_pid} (psql of ana," in blocked
    assert f"SELECT pg_terminate_backend({ana.info.backend_pid});" in blocked
    # The same lock while the line stands still: what a red verdict blames is bad.
    ana.rollback()
    worker.pgconn.get_result()
    session.execute(sa.update(Job).values(created_at=ago(70), available_at=ago(70)))
    session.commit()
    ana.execute(f"SELECT 1 FROM jobs WHERE id = {job.id} FOR UPDATE".encode())
    while worker.pgconn.get_result():
        pass
    worker.pgconn.send_query(b"UPDATE jobs SET priority = 1")
    blocked = "ok"
    while blocked.startswith("ok"):
        blocked = reading(console.get("/system"), "locks")
    assert blocked.startswith("bad Locks 1 connection of the queue waits for a lock")


def test_what_is_to_be_vacuumed_is_held_back_only_where_something_holds_it(
    session: Session, outsider: Outsider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_cost, "BAD_PAGES", 0)
    monkeypatch.setattr(activity, "CAREFUL_S", 0.0)
    free = claim_cost.claim_cost(session, Asked())
    assert (free.tone, free.next_step, free.command) == ("bad", "Vacuum it now:", "VACUUM jobs;")

    ana = outsider("psql of ana")
    ana.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    ana.execute("SELECT 1 FROM jobs")
    session.rollback()
    held = claim_cost.claim_cost(session, Asked())
    assert held.next_step == "End what holds the oldest snapshot first, then:"


def test_autovacuum_that_is_off_is_bad(console: Console, session: Session) -> None:
    off = "ALTER TABLE jobs SET (autovacuum_enabled = off)"

    with changed(session, off, "ALTER TABLE jobs RESET (autovacuum_enabled)"):
        said = reading(console.get("/system"), "dead_rows")

    assert said.startswith("bad Dead rows Autovacuum is turned off for jobs")
    assert "Next: Turn it on again: ALTER TABLE jobs RESET (autovacuum_enabled);" in said


def test_few_dead_rows_of_which_autovacuum_is_due_say_why_that_is_well(
    console: Console, session: Session
) -> None:
    make_job(session)
    session.commit()
    soon = "autovacuum_vacuum_threshold = 3, autovacuum_vacuum_scale_factor = 0"
    back = "autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor"

    def due() -> str | None:
        # A real autovacuum may come between.
        session.execute(sa.update(Job).values(priority=Job.priority + 1))
        session.commit()
        session.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        session.commit()
        said = reading(console.get("/system"), "dead_rows")
        return said if "autovacuum is due" in said else None

    with changed(session, f"ALTER TABLE jobs SET ({soon})", f"ALTER TABLE jobs RESET ({back})"):
        said = until(due, "autovacuum is due")

    assert said.startswith("ok Dead rows Few enough dead rows: ")
    assert "; autovacuum is due, from 3 in jobs on" in said
    assert "it is late from 10,000 in jobs on" in said


def test_a_server_that_takes_no_writes_says_so(database_url: str) -> None:
    options = "-c default_transaction_read_only=on"
    url = make_url(database_url).update_query_dict({"options": options})

    with application(url.render_as_string(hide_password=False)) as app:
        said = reading(app.test_client().get("/system").text, "read_only")

    assert said.startswith("bad Writes The database takes no writes")


def test_lines_that_missed_their_day_are_told(console: Console, session: Session) -> None:
    old = datetime(2001, 2, 3, tzinfo=UTC)
    session.add(JobEvent(scope="queue", event="queue_resumed", actor="x", created_at=old))
    session.commit()

    said = reading(console.get("/system"), "days")

    assert said.startswith("careful Days of the ledger")
    assert "1 line between 2001-02-03 and 2001-02-03 lies in the default partition" in said


def test_the_limit_that_is_nearest_is_told(console: Console, session: Session) -> None:
    name = session.scalar(sa.text("SELECT quote_ident(current_database())"))
    limit = f"ALTER DATABASE {name} CONNECTION LIMIT"

    with changed(session, f"{limit} 2", f"{limit} -1"):
        said = reading(console.get("/system"), "connections")

    assert re.search(r"^bad Connections \d+ of 2 connections of this database are taken", said)


def test_a_clock_that_is_wrong_is_told(console: Console, session: Session) -> None:
    told = {"slots": 1, "clock": "2001-02-03T04:05:06+00:00"}
    control.record(session, Event.WORKER_SEEN, scope="worker:w", actor="worker:w", data=told)
    session.commit()

    said = reading(console.get("/system"), "clocks")

    assert said.startswith("bad Clocks The clock of worker:w is ")
    assert "behind the database's" in said


def test_one_reading_that_takes_too_long_does_not_take_the_page(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(session: Session, _asked: object) -> None:
        queries.bound_reads(session, seconds=0.01)
        session.execute(sa.text("SELECT pg_sleep(1)"))

    broken = [report.Reading(one.code, one.title, slow, "", "", None) for one in READINGS[:1]]  # type: ignore[arg-type]
    monkeypatch.setattr(report, "READINGS", (*broken, *READINGS[1:]))

    page = console.get("/system")

    assert reading(page, "read_only") == "unknown Writes – it took longer than 2 s and was stopped"
    assert reading(page, "schema").startswith("ok")


def test_readings_that_take_too_long_together_are_cut(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "BUDGET_S", -1.0)

    page = console.get("/system")

    assert page.count("– the readings before it took too long") == len(READINGS)


def test_hostile_names_are_text(console: Console, outsider: Outsider) -> None:
    outsider(TEXT[:60]).execute("SELECT pg_current_xact_id() /* <script>x7</script> */")

    page = console.get("/system")

    assert "<script>x7" not in page
    assert "&lt;script&gt;x7" in page


def test_its_statements_scan_neither_table(
    session: Session, database_url: str, outsider: Outsider
) -> None:
    seed(session, 20_000)
    with application(database_url) as app:
        with app.app_context():
            engine = db.engine
        with statements_of(engine) as sent:
            assert app.test_client().get("/system").status_code == 200

        queries.bound_reads(session)
        assert sequential_scans(session, sent) == []
    assert len(sent) <= 30


def test_on_sqlite_it_says_what_cannot_be_known(tmp_path: Path) -> None:
    with application(migrated(tmp_path / "queue.db")) as app:
        page = app.test_client().get("/system").text
        roll = words(app.test_client().get("/workers").text)

    assert reading(page, "schema").startswith("ok")
    assert reading(page, "clocks").startswith("ok")
    assert reading(page, "snapshot").startswith("unknown Oldest snapshot Cannot be known here")
    assert page.count("Cannot be known here") == len(READINGS) - 2
    assert "SQLite keeps no list of who has the file open" in roll


def test_the_worst_tone_comes_first() -> None:
    tones = told.Tone

    assert told.worst([tones.OK, tones.UNKNOWN]) is tones.UNKNOWN
    assert told.worst([tones.UNKNOWN, tones.CAREFUL, tones.BAD]) is tones.BAD
    assert told.worst([]) is tones.OK
    assert [told.tone_of(v, 2, 5) for v in (1, 2, 5)] == [tones.OK, tones.CAREFUL, tones.BAD]
