"""``flask chaos``: its judge finds every fault, a seed repeats its own, a short run holds."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from queueapp import create_app
from queueapp.commands.chaos import faults, invariants, outside
from queueapp.commands.chaos.evidence import Event, Evidence, Job
from queueapp.commands.chaos.faults import Kind
from queueapp.commands.chaos.invariants import Recovery
from queueapp.commands.chaos.jobs import jobs
from queueapp.commands.chaos.outside import Line
from queueapp.handlers import kinds
from queueapp.jobs.audit import Offender
from tests.live.processes import ROOT, until

Doctor = Callable[[Evidence], object]


def event(name: str, source: str | None, target: str | None, at: float, **more: object) -> Event:
    blank = {"attempt": None, "reason": None, "lease_end": None, "actor": "sweeper", "token": None}
    fields = {**blank, **more}
    return Event(1, name, source, target, at=at, **fields)  # type: ignore[arg-type]


def line(what: outside.What, at: float, attempt: int = 1, pid: int = 7) -> Line:
    return Line(what, 1, attempt, pid, "handler-0", at, 1000 + at)


FIRST = {"attempt": 1, "token": "a", "actor": "worker:host:7:c0ffee"}
TAKEN = {"attempt": 1, "token": "a"}
SECOND = {"attempt": 2, "token": "b", "actor": "worker:host:8:c0ffee"}


def good() -> Evidence:
    """One job, frozen with its first holder at 11, swept at 15, run to its end by the second."""
    return Evidence(
        asked=1,
        promised=[1],
        jobs=[Job(1, "succeeded", None, None)],
        events=[
            event("enqueued", None, "queued", 1010),
            event("claimed", "queued", "running", 1011, **FIRST),
            event("lease_expired", "running", "running", 1015, lease_end=1014.0, **TAKEN),
            event("retry_scheduled", "running", "queued", 1015, reason="lease_lost", **TAKEN),
            event("claimed", "queued", "running", 1016, **SECOND),
            event("succeeded", "running", "succeeded", 1018, **SECOND),
            event("stale_write_rejected", None, None, 1019, **FIRST),
        ],
        lines=[line("start", 11.1), line("start", 16.1, 2, 8), line("end", 17, 2, 8),
               line("end", 18.5)],
        connections=(10, 12),
        connections_allowed=12,
    )  # fmt: skip


def broken(evidence: Evidence) -> set[str]:
    return {finding.name for finding in invariants.check(evidence) if not finding.holds}


def without(evidence: Evidence, name: str) -> None:
    evidence.events = [event for event in evidence.events if event.name != name]


def fail(evidence: Evidence) -> None:
    evidence.jobs = [Job(1, "failed", "LeaseLost", "gone")]
    evidence.events[5] = event("failed", "running", "failed", 1018, **SECOND)


DOCTORED: list[tuple[Doctor, str]] = [
    (lambda e: e.promised.append(2), "every acknowledged job exists, once"),
    (lambda e: e.promised.append(1), "every acknowledged job exists, once"),
    (lambda e: e.promised.clear(), "every acknowledged job exists, once"),
    (lambda e: e.refused.append("500"), "producers hear yes or 'not now', nothing else"),
    (lambda e: e.jobs.__setitem__(0, Job(1, "queued", None, None)), "every job has ended"),
    (lambda e: setattr(e, "asked", 2), "every job has ended"),
    (fail, "no fault fails a job"),
    (lambda e: e.events.append(e.events[5]), "no job finished twice"),
    (lambda e: without(e, "succeeded"), "no job finished twice"),
    (lambda e: e.lines.append(line("start", 30, 2, 9)), "no attempt began twice"),
    (lambda e: e.lines.append(line("start", 30, 3, 9)), "no attempt began twice"),
    (lambda e: e.lines.__setitem__(0, line("start", 10.9)), "no attempt began twice"),
    (lambda e: without(e, "retry_scheduled"), "every second start is explained"),
    (lambda e: without(e, "lease_expired"), "no two holders run one job at once"),
    (lambda e: e.audit.add(1, ["differs"], 9), "flask audit finds nothing"),
    (lambda e: e.overdue.append(1), "no lease is left to a holder that is gone"),
    (lambda e: e.fell.append("worker-1"), "workers end only when killed or told to"),
    (lambda e: e.tracebacks.append("worker-1"), "no process met a fault of its own"),
    (lambda e: setattr(e, "connections", (10, 13)), "connections are level"),
]


def test_what_is_right_is_not_blamed() -> None:
    findings = invariants.check(good())

    assert [finding.first for finding in findings if not finding.holds] == []
    assert any("1 late holders" in finding.figures for finding in findings)


@pytest.mark.parametrize(("doctor", "name"), DOCTORED, ids=range(len(DOCTORED)))
def test_every_invariant_finds_its_breach(doctor: Doctor, name: str) -> None:
    evidence = good()

    doctor(evidence)

    assert name in broken(evidence)


def test_every_invariant_has_a_breach_that_it_finds() -> None:
    names = {finding.name for finding in invariants.check(good())}

    assert {name for _, name in DOCTORED} == names


def test_a_run_that_outlived_its_killed_process_by_no_word_ends_with_it() -> None:
    evidence = good()
    evidence.lines = [line("start", 11.1), line("start", 16.1, 2, 8), line("end", 17, 2, 8)]
    without(evidence, "lease_expired")

    evidence.deaths = {7: 12.0}
    before = broken(evidence)
    evidence.deaths = {7: 16.5}

    assert (before, broken(evidence)) == (set(), {"no two holders run one job at once"})


def test_a_run_that_went_on_says_what_took_its_job() -> None:
    evidence = good()
    evidence.events[2:4] = [
        event("released", "running", "queued", 1015, reason="shutdown", **FIRST)
    ]

    finding = next(f for f in invariants.check(evidence) if "two holders" in f.name)
    assert finding.offenders == ["job 1: attempt 1 ran on for 2.400 s after shutdown"]


def given_back() -> Evidence:
    """Handed back before its end, claimed by the second under the same number."""
    evidence = good()
    again = {**SECOND, "attempt": 1}
    evidence.events[2:] = [
        event("released", "running", "queued", 1012, **FIRST),
        event("claimed", "queued", "running", 1013, **again),
        event("succeeded", "running", "succeeded", 1018, **again),
    ]
    evidence.lines = [line("start", 11.1), line("end", 11.9), line("start", 13.1, 1, 8),
                      line("end", 14, 1, 8)]  # fmt: skip
    return evidence


def test_an_attempt_that_was_given_back_may_begin_again() -> None:
    assert broken(given_back()) == set()


def test_a_run_that_went_on_beside_its_own_number_is_found() -> None:
    evidence = given_back()
    evidence.lines[1] = line("end", 13.4)

    finding = next(f for f in invariants.check(evidence) if not f.holds)

    assert finding.offenders == ["job 1: attempt 1 ran on for 0.300 s after released"]


def test_a_run_that_began_when_its_lease_was_lost_is_a_late_holder_and_counted() -> None:
    evidence = good()
    assert invariants.late_beginnings(evidence) == 0

    evidence.lines[0] = line("start", 15.2)

    assert broken(evidence) == set()
    assert invariants.late_beginnings(evidence) == 1


def test_recoveries_are_counted_from_the_end_of_the_lease() -> None:
    assert invariants.recoveries(good().events) == [Recovery(1.0, 2.0)]
    assert invariants.refused_writes(good().events) == 1


def test_offenders_beyond_the_first_are_counted() -> None:
    evidence = good()
    evidence.audit.offenders = [Offender(job, "differs") for job in range(9)]

    finding = next(f for f in invariants.check(evidence) if f.name == "flask audit finds nothing")

    assert (len(finding.first), finding.first[-1]) == (6, "and 4 more")


def test_a_seed_repeats_its_faults_and_its_jobs() -> None:
    first, again = (faults.schedule(7, 60, 4, 3) for _ in range(2))

    assert first == again != faults.schedule(8, 60, 4, 3)
    assert list(jobs(7, 50, 3)) == list(jobs(7, 50, 3)) != list(jobs(8, 50, 3))


@pytest.mark.parametrize("seed", range(20))
def test_even_a_short_run_meets_every_fault_in_its_time(seed: int) -> None:
    planned = faults.schedule(seed, 12, 2, 3)

    assert {fault.kind for fault in planned} == set(Kind)
    assert all(0 < fault.at < 12 and fault.worker < 2 for fault in planned)
    assert all(fault.lasts > 3 for fault in planned if fault.kind is Kind.FREEZE)


def test_chaos_does_not_run_in_production() -> None:
    result = create_app({"QUEUE_ENV": "production"}).test_cli_runner().invoke(args=["chaos"])

    assert result.exit_code == 1
    assert "does not run in production" in result.stderr


def test_the_kinds_of_chaos_are_known_to_chaos_alone() -> None:
    create_app()

    assert not any(handler.kind.startswith("chaos.") for handler in kinds())


def chaos(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start it where DATABASE_URL and other settings would lead astray."""
    astray = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/real", "QUEUE_CONCURRENCY": "1"}
    if binaries := os.environ.get("TEST_PG_BINDIR"):
        astray["PG_BINDIR"] = binaries
    return subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "wsgi", "chaos", *options],
        cwd=ROOT,
        env={**os.environ, **astray, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_short_run_holds_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    options = ("--jobs", "150", "--workers", "2", "--for", "8s", "--lease", "2s")

    seed = str(random.randrange(10**6))
    with chaos(tmp_path, *options, "--seed", seed, "--json", str(file)) as run:
        said, _ = run.communicate(timeout=220)

    assert run.returncode == 0, said
    report = json.loads(file.read_text())
    assert report["holds"]
    assert "150 created, 150 finished" in said
    assert sum(report["faults"].values()) >= 2
    assert list(tmp_path.glob("queueapp-chaos-*")) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_broken_run_keeps_its_evidence(tmp_path: Path) -> None:
    options = ("--jobs", "5000", "--workers", "1", "--for", "1s", "--settle", "1s")

    with chaos(tmp_path, *options) as run:
        said, _ = run.communicate(timeout=220)

    assert run.returncode == 1, said
    [folder] = tmp_path.glob("queueapp-chaos-*")
    assert f"Data, logs and the outside ledger are kept in {folder}" in said
    assert list((folder / "logs").iterdir())
    assert (folder / "postgres" / "data" / "PG_VERSION").exists()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_signal_ends_it_cleanly_and_says_what_was_seen(tmp_path: Path) -> None:
    with chaos(tmp_path, "--jobs", "2000", "--workers", "2", "--for", "5m") as run:
        assert run.stdout is not None
        said = []
        for line in run.stdout:
            said.append(line)
            if "breaking things" in line:
                break
        running = processes_of(tmp_path)
        os.killpg(run.pid, signal.SIGINT)  # as the terminal does
        said.append(run.stdout.read())

    text = "".join(said)
    assert run.returncode == 130, text
    assert "Interrupted: nothing was judged" in text
    assert "worker killed" in text
    assert "Invariants" not in text
    assert len(running) >= 4
    # A server that was killed may have children that end a moment later.
    until(lambda: not processes_of(tmp_path), "nothing of it runs")
    assert list(tmp_path.glob("queueapp-chaos-*")) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_signal_before_anything_has_begun_is_told_as_that(tmp_path: Path) -> None:
    with chaos(tmp_path, "--jobs", "20", "--workers", "1", "--for", "5m") as run:
        assert run.stdout is not None
        said = run.stdout.readline()
        os.killpg(run.pid, signal.SIGINT)
        said += run.stdout.read()

    assert run.returncode == 130, said
    assert "Interrupted: nothing had begun" in said
    assert list(tmp_path.glob("queueapp-chaos-*")) == []


def processes_of(folder: Path) -> list[int]:
    """What runs with a word of ``folder`` in its command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(folder / "queueapp-chaos-").encode() in told:
                found.append(int(process.name))
    return found
