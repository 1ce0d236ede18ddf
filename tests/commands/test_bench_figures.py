"""What ``flask bench`` counts: the notes of runs, what went wrong, what bounds the drain."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.commands.bench import limits, notes
from queueapp.commands.bench.limits import Turn
from queueapp.commands.bench.notes import Notes
from queueapp.commands.bench.tables import Tables
from queueapp.connections import address_of, connect
from queueapp.connections.bounds import Role
from queueapp.handlers import kinds
from queueapp.jobs.status import Status
from tests.factories import make_job


def test_what_did_not_run_exactly_once_is_found(app: Flask, session: Session) -> None:
    good, twice, silent = (make_job(session, Status.SUCCEEDED).id for _ in range(3))
    failed, waits = (make_job(session, one).id for one in (Status.FAILED, Status.QUEUED))
    session.commit()
    runs = [(good, 1.0), (twice, 1.0), (twice, 2.0), (failed, 1.0)]

    with connect(address_of(app), Role.COMMAND, autocommit=True) as connection:
        cut_short = Tables(connection).problems(runs, unfinished=True)
        complete = Tables(connection).problems(runs, unfinished=False)

    assert [problem for problem in cut_short if "failed after" not in problem] == [
        f"job {twice} ran 2 times",
        f"job {silent} succeeded and was not run",
        f"job {failed} was run and did not succeed",
    ]
    assert len(cut_short) == 4
    assert set(complete) - set(cut_short) == {f"job {waits} is queued after 0 attempts"}


def test_notes_come_back_as_they_were_made(tmp_path: Path) -> None:
    noted = Notes()
    for job in range(1, 131):
        noted.add(job)
    noted.write(tmp_path)
    Notes().write(tmp_path)

    found = notes.read(tmp_path)

    assert [job for job, _ in found.runs] == list(range(1, 131))
    assert [at for _, at in found.runs] == sorted(at for _, at in found.runs)
    assert [(first.runs, last.runs) for first, last in found.samples] == [(1, 128)]
    assert found.cpu_per_run is not None


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(10, 1, 8, 1), "the commit time: 7000.00 of the 10000.00 ms"),
        (Turn(10, 6, 7, 1), "the round trip"),
        (Turn(10, 1, 2, 7), "CPU of the worker"),
        (Turn(10, 1, 2, None), "the server: 8000.00 of the 10000.00 ms"),
        (Turn(10, 1, 2, 1, 0.75), "the commit time: 6000.00 of the 10000.00 ms"),
        (Turn(10, 1, 8, 1, 0.25), "the server: 6000.00 of the 10000.00 ms"),
        (None, "too few jobs to tell"),
    ],
)
def test_the_largest_part_of_a_turn_bounds_the_drain(turn: Turn | None, says: str) -> None:
    assert limits.sentence(turn, server_here=True, cpus=2).startswith(says)


def test_the_kind_of_a_bench_is_known_to_benches_alone() -> None:
    create_app()

    assert not any(handler.kind.startswith("bench.") for handler in kinds())
