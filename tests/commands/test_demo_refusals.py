"""What ``flask demo`` says of jobs that are not taken, and of a port that is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from queueapp.commands import children
from queueapp.commands.demo import processes
from queueapp.commands.demo.processes import Running
from queueapp.commands.demo.receiver import Receiver
from queueapp.commands.demo.refusals import Refusals
from queueapp.local_postgres import free_port

SILENT, AWAY = "a job was refused: PostgreSQL does not answer", "the web process does not answer"


def test_a_refusal_is_said_once_and_then_how_often(capsys: pytest.CaptureFixture[str]) -> None:
    refusals = Refusals()
    for reason in (None, *[SILENT] * 81, AWAY, AWAY, None, None, SILENT):
        refusals.note(reason)
    refusals.close()

    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        SILENT,
        "the same 80 times more",
        AWAY,
        "the same 1 time more",
        "jobs are taken again",
        SILENT,
    ]


def test_a_port_that_somebody_else_takes_meanwhile_is_said(tmp_path: Path) -> None:
    with closing(Receiver()) as receiver:
        run = Running(f"http://{receiver.host}")
        assert run.get("/readyz") is None
        # The web process finds its port taken.
        line: dict[str, Any] = {"home": tmp_path, "log": tmp_path / "web.log", "environment": {}}
        run.children.append(children.start("web", "exit 1", **line))
        with run.stop, pytest.raises(click.ClickException) as refused:
            processes._wait_until_ready(run)
        assert refused.value.message == (
            f"port {receiver.host.partition(':')[2]} was taken by somebody else meanwhile: start"
            " it again, or give another --port"
        )


def test_a_web_process_that_ends_by_itself_is_said_to_have(tmp_path: Path) -> None:
    run = Running(f"http://127.0.0.1:{free_port()}")
    line: dict[str, Any] = {"home": tmp_path, "log": tmp_path / "web.log", "environment": {}}
    run.children.append(children.start("web", "exit 1", **line))
    with run.stop, pytest.raises(children.ChildDied):
        processes._wait_until_ready(run)
