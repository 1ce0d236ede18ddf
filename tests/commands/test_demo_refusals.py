"""What ``flask demo`` says of jobs that are not taken."""

from __future__ import annotations

import pytest

from queueapp.commands.demo.refusals import Refusals

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
