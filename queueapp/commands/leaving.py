"""How a process of our own ends, when threads may be in it that never do."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import NoReturn

import click
from flask.cli import FlaskGroup

from queueapp.worker.last_resort import end_within

# A PostgreSQL of our own takes a minute to stop, at most.
LONGEST_S = 75.0


def is_process() -> bool:
    """Whether this command is what its process was started for; a test calls it as a function."""
    return isinstance(click.get_current_context().find_root().command, FlaskGroup)


def leave(status: int) -> NoReturn:
    """End now. Taking the interpreter apart takes seconds on a busy machine, waits for the threads
    of handlers, and may crash in those that cannot be waited for.

    What is registered with ``atexit`` may never return: then a traceback says what, and the exit
    status is 1.
    """
    end_within(LONGEST_S)
    try:
        atexit._run_exitfuncs()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Also when nobody reads what is flushed any more.
        os._exit(status)
