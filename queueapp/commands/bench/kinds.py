"""The kind of job that ``flask bench`` runs: nothing, noted.

Only the processes of a bench import this (``QUEUE_HANDLERS``).
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path

from queueapp.commands import children
from queueapp.commands.bench.notes import Notes
from queueapp.commands.bench.workers import FOLDER, KIND, PARENT
from queueapp.handlers import JobContext, handler

_notes = Notes()


@handler(KIND)
def nothing(context: JobContext) -> None:
    """Be done at once."""
    _notes.add(context.id)


if PARENT in os.environ:
    children.end_with(int(os.environ[PARENT]))
    atexit.register(_notes.write, Path(os.environ[FOLDER]))
