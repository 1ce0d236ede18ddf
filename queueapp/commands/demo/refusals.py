"""What jobs of the stream were not taken for: each reason is said once, and then how often."""

from __future__ import annotations

from dataclasses import dataclass

import click

from queueapp.jobs.why.words import counted


@dataclass
class Refusals:
    """The reason that is told at the moment, and how often it came again since."""

    reason: str | None = None
    again: int = 0

    def note(self, reason: str | None) -> None:
        """Why the last job was not taken; None: it was."""
        if reason is not None and reason == self.reason:
            self.again += 1
            return
        was_refused = self.reason is not None
        self.close()
        self.reason = reason
        if reason is not None:
            click.echo(f"  {reason}")
        elif was_refused:
            click.echo("  jobs are taken again")

    def close(self) -> None:
        """Say how often the last reason came again."""
        if self.again:
            click.echo(f"  the same {counted(self.again, 'time')} more")
        self.reason, self.again = None, 0
