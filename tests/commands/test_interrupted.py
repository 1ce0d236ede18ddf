"""Ctrl-C while a command reads: it ends at once, and says nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.locks import until_a_lock_is_awaited

ROOT = Path(__file__).parents[2]
# Whoever runs the tests in the background has it ignored, and so would what they start.
HEARS_SIGINT = ("env", "--default-signal=INT")


@pytest.mark.postgresql("a table that is locked for readers")
@pytest.mark.parametrize("command", [["audit"], ["jobs", "list"]])
def test_a_command_that_reads_ends_with_130_and_without_a_word(
    engine: sa.Engine, database_url: str, command: list[str]
) -> None:
    with engine.connect() as holder:
        holder.execute(sa.text("LOCK TABLE jobs, job_events IN ACCESS EXCLUSIVE MODE"))
        reader = subprocess.Popen(
            [*HEARS_SIGINT, sys.executable, "-m", "flask", "--app", "wsgi", *command],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": database_url, "QUEUE_LOCK_TIMEOUT": "60s"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until_a_lock_is_awaited(engine, of="relation")
        reader.send_signal(signal.SIGINT)
        out, err = reader.communicate(timeout=40)
        holder.rollback()

    assert reader.returncode == 130, err
    assert (out.strip(), err.strip()) == ("", "")
