"""``flask jobs enqueue --from``: jobs from lines, and how to go on where it stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskCliRunner
from sqlalchemy.orm import Session

from queueapp.commands import enqueue_file
from queueapp.errors import DatabaseUnavailable
from queueapp.jobs.models import Job, JobEvent
from tests.commands.test_jobs import ME, Terminal

ECHO = {"kind": "demo.echo"}


@pytest.fixture
def jobs(runner: FlaskCliRunner) -> Terminal:
    return Terminal(runner)


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue_file, "PORTION", 2)


def lines(*items: Any) -> str:
    return "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in items)


def keyed(*keys: str, **fields: Any) -> str:
    return lines(*({**ECHO, "idempotency_key": key, **fields} for key in keys))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.ndjson"


def messages(session: Session) -> list[Any]:
    session.rollback()
    return list(session.scalars(sa.select(Job.payload["message"].as_string()).order_by(Job.id)))


def numbered(*names: str) -> str:
    return lines(*({**ECHO, "payload": {"message": name}} for name in names))


def test_every_line_becomes_a_job_in_the_order_of_the_file(
    jobs: Terminal, file: Path, session: Session
) -> None:
    file.write_text(
        lines({**ECHO, "payload": {"message": "a"}, "priority": 3, "timeout": 5}, "")
        + numbered("b", "c", "d", "e").rstrip("\n")
    )

    result = jobs("enqueue", "--from", str(file))

    assert (result.exit_code, result.stdout, result.stderr) == (0, "5 jobs enqueued\n", "")
    assert messages(session) == ["a", "b", "c", "d", "e"]
    first = session.scalars(sa.select(Job).order_by(Job.id)).first()
    assert first is not None
    assert (first.priority, first.timeout_s, first.producer) == (3, 5, ME)
    events = session.scalars(sa.select(JobEvent)).all()
    assert {(one.event, one.actor, one.data["via"]) for one in events} == {("enqueued", ME, "cli")}
    assert len(events) == 5


def test_standard_input_does_as_well_and_keys_make_a_rerun_safe(
    jobs: Terminal, session: Session
) -> None:
    text = keyed("a", "b", "c", "b")

    assert jobs("enqueue", "--from", "-", stdin=text).stdout == (
        "3 jobs enqueued, 1 there already\n"
    )
    assert jobs("enqueue", "--from", "-", stdin=text).stdout == (
        "0 jobs enqueued, 4 there already\n"
    )
    assert len(messages(session)) == 3


BAD = lines('{"kind": "demo.echo"', {"kind": "demo.sleep", "payload": {"seconds": "5"}})


def test_a_bad_line_of_a_file_is_named_and_nothing_is_written(
    jobs: Terminal, file: Path, session: Session
) -> None:
    file.write_text(numbered("a", "b", "c") + "\n" + BAD)

    result = jobs("enqueue", "--from", str(file))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "line 5: this is not JSON" in result.stderr
    assert "line 6: /payload/seconds must be a number" in result.stderr
    assert "2 lines cannot be enqueued, so none was" in result.stderr
    assert "nothing was enqueued" in result.stderr
    assert messages(session) == []


def test_bad_lines_may_be_passed_over(jobs: Terminal, file: Path, session: Session) -> None:
    file.write_text(numbered("a") + BAD + numbered("b"))

    result = jobs("enqueue", "--from", str(file), "--partial")

    assert (result.exit_code, result.stdout) == (1, "2 jobs enqueued, 2 lines refused\n")
    assert "line 2: this is not JSON" in result.stderr
    assert messages(session) == ["a", "b"]


@pytest.mark.parametrize("mib", [3, 5])
def test_a_line_of_any_length_is_one_line(
    jobs: Terminal, file: Path, session: Session, mib: int
) -> None:
    file.write_text(numbered("a") + numbered("x" * mib * 2**20) + numbered("b") + BAD)

    result = jobs("enqueue", "--from", str(file), "--partial")

    assert result.stdout == "2 jobs enqueued, 3 lines refused\n"
    for said in ("line 2: the line is longer than", "line 4: this is not JSON", "line 5: "):
        assert said in result.stderr
    assert messages(session) == ["a", "b"]


def test_a_bad_line_of_standard_input_keeps_its_portion_and_says_how_to_go_on(
    jobs: Terminal, session: Session
) -> None:
    text = numbered("a", "b", "c") + BAD + numbered("d")

    stopped = jobs("enqueue", "--from", "-", stdin=text)
    after = stopped.stderr.rpartition("--skip ")[2].strip()
    mended = jobs("enqueue", "--from", "-", "--partial", "--skip", after, stdin=text)

    assert (stopped.exit_code, stopped.stdout) == (1, "")
    assert "line 4: this is not JSON" in stopped.stderr
    assert "2 jobs enqueued so far, up to line 2; go on with --skip 2" in (
        stopped.stderr.replace(", 1 line refused", "").replace(", 2 lines refused", "")
    )
    assert mended.stdout == "2 jobs enqueued, 2 lines refused\n"
    assert messages(session) == ["a", "b", "c", "d"]


def test_a_key_of_another_request_is_a_bad_line(jobs: Terminal, session: Session) -> None:
    jobs("enqueue", "--from", "-", stdin=keyed("k"))
    text = keyed("a", "k", priority=1)

    refused = jobs("enqueue", "--from", "-", stdin=text)
    partial = jobs("enqueue", "--from", "-", "--partial", stdin=text)

    assert (refused.exit_code, partial.exit_code) == (1, 1)
    for result in (refused, partial):
        assert "line 2: the idempotency key belongs to job 1, asked" in result.stderr
    assert "nothing was enqueued" in refused.stderr
    assert partial.stdout == "1 job enqueued, 1 line refused\n"
    assert len(messages(session)) == 2


def test_ctrl_c_lets_the_portion_end_and_says_how_to_go_on(
    jobs: Terminal, file: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(numbered("a", "b", "c", "d", "e"))
    write = enqueue_file.Import._write

    def interrupted(run: enqueue_file.Import, portion: Any) -> None:
        if not run.done:
            os.kill(os.getpid(), signal.SIGINT)
        write(run, portion)

    monkeypatch.setattr(enqueue_file.Import, "_write", interrupted)
    result = jobs("enqueue", "--from", str(file))
    monkeypatch.setattr(enqueue_file.Import, "_write", write)

    assert (result.exit_code, result.stdout) == (130, "")
    assert "2 jobs enqueued so far, up to line 2; go on with --skip 2" in result.stderr
    jobs("enqueue", "--from", str(file), "--skip", "2")
    assert messages(session) == ["a", "b", "c", "d", "e"]


def test_a_database_that_fails_in_between_leaves_word_how_to_go_on(
    jobs: Terminal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(numbered("a", "b", "c"))
    write = enqueue_file.Import._write

    def failing(run: enqueue_file.Import, portion: Any) -> None:
        if run.done:
            raise DatabaseUnavailable("gone")
        write(run, portion)

    monkeypatch.setattr(enqueue_file.Import, "_write", failing)
    result = jobs("enqueue", "--from", str(file))

    assert result.exit_code != 0
    assert "2 jobs enqueued so far, up to line 2; go on with --skip 2" in result.stderr


def lose_the_second_commit(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The second portion is committed, and instead of the answer comes ``error``."""
    commit = Session.commit
    met = 0

    def losing(session: Session) -> None:
        nonlocal met
        commit(session)
        met += 1
        if met == 2:
            raise error

    monkeypatch.setattr(Session, "commit", losing)


@pytest.mark.parametrize("error", [DatabaseUnavailable("gone"), KeyboardInterrupt()], ids=repr)
def test_a_portion_whose_commit_lost_its_answer_is_not_written_again(
    jobs: Terminal,
    file: Path,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    file.write_text(numbered("a", "b", "c", "d", "e"))
    lose_the_second_commit(monkeypatch, error)

    result = jobs("enqueue", "--from", str(file))
    after = result.stderr.rpartition("--skip ")[2].split()[0]
    jobs("enqueue", "--from", str(file), "--skip", after)

    assert result.exit_code != 0
    assert "4 jobs enqueued so far, up to line 4; go on with --skip 4" in result.stderr
    assert messages(session) == ["a", "b", "c", "d", "e"]


def test_a_portion_that_cannot_be_looked_for_is_told_with_its_ids(
    jobs: Terminal, file: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_args: object) -> None:
        raise DatabaseUnavailable("still gone")

    file.write_text(numbered("a", "b", "c", "d", "e"))
    lose_the_second_commit(monkeypatch, DatabaseUnavailable("gone"))
    monkeypatch.setattr(enqueue_file, "bind_address", unreachable)

    result = jobs("enqueue", "--from", str(file))

    ids = list(session.scalars(sa.select(Job.id).order_by(Job.id)))
    assert "2 jobs enqueued so far, up to line 2; go on with --skip 2" in result.stderr
    assert f"lines 3 to 4 may be enqueued already, as the jobs {ids[2]} to {ids[3]}" in (
        result.stderr
    )
    assert "if it is there, go on with --skip 4" in result.stderr


def test_a_portion_that_was_not_committed_is_not_passed_over(
    jobs: Terminal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(session: Session) -> None:
        session.rollback()
        raise DatabaseUnavailable("gone")

    file.write_text(numbered("a", "b"))
    monkeypatch.setattr(Session, "commit", failing)

    result = jobs("enqueue", "--from", str(file))

    assert "nothing was enqueued" in result.stderr
    assert "lines 1 to 2 may be enqueued already" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo.echo", "--from", "-"], "leave out KIND"),
        (["--from", "-", "--priority", "5", "--key", "k"], "leave out --priority, --key"),
        (["--from", "-", "--at", "2030-01-31T08:00:00Z"], "leave out --at"),
        (["demo.echo", "--skip", "5"], "belong to --from"),
        (["demo.echo", "--partial"], "belong to --from"),
        ([], "Missing argument 'KIND'"),
        (["--from", "/no/such/file"], "cannot read '/no/such/file'"),
        (["--from", "/"], "cannot read '/'"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_does_not_go_together_is_refused(jobs: Terminal, words: list[str], said: str) -> None:
    assert said in jobs.refused("enqueue", *words, exit_code=2)
