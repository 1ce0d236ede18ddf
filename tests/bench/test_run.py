"""The run itself, without the peers' packages: what is absent is told, what was started is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import limit, processes, raw
from bench.course import Course
from bench.errors import Failed, Missing
from bench.installation import ROOT, Installation
from bench.options import parse
from bench.peer import Kind
from bench.services import Redis
from bench.table import BY_NAME, PEERS
from tests.live.processes import until


@pytest.fixture
def broken_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that finds no package, the only program on PATH beside the shell's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text(
        "#!/bin/sh\necho tried >>\"$0.calls\"\necho 'npm error 404 not found' >&2\nexit 1\n"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return npm


def a_course(scratch: Path, *names: str) -> Course:
    words = ["--quick", "--only", ",".join(names), "--workloads", "w3", "--rounds", "2"]
    return Course.of(parse([*words, "--scratch", str(scratch)]))


def test_a_peer_that_cannot_be_installed_is_missing_with_the_installers_words(
    tmp_path: Path, broken_npm: Path
) -> None:
    installation = Installation(tmp_path / "scratch", lambda _: None)

    for name in ("graphile", "pgboss-fast"):
        with pytest.raises(Missing, match="npm error 404 not found"):
            installation.ready(BY_NAME[name])

    assert Path(f"{broken_npm}.calls").read_text().splitlines() == ["tried"]


def test_without_npm_or_redis_it_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Missing, match="apt-get install npm"):
        Installation(tmp_path, lambda _: None).ready(BY_NAME["bullmq"])
    with pytest.raises(Missing, match="apt-get install redis-server"):
        Redis(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("broken_npm")
def test_a_run_reports_what_is_missing_or_failed_and_stops_its_servers_when_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[int] = []

    def measure(postgres: Any, which: str, **_: object) -> dict[str, Any]:
        servers.append(postgres.pid)
        if len(servers) > 2:
            raise KeyboardInterrupt
        if which == "one":
            raise Failed("pgbench: no such table")
        return {"rate": 1.0, "jobs": 1, "cpu_server": 1.0}

    monkeypatch.setattr(limit, "measure", measure)
    running = a_course(tmp_path, "graphile")

    with pytest.raises(KeyboardInterrupt):
        running.go()

    conditions, lines = raw.read(raw.newest(tmp_path / "results"))
    assert [(line["peer"], line["workload"], line["status"]) for line in lines] == [
        ("limit", "one", "failed"),
        ("limit", "batch", "ok"),
        ("graphile", "w3", "missing"),
    ]
    assert lines[0]["why"] == "pgbench: no such table"
    assert "npm error 404" in lines[2]["why"]
    assert running.failures == 1
    assert conditions["peers"] == {"graphile": ""}
    until(lambda: not any(map(is_there, servers)), "the server is gone")
    assert not list(tmp_path.glob("postgres-*"))


def test_two_runs_never_share_a_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_course(tmp_path, "ours"), a_course(tmp_path, "ours")
    monkeypatch.setattr(first, "_install", second.go)

    with pytest.raises(Missing, match="another run uses"):
        first.go()


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_stopping_ends_a_worker_that_does_not_listen_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.2)
    script = "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"
    log = tmp_path / "log"
    worker = processes.start(["sh", "-c", script], os.environ, cwd=tmp_path, log=log)
    until(lambda: bool(worker.said()), "the child is there")
    (child,) = processes.children(worker.pid)

    processes.stop([worker])

    assert not worker.is_running()
    until(lambda: processes.peak_mib(child) == 0, "the child is gone")


def test_every_peer_stands_at_its_default_and_has_an_adaptor() -> None:
    for name in ("ours", "procrastinate", "pgqueuer", "chancy", "pgboss", "graphile", "bullmq"):
        assert BY_NAME[name].variant == "default"
    for peer in PEERS:
        assert (ROOT / "bench" / "adaptors" / peer.program).is_file()
        assert bool(peer.package) == (peer.kind is not Kind.OURS)
        assert peer.store.history or peer.store.no_history


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "ours,nobody"], "no 'nobody'"),
        (["--workloads", "w9"], "no 'w9'"),
        (["--rounds", "0"], "above zero"),
    ],
)
def test_a_wrong_option_is_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_measures_this_product_from_end_to_end(tmp_path: Path) -> None:
    words = ["--quick", "--only", "ours", "--workloads", "w3,w4", "--scratch", str(tmp_path)]

    ran = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    _, lines = raw.read(raw.newest(tmp_path / "results"))
    assert {line["workload"] for line in lines} == {"one", "batch", "w2", "w3", "w4"}
    assert {line["status"] for line in lines} == {"ok"}
    assert "this product" in (tmp_path / "page" / "benchmarks.md").read_text()
    assert not list(tmp_path.glob("postgres-*"))


def test_what_a_run_still_has_to_do_begins_with_its_limits(tmp_path: Path) -> None:
    words = ["--only", "ours,pgqueuer-fast", "--workloads", "w1,w3", "--scratch", str(tmp_path)]
    whole = Course.of(parse([*words, "--rounds", "1"]))
    begun = raw.Raw(tmp_path / "results", {**whole_conditions(), "rounds": 1})
    begun.add("ours", "w1", 0, step="w1", rate=1.0)

    left = Course.of(parse(["--resume", "--scratch", str(tmp_path)]))
    left._done = raw.steps_done(begun.path)

    def steps(course: Course) -> list[tuple[str, str]]:
        return [(peer.name if peer else "limit", one) for _, peer, one in course._steps()]

    limits = [("limit", "one"), ("limit", "batch")]
    other = [*limits, ("pgqueuer-fast", "w1"), ("pgqueuer-fast", "w3")]
    assert steps(whole) == [*limits, ("ours", "w1"), ("ours", "w3"), *other]
    assert steps(left) == [*limits, ("ours", "w3"), *other]
    assert left.again == begun.path


def whole_conditions() -> dict[str, Any]:
    peers = {"ours": "1", "pgqueuer-fast": "1"}
    return {"peers": peers, "quick": False, "partial": True, "named": ["w1", "w3"]}
