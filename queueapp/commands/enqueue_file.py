"""Jobs from a file of lines: ``flask jobs enqueue --from jobs.ndjson``.

Read, checked and written in portions, each committed by itself, so that a file may be of any
length. Where the work stops, for whatever reason, it is said how to go on; a portion whose COMMIT
has no answer is looked for first, so that nobody writes it a second time.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import click
import sqlalchemy as sa

from queueapp.api.bulk_items import Bad, item_of_line, lines_of
from queueapp.application import this_app
from queueapp.commands.interruption import INTERRUPTED, Interruption
from queueapp.commands.layout import counted
from queueapp.commands.parameters import actor
from queueapp.connections import address_of, bind_address
from queueapp.connections.bounds import Role
from queueapp.extensions import db
from queueapp.handlers import Enqueued, conflict_detail, enqueue_checked
from queueapp.jobs.models import Job
from queueapp.jobs.transitions import NewJob

PORTION = 5_000
PORTION_BYTES = 8 * 1024 * 1024
# More bad lines than these are the same mistake again.
MOST_TOLD = 20


class Stopped(Exception):
    """A line that keeps the rest from being written."""


class _Patience(Interruption):
    """The first Ctrl-C lets the present portion end, the second one does not."""

    def _heard(self, *_args: Any) -> None:
        super()._heard()
        if self.in_a_hurry():
            raise KeyboardInterrupt


@dataclass
class _Portion:
    """Lines that are written together; ``last`` is the number of the last one met."""

    last: int
    jobs: list[NewJob] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    length: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.jobs) >= PORTION or self.length >= PORTION_BYTES


class Import:
    """One run over a file. ``partial``: bad lines are told and passed over."""

    def __init__(self, stream: BinaryIO, *, skip: int, partial: bool) -> None:
        self._stream = stream
        self._skip = skip
        self._partial = partial
        self.done = skip
        # Sent to be committed, and no answer yet: the portion and its jobs.
        self._pending: tuple[_Portion, list[Enqueued]] | None = None
        self.new = self.known = self.refused = 0

    def check(self, advance: Callable[[int], None], stop: Interruption) -> None:
        """Look at every line and write none. Raises Stopped when one is bad."""
        for portion in self._portions():
            advance(portion.length)
            if stop.count:
                raise KeyboardInterrupt
        if self.refused:
            raise Stopped(f"{counted(self.refused, 'line')} cannot be enqueued, so none was")

    def write(self, advance: Callable[[int], None], stop: Interruption) -> None:
        """Write portion by portion. Raises Stopped at one with a bad line."""
        self.refused = 0
        for portion in self._portions():
            if stop.count:
                raise KeyboardInterrupt
            if self.refused and not self._partial:
                raise Stopped("a line cannot be enqueued")
            self._write(portion)
            advance(portion.length)

    def _portions(self) -> Iterator[_Portion]:
        portion = _Portion(self._skip)
        for number, line in enumerate(lines_of(self._stream), 1):
            if number <= self._skip:
                continue
            portion.last = number
            portion.length += len(line) + 1
            if line.strip():
                self._take(portion, number, line)
            if portion.is_full:
                yield portion
                portion = _Portion(number)
        if portion.length:
            yield portion

    def _take(self, portion: _Portion, number: int, line: bytes) -> None:
        item = item_of_line(line)
        if isinstance(item, Bad):
            self._tell(
                number, "; ".join(f"{e['pointer']} {e['detail']}".strip() for e in item.errors)
            )
        else:
            portion.jobs.append(item.job)
            portion.numbers.append(number)

    def _write(self, portion: _Portion) -> None:
        session, me = db.session(), actor()
        made = enqueue_checked(session, portion.jobs, producer=me, actor=me, via="cli")
        for number, one in zip(portion.numbers, made, strict=True):
            if one.outcome == "conflict":
                self._tell(number, conflict_detail(one))
        if self.refused and not self._partial:
            session.rollback()
            raise Stopped("a line cannot be enqueued")
        self._pending = portion, made
        session.commit()
        self._committed(portion, made)

    def settle(self) -> str:
        """Find out what became of a COMMIT without an answer; says so where that is not certain.

        The jobs of a portion are there all or none. One that is not there may still come: the
        server may be about to commit it.
        """
        if self._pending is None:
            return ""
        portion, made = self._pending
        written = [
            (one.id, job.kind)
            for one, job in zip(made, portion.jobs, strict=True)
            if one.outcome == "new"
        ]
        with suppress(Exception, KeyboardInterrupt):
            if not written or _are_there({written[0], written[-1]}):
                self._committed(portion, made)
                return ""
        return (
            f"lines {self.done + 1} to {portion.last} may be enqueued already, as the jobs"
            f" {written[0][0]} to {written[-1][0]}: look with flask jobs show {written[0][0]};"
            f" if it is there, go on with --skip {portion.last}"
        )

    def _committed(self, portion: _Portion, made: list[Enqueued]) -> None:
        # In this order: a second Ctrl-C may come between any two.
        self.done = portion.last
        self._count(made)
        self._pending = None

    def _count(self, made: list[Enqueued]) -> None:
        self.new += sum(one.outcome == "new" for one in made)
        self.known += sum(one.outcome == "replay" for one in made)

    def _tell(self, number: int, what: str) -> None:
        self.refused += 1
        if self.refused <= MOST_TOLD:
            click.echo(f"line {number}: {what}", err=True)
        elif self.refused == MOST_TOLD + 1:
            click.echo("more bad lines are not shown", err=True)

    def __str__(self) -> str:
        known = f", {self.known} there already" if self.known else ""
        refused = f", {counted(self.refused, 'line')} refused" if self.refused else ""
        return f"{counted(self.new, 'job')} enqueued{known}{refused}"


def enqueue_file(path: str, *, skip: int, partial: bool) -> None:
    """Enqueue the lines of ``path``, of standard input for ``-``, and say what became of them."""
    with _opened(path) as stream:
        size = _size_of(stream)
        run = Import(stream, skip=skip, partial=partial)
        try:
            with _Patience() as stop:
                if size is not None and not partial:
                    with _progress(size, "Checking") as advance:
                        run.check(advance, stop)
                    stream.seek(0)
                with _progress(size, "Enqueuing") as advance:
                    run.write(advance, stop)
        except Stopped as error:
            _end(run, f"{error}; mend it, or pass bad lines over with --partial", 1)
        except KeyboardInterrupt:
            _end(run, "stopped", INTERRUPTED)
        except Exception:
            _tell_place(run)
            raise
    click.echo(run)
    if run.refused:
        raise click.exceptions.Exit(1)


def _end(run: Import, why: str, status: int) -> NoReturn:
    click.echo(f"Error: {why}", err=True)
    _tell_place(run)
    raise click.exceptions.Exit(status)


def _tell_place(run: Import) -> None:
    doubt = run.settle()
    click.echo(_place(run), err=True)
    if doubt:
        click.echo(doubt, err=True)


def _are_there(wanted: set[tuple[int, str]]) -> bool:
    """Whether we have these jobs, of an id and a kind each; by a new connection, and not for long.

    The id alone does not tell: a server that has crashed may give it once more.
    """
    address = address_of(this_app())
    engine = sa.create_engine(address.engine_url, poolclass=sa.NullPool)
    bind_address(engine, address, Role.WEB)
    asked = sa.select(Job.id, Job.kind).where(
        Job.id.in_([job_id for job_id, _ in wanted]), Job.producer == actor()
    )
    with engine.connect() as connection:
        return {(row.id, row.kind) for row in connection.execute(asked)} == wanted


def _place(run: Import) -> str:
    if not run.new and not run.known:
        return "nothing was enqueued"
    return f"{run} so far, up to line {run.done}; go on with --skip {run.done}"


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise click.BadParameter(
            f"cannot read {path!r}: {error.strerror}", param_hint="--from"
        ) from None
    with stream:
        yield stream


def _size_of(stream: BinaryIO) -> int | None:
    """Its length where that is known, and it can be read twice."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@contextmanager
def _progress(size: int | None, label: str) -> Iterator[Callable[[int], None]]:
    """A bar, or a counter where the length is not known; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
    elif size is not None:
        with click.progressbar(length=size, label=label, file=sys.stderr) as bar:
            yield bar.update
    else:
        met = 0

        def count(length: int) -> None:
            nonlocal met
            met += length
            click.echo(f"\r{label} {met / 2**20:.1f} MiB", nl=False, err=True)

        yield count
        click.echo(err=True)
