"""``flask jobs``: what a person types, what they read, and how the command ends."""

from __future__ import annotations

import json
import os
import pwd
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import Result
from flask import Flask
from flask.testing import FlaskCliRunner
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.commands.moves import COMMANDS
from queueapp.jobs import control, operations
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.factories import make_job

ME = f"cli:{pwd.getpwuid(os.getuid()).pw_name}"


class Terminal:
    """A person at the command line."""

    def __init__(self, runner: FlaskCliRunner) -> None:
        self._runner = runner

    def __call__(self, *words: str, stdin: str | None = None) -> Result:
        result = self._runner.invoke(args=["jobs", *words], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def refused(self, *words: str, exit_code: int = 1) -> str:
        """Run a command that must fail; return the last line of what it says."""
        result = self(*words)
        assert (result.exit_code, result.stdout) == (exit_code, "")
        last: str = result.stderr.rstrip().splitlines()[-1]
        return last


@pytest.fixture
def jobs(runner: FlaskCliRunner) -> Terminal:
    return Terminal(runner)


def test_every_command_teaches_with_an_example(app: Flask, runner: FlaskCliRunner) -> None:
    names = ["enqueue", "list", "show", "why", *(one.name or "" for one in COMMANDS)]
    for words in (["jobs", name] for name in names):
        text = runner.invoke(args=[*words, "--help"]).stdout
        assert f"flask {' '.join(words)} " in text.partition("Examples:")[2]


def test_enqueue_stores_what_was_typed(jobs: Terminal, session: Session) -> None:
    result = jobs(
        "enqueue", "demo.echo", '{"message": "hello"}', "--priority", "7", "--delay", "1h",
        "--max-attempts", "3", "--timeout", "2m", "--key", "k",
    )  # fmt: skip

    job = session.scalars(sa.select(Job)).one()
    assert result.stdout == f"job {job.id} enqueued\n"
    assert (job.payload, job.priority, job.max_attempts) == ({"message": "hello"}, 7, 3)
    assert (job.timeout_s, job.idempotency_key, job.producer) == (120, "k", ME)
    assert (job.available_at - job.created_at).total_seconds() == 3600
    event = session.scalars(sa.select(JobEvent)).one()
    assert (event.actor, event.data["via"]) == (ME, "cli")


def test_a_payload_comes_from_a_file_or_from_standard_input(
    jobs: Terminal, session: Session, tmp_path: Path
) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"message": "from a file"}')

    jobs("enqueue", "demo.echo", f"@{file}")
    jobs("enqueue", "demo.echo", "-", stdin='{"message": "from stdin"}')
    jobs("enqueue", "demo.echo")

    payloads = session.scalars(sa.select(Job.payload).order_by(Job.id)).all()
    assert payloads == [{"message": "from a file"}, {"message": "from stdin"}, {}]


def test_a_key_makes_a_command_safe_to_repeat(jobs: Terminal) -> None:
    first = jobs("enqueue", "demo.echo", "--key", "nightly")
    again = jobs("enqueue", "demo.echo", "--key", "nightly")
    other = jobs.refused("enqueue", "demo.echo", "--key", "nightly", "--priority", "1")

    assert "enqueued" in first.stdout
    assert "was there already" in again.stdout
    assert other.endswith("asked for with a different priority")


@pytest.mark.parametrize(
    ("words", "said", "exit_code"),
    [
        (["no.such"], "no handler here runs no.such; kinds here: demo.echo", 1),
        (["demo.echo", "{oops"], "'{oops': this is not JSON", 2),
        (["demo.echo", "[]"], "/payload must be an object", 1),
        (["demo.echo", '{"a": 1, "a": 2}'], "given twice in one object", 2),
        (["demo.echo", "@/no/such/file"], "cannot read '/no/such/file'", 2),
        (["demo.echo", '{"bogus": 1}'], "/payload/bogus", 1),
        (["demo.echo", "{}", "--priority", "high"], "'high' is not a valid integer", 2),
        (["demo.echo", "{}", "--priority", "99999"], "the range -32768<=x<=32767", 2),
        (["demo.echo", "{}", "--max-attempts", "0"], "/max_attempts must be", 1),
        (["demo.echo", "{}", "--delay", "soon"], "'soon': expected a duration such as 90", 2),
        (["demo.echo", "{}", "--at", "tomorrow"], "'tomorrow' must be an RFC 3339 time", 2),
        (["demo.echo", "{}", "--at", "2030-02-30T00:00:00Z"], "is no such date or time", 2),
        (["demo.echo", "{}", "--at", "0001-01-01T00:00:00+14:00"], "is no such date or time", 2),
        (["demo.echo", "{}", "--key", "a\0b"], "'a\\x00b' contains a NUL character", 2),
        (["demo.echo", "{}", "--timeout", "0.5s"], "give whole seconds", 2),
        (["demo.echo", "{}", "--key", " "], "/key must be text", 1),
        (["demo.echo", "{}", "--key", "\udcff"], "is not UTF-8 text", 2),
        (["demo.echo", "--at", "2030-01-01T00:00:00Z", "--delay", "5"], "either delay or", 1),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_refusal_is_one_line_with_the_bad_value(
    jobs: Terminal, session: Session, words: list[str], said: str, exit_code: int
) -> None:
    line = jobs.refused("enqueue", *words, exit_code=exit_code)

    assert line.startswith("Error: ")
    assert said in line
    assert session.scalars(sa.select(Job)).all() == []


def test_list_is_an_aligned_table_newest_first(jobs: Terminal, session: Session) -> None:
    first = make_job(session, priority=-5)
    second = make_job(session, Status.FAILED, kind="a.much.longer.kind")
    session.commit()

    head, *lines = jobs("list").stdout.splitlines()

    assert [line.split()[0] for line in lines] == [str(second.id), str(first.id)]
    for line, word in zip(lines, ("a.much.longer.kind", "demo.echo"), strict=True):
        assert line.index(word) == head.index("KIND")


def test_list_narrows_and_pages(jobs: Terminal, session: Session) -> None:
    failed = make_job(session, Status.FAILED)
    queued = make_job(session)
    held = make_job(session, Status.HELD)
    session.commit()

    def ids(*words: str) -> list[int]:
        lines = jobs("list", "--json", *words).stdout.splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert ids("--status", "failed,held") == [held.id, failed.id]
    assert ids("--status", "failed", "--status", "held") == [held.id, failed.id]
    assert ids("--producer", "nobody") == []
    assert ids("--limit", "1", "--before", str(held.id)) == [queued.id]
    page = jobs("list", "--limit", "2")
    assert page.stderr == f"more: --before {queued.id}\n"
    assert jobs("list", "--kind", "none.such").stdout == "no jobs\n"


def test_list_takes_the_filter_of_the_console(jobs: Terminal, session: Session) -> None:
    tried = make_job(session, Status.FAILED, attempts=3, payload={"order": {"id": 42}, "to": "a"})
    running = make_job(session, Status.RUNNING)
    later = make_job(session, available_at=datetime.now(UTC) + timedelta(hours=1))
    early = datetime.now(UTC) - timedelta(days=2)
    old = make_job(session, created_at=early, available_at=early)
    session.commit()
    found = operations.survey(session, "cancel", JobFilter(kind=later.kind, status=(Status.HELD,)))
    none = operations.plan(session, found, how={}, actor=ME, reason="for a test")
    session.commit()

    def ids(*words: str) -> list[int]:
        lines = jobs("list", "--json", *words).stdout.splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert ids("--until", "-1d") == [old.id]
    assert ids("--since", "-2h") == [later.id, running.id, tried.id]
    assert ids("--since", "2020-01-01", "--until", "2021-01-01T00:00:00+02:00") == []
    assert ids("--attempts", ">=3") == ids("--attempts", "3") == [tried.id]
    assert ids("--payload", "order.id=42", "--payload", "to=a") == [tried.id]
    assert ids("--payload", "order.id=43") == []
    assert running.locked_by is not None
    assert ids("--worker", running.locked_by) == [running.id]
    assert ids("--status", "scheduled") == [later.id]
    assert ids("--status", "due") == [old.id]
    assert ids("--operation", none.id) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "soon"], "--since: “soon” is no time: write -2h, 2026-11-29 02:30"),
        (["--since", "-1h", "--until", "-2h"], "--until: No time lies between"),
        (["--attempts", "many"], "--attempts: “many” is no number of attempts: write 3, or >=3"),
        (["--payload", "order"], "--payload: “order” has no value: write field=value"),
        (["--operation", "7"], "--operation: “7” is no operation"),
        (["--status", "due,failed"], "--status: Due, scheduled and retrying cannot be combined"),
        (["--kind", " "], "--kind: it is empty"),
        (["--payload", ""], "--payload: it is empty"),
    ],
)
def test_a_filter_that_makes_no_sense_lists_nothing(
    jobs: Terminal, session: Session, words: list[str], said: str
) -> None:
    make_job(session)
    session.commit()

    assert said in jobs.refused("list", *words, exit_code=2)


def test_a_clone_is_a_new_job_and_both_name_the_other(jobs: Terminal, session: Session) -> None:
    done = make_job(session, Status.SUCCEEDED, priority=7)
    gone = make_job(session, Status.FAILED, kind="no.such")
    session.commit()

    result = jobs("clone", str(done.id), str(gone.id), "999999", "--reason", "it was lost")

    made = session.scalars(sa.select(Job).order_by(Job.id.desc())).first()
    assert made is not None
    assert result.stdout == f"job {done.id} cloned as job {made.id}\n"
    assert result.exit_code == 1
    assert "no handler here runs no.such" in result.stderr
    assert "there is no job 999999" in result.stderr
    assert (made.status, made.kind, made.priority) == ("queued", done.kind, 7)
    [first] = session.scalars(sa.select(JobEvent).where(JobEvent.job_id == made.id))
    assert (first.actor, first.reason, first.data["via"]) == (ME, "it was lost", "cli")
    assert first.data["cloned_from"] == done.id


def test_a_mistyped_status_lists_nothing(jobs: Terminal, session: Session) -> None:
    make_job(session)
    session.commit()

    line = jobs.refused("list", "--status", "qeued", exit_code=2)

    assert "'qeued' is no status: queued, running" in line


@pytest.mark.parametrize("priority", ["100000", "-32769"])
def test_a_priority_that_no_job_has_lists_nothing(jobs: Terminal, priority: str) -> None:
    line = jobs.refused("list", "--priority", priority, exit_code=2)

    assert f"{priority} is not in the range -32768<=x<=32767" in line


def test_show_tells_every_field_and_the_whole_story(jobs: Terminal, session: Session) -> None:
    job = make_job(session, Status.FAILED, payload={"message": "a\x1b[31mb"})
    session.commit()

    text = jobs("show", str(job.id), "--traceback").stdout

    for word in ("payload", "error_class", "error_fingerprint", "finished_at"):
        assert f"\n{word} " in text
    story = text.partition("events")[2]
    assert story.index("enqueued") < story.index("claimed") < story.index("failed")
    assert "\x1b" not in text


def test_show_tells_progress_only_until_the_end(jobs: Terminal, session: Session) -> None:
    running = make_job(session, Status.RUNNING, progress=92, progress_note="step 37")
    succeeded = make_job(session, Status.SUCCEEDED, progress=92, progress_note="step 37")
    session.commit()

    assert "step 37" in jobs("show", str(running.id)).stdout
    assert "progress" not in jobs("show", str(succeeded.id)).stdout


def test_show_as_json_has_the_events_inside(jobs: Terminal, session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED)
    session.commit()

    found = json.loads(jobs("show", str(job.id), "--json").stdout)

    assert found["status"] == "succeeded"
    assert [line["event"] for line in found["events"]] == ["enqueued", "claimed", "succeeded"]


@pytest.mark.parametrize("job_id", ["x", "0", "-1", "1.0", str(2**63), "١"])
def test_what_is_no_id_is_a_usage_error(jobs: Terminal, job_id: str) -> None:
    assert jobs("show", "--", job_id).exit_code == 2


def test_a_missing_job_is_named(jobs: Terminal) -> None:
    assert jobs.refused("show", "999999") == "Error: there is no job 999999"


@pytest.mark.parametrize(
    ("verb", "status", "moved"),
    [
        ("cancel", Status.QUEUED, "cancelled: queued → cancelled"),
        ("cancel", Status.RUNNING, "cancel_requested: running → running"),
        ("retry", Status.FAILED, "requeued: failed → queued"),
        ("hold", Status.QUEUED, "held: queued → held"),
        ("unhold", Status.HELD, "unheld: held → queued"),
        ("reschedule --delay 5m", Status.HELD, "rescheduled: held → held"),
        ("reschedule --priority 7", Status.QUEUED, "rescheduled: queued → queued"),
        ("run-now", Status.QUEUED, "rescheduled: queued → queued"),
        ("release", Status.RUNNING, "released: running → queued"),
    ],
)
def test_a_move_is_told_and_signed(
    jobs: Terminal, session: Session, verb: str, status: Status, moved: str
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=1)
    job = make_job(session, status, available_at=soon)
    session.commit()
    claim = ["--claimed-at", job.claimed_at.isoformat()] if job.claimed_at else []

    result = jobs(*verb.split(), str(job.id), "--reason", "because", *claim * (verb == "release"))

    assert result.stdout == f"job {job.id} {moved}\n"
    last = session.scalars(sa.select(JobEvent).order_by(JobEvent.id.desc())).first()
    assert last is not None
    assert (last.actor, last.reason, last.data["via"]) == (ME, "because", "cli")


@pytest.mark.parametrize("how", [[], ["--reason", ""], ["--reason", " "]])
def test_a_hold_wants_a_reason(jobs: Terminal, session: Session, how: list[str]) -> None:
    job = make_job(session)
    session.commit()

    result = jobs("hold", str(job.id), *how)

    assert result.exit_code == 2
    assert "--reason" in result.stderr
    session.expire_all()
    assert job.status == Status.QUEUED


def test_a_move_to_where_a_job_stands_says_so(jobs: Terminal, session: Session) -> None:
    job = make_job(session, priority=7)
    session.commit()

    for words in (["run-now"], ["reschedule", "--priority", "7"]):
        result = jobs(*words, str(job.id))
        assert (result.exit_code, result.stdout) == (0, f"job {job.id} stands there already\n")


@pytest.mark.parametrize("words", [[], ["--delay", "5", "--at", "2030-01-31T08:00:00Z"]])
def test_a_reschedule_needs_one_place(jobs: Terminal, session: Session, words: list[str]) -> None:
    job = make_job(session)
    session.commit()

    assert jobs("reschedule", str(job.id), *words).exit_code == 2


def test_one_refusal_does_not_stop_the_others(jobs: Terminal, session: Session) -> None:
    done, queued = make_job(session, Status.SUCCEEDED), make_job(session)
    session.commit()

    result = jobs("cancel", str(done.id), "999999", str(queued.id))

    assert result.exit_code == 1
    assert result.stdout == f"job {queued.id} cancelled: queued → cancelled\n"
    assert [line.split(";")[0] for line in result.stderr.splitlines()] == [
        f"Error: job {done.id} is succeeded",
        "Error: there is no job 999999",
    ]


@pytest.mark.postgresql("a server that does not answer")
def test_a_silent_database_is_told_in_one_line(database_url: str) -> None:
    address = sa.make_url(database_url).set(host="127.0.0.1", port=1, password="hunter2")
    app = create_app({"DATABASE_URL": address.render_as_string(hide_password=False)})

    result = app.test_cli_runner().invoke(args=["jobs", "list"])

    assert result.exit_code == 69
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "Error: the database does not answer: check DATABASE_URL, or try again ("
    )
    assert "refused" in line
    assert "hunter2" not in line


@pytest.mark.postgresql("what its server says")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"password": "hunter2"}, "password authentication failed"),
        ({"database": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_a_server_that_refuses_us_is_told_as_a_wrong_setting(
    database_url: str, wrong: dict[str, str], said: str
) -> None:
    address = sa.make_url(database_url).set(**wrong)  # type: ignore[arg-type]
    app = create_app({"DATABASE_URL": address.render_as_string(hide_password=False)})

    for command in (["jobs", "list"], ["work"]):
        result = app.test_cli_runner().invoke(args=command)

        assert result.exit_code == 78
        line = result.stderr.splitlines()[-1]
        assert line.startswith("Error: the database refuses this connection: check DATABASE_URL (")
        assert said in line
        assert "hunter2" not in line


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    app = create_app({"DATABASE_URL": f"sqlite:///{tmp_path}/gone/queue.db"})

    for command in (["jobs", "list"], ["work"]):
        result = app.test_cli_runner().invoke(args=command)

        assert result.exit_code == 78
        assert f"DATABASE_URL: there is no folder {tmp_path}/gone" in result.stderr


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    app = create_app({"DATABASE_URL": f"sqlite:///{tmp_path}/queue.db"})

    for command in (["jobs", "list"], ["work"]):
        result = app.test_cli_runner().invoke(args=command)

        assert result.exit_code == 78
        assert f"DATABASE_URL: there is no file {tmp_path}/q" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_of_sqlite_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk, but not here and not now, for it is late" * 20)
    for name, what in (("notes.txt", "is no database of SQLite"), ("", "is a folder")):
        app = create_app({"DATABASE_URL": f"sqlite:///{tmp_path}/{name}"})

        result = app.test_cli_runner().invoke(args=["jobs", "list"])

        assert result.exit_code == 78
        assert what in result.stderr


def test_why_tells_the_sentence_the_next_step_and_the_evidence(
    jobs: Terminal, session: Session
) -> None:
    job = make_job(session)
    control.pause(session, actor="user:ana", reason="up\x1b[31mgrade\nnow")
    session.commit()

    first, *more = jobs("why", str(job.id)).stdout.splitlines()
    found = json.loads(jobs("why", str(job.id), "--json").stdout)

    assert first.startswith("The queue was paused by user:ana 0.")
    assert first.endswith("(up\\x1b[31mgrade now).")
    assert more[0].startswith("Also: No worker is running")
    assert more[1] == "Next: Ask who paused it; resuming the queue lets it run."
    assert "  rule    queue_paused" in more
    assert "  by      user:ana" in more
    assert (found["rule"], found["evidence"]["by"]) == ("queue_paused", "user:ana")
    assert jobs.refused("why", "999999") == "Error: there is no job 999999"
