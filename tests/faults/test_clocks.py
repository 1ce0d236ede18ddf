"""No host's clock or zone matters, nor how a role likes to read its dates: the database decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg import sql

from tests.live import needs
from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until

ODD = (
    "ALTER DATABASE {database} SET timezone = 'America/Sao_Paulo'",
    "ALTER ROLE {role} IN DATABASE {database} SET timezone = 'Asia/Tokyo'",
    "ALTER ROLE {role} IN DATABASE {database} SET datestyle = 'SQL, DMY'",
    "ALTER ROLE {role} IN DATABASE {database} SET intervalstyle = 'sql_standard'",
    "ALTER ROLE {role} IN DATABASE {database} SET extra_float_digits = 0",
    "ALTER ROLE {role} IN DATABASE {database} SET bytea_output = 'escape'",
    "ALTER ROLE {role} IN DATABASE {database} SET standard_conforming_strings = off",
)
PLAIN = (
    "ALTER DATABASE {database} RESET ALL",
    "ALTER ROLE {role} IN DATABASE {database} RESET ALL",
)

# An hour is the least that a wrong zone or clock is off by; the machine may be slow by seconds.
PUNCTUAL_S = 15


def say(journey: Journey, statements: tuple[str, ...]) -> None:
    with journey.engine.begin() as connection:
        [(role, database)] = connection.exec_driver_sql("SELECT current_user, current_database()")
        for statement in statements:
            named = sql.SQL(statement).format(
                role=sql.Identifier(role), database=sql.Identifier(database)
            )
            connection.exec_driver_sql(named.as_string())


@pytest.fixture
def odd_settings(journey: Journey) -> Iterator[None]:
    say(journey, ODD)
    yield
    journey.processes.close()
    say(journey, PLAIN)


def late_by(journey: Journey, job: int, attempt: int = 1) -> float:
    """Seconds between the due time and the claim, both of the database."""
    claimed = """
        SELECT created_at FROM job_events
        WHERE job_id = %(id)s AND event = 'claimed' AND attempt = %(attempt)s"""
    due = """
        SELECT (data->>'available_at')::timestamptz FROM job_events
        WHERE job_id = %(id)s AND data ? 'available_at' ORDER BY id DESC LIMIT 1"""
    seconds: float = (
        journey.one(claimed, id=job, attempt=attempt) - journey.one(due, id=job)
    ).total_seconds()
    return seconds


def post(web: Web, kind: str, **fields: object) -> dict[str, object]:
    answer = web.ask("POST", "/api/jobs", {"kind": kind, **fields})
    assert answer.status == 201, answer.body
    found: dict[str, object] = answer.body
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("odd_settings")
def test_zones_and_styles_of_role_database_worker_and_web_change_nothing(journey: Journey) -> None:
    journey.work(TZ="America/St_Johns", QUEUE_BACKOFF_BASE="2s")
    web = journey.web(TZ="Pacific/Chatham")
    soon = journey.one("SELECT clock_timestamp()") + timedelta(seconds=3)
    chatham = soon.astimezone(UTC) + timedelta(hours=12, minutes=45)
    written = f"{chatham:%Y-%m-%dT%H:%M:%S.%f}+12:45"

    now = int(str(post(web, "journey.tick")["id"]))
    later = post(web, "journey.tick", available_at=written)
    again = int(str(post(web, "journey.flaky")["id"]))
    planned = int(str(later["id"]))
    for job in (now, planned, again):
        journey.wait_for_status(job, "succeeded")

    assert later["available_at"] == f"{soon.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    for job, attempt in ((now, 1), (planned, 1), (again, 2)):
        assert 0 <= late_by(journey, job, attempt) < PUNCTUAL_S
    starts = journey.ledger.starts(again)
    assert 1.5 < starts[1].mono - starts[0].mono < PUNCTUAL_S
    # The same instants everywhere, with their zone.
    row, shown = journey.job(planned), web.ask("GET", f"/api/jobs/{planned}").body
    for name in ("created_at", "available_at", "started_at", "finished_at"):
        assert datetime.fromisoformat(shown[name]) == getattr(row, name)
        assert shown[name].endswith("Z")
    page = web.ask("GET", f"/jobs/{planned}").body
    assert f"{row.finished_at.astimezone(UTC):%H:%M:%S}" in page
    assert "UTC" in page
    for path in ("/", "/jobs", "/events", "/api/stats", f"/api/jobs/{planned}/events"):
        assert web.ask("GET", path).status == 200
    for words in (("audit",), ("jobs", "show", str(planned)), ("purge", "--dry-run")):
        command = journey.processes.start(words[0], "flask", "--app", "wsgi", *words)
        assert command.wait() == 0, command.said()
    stand(journey)


class Clock:
    """The wall clock of some processes, wrong by as much as a shared file says at the moment.

    A library in front of the C library's: how long sleeps and waits take stays as it is.
    """

    def __init__(self, library: Path, hours: float) -> None:
        self._offset = library.with_name(f"offset-{hours:g}")
        self._offset.touch()
        self.step(hours)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._offset)}

    def step(self, hours: float) -> None:
        """Set it, also under a process that runs."""
        with self._offset.open("r+b") as file:
            file.write(int(hours * 3600).to_bytes(8, sys.byteorder, signed=True))


@pytest.fixture
def clock_library(tmp_path: Path) -> Path:
    library = tmp_path / "clock.so"
    source = Path(__file__).with_name("clock.c")
    compiler = needs.program("gcc", "gcc libc6-dev")
    options = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o")
    subprocess.run([compiler, *options, library, source], check=True)
    return library


NEGATIVE = """
SELECT count(*) FROM job_events
WHERE (data->>'run_ms')::float8 < 0 OR (data->>'wait_ms')::float8 < 0
"""
BACKWARDS = """
SELECT count(*) FROM jobs
WHERE finished_at < started_at OR started_at < claimed_at OR started_at < created_at
"""
LEAST_LEFT = """
SELECT extract(epoch FROM min(lease_expires_at) - clock_timestamp())::float8 FROM jobs
WHERE status = 'running'
"""


@pytest.mark.slow
def test_wrong_clocks_of_workers_and_web_change_nothing(
    journey: Journey, clock_library: Path
) -> None:
    ahead, behind = Clock(clock_library, 2), Clock(clock_library, -2)
    for clock in (ahead, behind):
        options = ("--lease", "3", "--concurrency", "2")
        journey.work(*options, ready=True, **clock.environment, QUEUE_BACKOFF_BASE="2s")
    web = journey.web(workers=1, threads=4, **Clock(clock_library, 1 / 6).environment)
    gates = journey.enqueue("journey.gate", count=2)
    for job in gates:
        journey.wait_for_start(job)

    planned = int(str(post(web, "journey.tick", delay=3600)["id"]))
    soon = int(str(post(web, "journey.tick", delay=2)["id"]))
    flaky = int(str(post(web, "journey.flaky")["id"]))
    ticks = journey.enqueue("journey.tick", count=20)
    for hours in (3, 1):
        ahead.step(hours)
        until(lambda: journey.one(LEAST_LEFT) < 2.5, "a lease gets older")
        until(lambda: journey.one(LEAST_LEFT) > 2.5, "and is renewed")
    journey.wait_for_end([soon, flaky])
    journey.wait_for_end(ticks)
    true = datetime.now(UTC).timestamp()
    wrong_by = [line.at - true for line in journey.ledger.starts()]
    for job in gates:
        journey.open(job)
    journey.wait_for_end(gates)

    assert min(wrong_by) < -3000 < 3000 < max(wrong_by), "the clocks were not wrong"
    assert journey.job(planned).status == "queued", "an hour early"
    assert {journey.job(job).attempts for job in (*gates, *ticks, soon)} == {1}
    assert 0 <= late_by(journey, soon) < PUNCTUAL_S
    starts = journey.ledger.starts(flaky)
    assert 1.5 < starts[1].mono - starts[0].mono < PUNCTUAL_S
    assert journey.rows("SELECT FROM job_events WHERE event = 'lease_expired'") == []
    assert journey.one(NEGATIVE) == 0
    assert journey.one(BACKWARDS) == 0
    stand(journey, true_clocks=False)
