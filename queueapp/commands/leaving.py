"""How a process of our own ends, when threads may be in it that never do."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import NoReturn

import click
from flask.cli import FlaskGroup


def is_process() -> bool:
    """Whether this command is what its process was started for; a test calls it as a function."""
    return isinstance(click.get_current_context().find_root().command, FlaskGroup)


def leave(status: int) -> NoReturn:
    """End now. Taking the interpreter apart takes seconds on a busy machine, waits for the threads
    of handlers, and may crash in those that cannot be waited for."""
    try:
        atexit._run_exitfuncs()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Also when nobody reads what is flushed any more.
        os._exit(status)
