"""What a wrong setting ends a process with, and what a misspelt one makes it say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queueapp.misspelt import misspelt

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["-m", "flask", "jobs", "list"], 78),
        pytest.param(["-c", "import gunicorn, wsgi"], 3, marks=pytest.mark.slow),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_final(command: list[str], status: int) -> None:
    wrong = {"QUEUE_PROCESSES": "many", "QUEUE_PROCESES": "4"}

    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == status
    assert done.stderr.splitlines() == [
        "queueapp: QUEUE_PROCESES is no setting; did you mean QUEUE_PROCESSES?",
        "queueapp: QUEUE_PROCESSES: expected a whole number from 1 to 64, not 'many'",
    ]


def test_what_is_a_setting_or_nothing_of_ours_is_not_told() -> None:
    names = {"QUEUE_LEASE": "1m", "DATABASE_URL": "", "QUEUES": "1", "QUEUE_WORKER_LOCK": "7"}

    assert misspelt(names) == []
    assert misspelt({"QUEUE_COLOUR": "red"}) == ["QUEUE_COLOUR is no setting"]
    assert misspelt({"QUEUE_COLOUR": "red", "QUEUE_LIFELINE": "9"}) == []
