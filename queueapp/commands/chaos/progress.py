"""What a person sees meanwhile: one line that changes on a terminal, a line now and then else."""

from __future__ import annotations

import sys
import time

import click
import psycopg

_EVERY_S = 10.0
_TTY_EVERY_S = 1.0

_COUNTS = """
SELECT count(*), count(*) FILTER (WHERE finished_at IS NOT NULL),
  count(*) FILTER (WHERE status = 'running') FROM jobs
"""


class Progress:
    """Counts the jobs about once a second; says so when the database is away."""

    def __init__(self, url: str, total: int) -> None:
        self.created = self.finished = self.running = 0
        self.faults = 0
        self._url = url
        self._total = total
        self._connection: psycopg.Connection | None = None
        self._began = time.monotonic()
        self._counts_at = self._shows_at = 0.0
        self._there = True
        self._tty = sys.stderr.isatty()

    def look(self, phase: str, *, now: bool = False) -> None:
        """Count and show, each if it is time."""
        if now or time.monotonic() >= self._counts_at:
            self._there = self._count()
            self._counts_at = time.monotonic() + _TTY_EVERY_S
        if now or time.monotonic() >= self._shows_at:
            self._show(phase)
            self._shows_at = time.monotonic() + (_TTY_EVERY_S if self._tty else _EVERY_S)

    def close(self) -> None:
        """End the line and the connection."""
        if self._tty:
            click.echo(err=True)
        self._drop()

    def _count(self) -> bool:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=2,
                    application_name="queueapp-chaos",
                )
            row = self._connection.execute(_COUNTS).fetchone()
        except psycopg.Error:
            self._drop()
            return False
        assert row is not None
        self.created, self.finished, self.running = row
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _show(self, phase: str) -> None:
        spent = time.monotonic() - self._began
        away = "" if self._there else " · the database is away"
        line = (
            f"  {spent:5.0f} s {phase} · created {self.created} of {self._total}"
            f" · finished {self.finished} · running {self.running} · faults {self.faults}{away}"
        )
        if self._tty:
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)
        else:
            click.echo(line, err=True)
