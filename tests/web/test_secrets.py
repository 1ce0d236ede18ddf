"""No secret, payload or value of a statement reaches a log or a refusal, whatever goes wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from tests.live.checks import stand
from tests.live.journey import Answer, Journey
from tests.live.raw import ask, head

SECRET = "hunter2"
TOKEN = f"token-{SECRET}"
ENTRY = f"boss:admin:{hashlib.sha256(TOKEN.encode()).hexdigest()}"
# The database says the whole row back, as it does over a constraint, and not as an error that can
# be expected: SQLSTATE P0001.
_FAULT = """
CREATE FUNCTION tell_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no: %', NEW USING DETAIL = to_jsonb(NEW)::text, HINT = NEW.*::text; END $$;
CREATE TRIGGER tell_all BEFORE INSERT OR UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION tell_all()
"""


@contextmanager
def talkative(engine: Engine) -> Iterator[None]:
    """Have the database refuse every write of a job, and tell all of it."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_FAULT.replace("%", "%%"))
    yield
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP FUNCTION tell_all() CASCADE")


def test_a_fault_of_the_database_is_told_without_a_value(journey: Journey) -> None:
    web = journey.web(QUEUE_TOKENS=ENTRY)
    wanted = {"kind": "journey.tick", "payload": {"ms": 1}, "idempotency_key": f"key-{SECRET}"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    def post(path: str, body: object) -> Answer:
        return web.ask("POST", path, body, **bearer)

    job = post("/api/jobs", wanted).body["id"]
    [lease] = post("/api/leases", {"kinds": ["journey.tick"]}).body["items"]
    lease = {"id": job, "token": lease["token"]}
    with talkative(journey.engine):
        faults = [
            post("/api/jobs", {**wanted, "idempotency_key": f"other-{SECRET}"}),
            post("/api/jobs/bulk", [{**wanted, "idempotency_key": f"third-{SECRET}"}]),
            post(f"/api/jobs/{job}/cancel", {"reason": SECRET}),
            post("/api/leases/progress", {"items": [{**lease, "percent": 1, "note": SECRET}]}),
            post("/api/leases/settle", {"items": [{**lease, "verb": "succeed", "result": SECRET}]}),
        ]
    refused = [
        post("/api/jobs", {**wanted, "priority": SECRET, SECRET[:3]: SECRET}),
        post("/api/jobs", {"kind": "journey.tick", "payload": {"ms": SECRET}}),
        web.ask("GET", f"/api/jobs?before={SECRET}", **bearer),
        web.ask("GET", "/api/jobs", Authorization=f"Bearer wrong-{SECRET}"),
        web.ask("GET", "/api/jobs", Authorization=f'Bearer "{TOKEN}"'),
        web.ask("GET", "/api/jobs", Cookie=f"queue_session={SECRET}"),
    ]
    post("/api/leases/settle", {"items": [{**lease, "verb": "release"}]})

    said = web.process.said()
    assert {answer.status for answer in faults} == {500}
    assert {answer.status for answer in refused} <= {400, 401, 422}
    for answer in faults:
        assert answer.body["code"] == "internal_error"
        assert answer.body["request_id"] in said
    for answer in (*faults, *refused):
        assert SECRET not in json.dumps(answer.body)
    assert SECRET not in said, said
    assert "P0001" in said
    # It was leased over HTTP, so no handler has begun.
    stand(journey, every_claim_started=False)


def test_a_worker_tells_nothing_of_what_it_could_not_write(journey: Journey) -> None:
    job = journey.enqueue_one("demo.echo", {"message": {"password": SECRET}})
    with talkative(journey.engine):
        worker = journey.work("--concurrency", "1", ready=False)
        worker.wait_until_it_says("database error RaiseException")
    journey.wait_for_end([job])
    with talkative(journey.engine):
        listed = journey.processes.start("cli", "flask", "--app", "wsgi", "jobs", "retry", str(job))
        listed.wait()

    assert SECRET not in worker.said()
    assert SECRET not in listed.said()
    stand(journey)


def test_an_address_that_does_not_work_is_told_without_its_password(journey: Journey) -> None:
    bad = (
        f"postgresql://ana:{SECRET}@127.0.0.1:1/none",
        f"postgresql://ana:{SECRET}@nowhere.invalid/none",
        f"postgresql://ana:{SECRET}@[::1/none",
    )
    for url in bad:
        command = journey.processes.start(
            "cli", "flask", "--app", "wsgi", "jobs", "list", DATABASE_URL=url
        )
        assert command.wait() in (69, 78)
        assert SECRET not in command.said(), command.said()
    stand(journey)


def test_a_path_cannot_forge_a_line_of_the_log(journey: Journey) -> None:
    web = journey.web(DATABASE_URL="postgresql://127.0.0.1:1/none")
    forged = "2030-01-01 all is well"

    ask(web.port, head("GET", f"/api/jobs/1%0a{forged.replace(' ', '%20')}", "Connection: close"))
    ask(web.port, head("GET", "/api/jobs?x=%0a2030", "Connection: close"))

    assert not [line for line in web.process.said().splitlines() if line.startswith("2030")]
    stand(journey)
