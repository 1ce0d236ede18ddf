"""The log of a worker: lines on stderr, each with its prefix."""

from __future__ import annotations

import logging
import sys

from queueapp.config import Settings
from queueapp.worker.story import one_line


class LineFormatter(logging.Formatter):
    """Gives every line the prefix where a record tells of many jobs (``lines``).

    No other record has more than one: a value with a line break in it must not look like two.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Render the lines of ``record``."""
        first, *others = (
            record.message.split("\n")
            if getattr(record, "lines", False)
            else [one_line(record.message)]
        )
        text = self._told(record, first)
        if not others:
            return text
        prefix = text.removesuffix(first)
        return "\n".join([text, *(prefix + line for line in others)])

    def _told(self, record: logging.LogRecord, line: str) -> str:
        record.message = line
        return super().formatMessage(record)


def log_to_stderr(settings: Settings, *, tell_processes: bool) -> None:
    """Send what the product says to stderr, from the level of the settings on."""
    process = " [%(process)d]" if tell_processes else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(f"%(asctime)s{process} %(levelname)-7s %(message)s"))
    root = logging.getLogger("queueapp")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(settings.log_level)
