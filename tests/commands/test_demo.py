"""``flask demo``: its jobs are good ones, and whatever it starts it also stops."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from flask.testing import FlaskCliRunner

from queueapp import create_app
from queueapp.commands import children
from queueapp.commands.demo import demo, processes, stream
from queueapp.commands.demo.processes import Running
from queueapp.commands.demo.receiver import MOODS, Receiver, _Handler
from queueapp.handlers import EnqueueRequest
from queueapp.handlers.request import request_problems
from queueapp.jobs.verdict import Thresholds
from queueapp.local_postgres import free_port
from tests.live.processes import until

ROOT = Path(__file__).parents[2]
QUIET: dict[str, str] = {}
BUILT_IN = {"demo.echo", "demo.sleep", "demo.slow", "demo.flaky", "demo.fail", "http.request"}


@pytest.mark.usefixtures("app")
def test_every_job_of_the_stream_is_accepted_and_all_kinds_occur() -> None:
    seen = list(islice(stream.jobs("127.0.0.1:9", random.Random(1)), 500))

    for job in seen:
        fields = {("key" if name == "idempotency_key" else name): job[name] for name in job}
        assert request_problems(EnqueueRequest(**fields)) == []
    kinds = Counter(job["kind"] for job in seen)
    assert set(kinds) == BUILT_IN
    assert any("delay" in job for job in seen)
    assert len({job.get("priority") for job in seen}) > 3


def test_a_plain_demo_is_well_with_some_failures_to_look_at() -> None:
    """Its own failures must not make an incident of it."""
    failed = retried = started = 0.0
    not_well = sum(MOODS[mood] for mood in ("fault", "limit")) / 100
    for job in islice(stream.jobs("127.0.0.1:9", random.Random(1)), 3_000):
        payload, tries = job["payload"], job.get("max_attempts", 5)
        chance = {"demo.fail": 1.0, "http.request": not_well}.get(job["kind"], 0.0)
        chance = payload.get("probability", chance)
        # It begins once more as often as all before have failed.
        begins = payload.get("fail_first", 0) + sum(chance**n for n in range(tries))
        failed += payload.get("fail_first", 0) + begins * chance
        retried += begins - 1.0
        started += begins

    assert 0.03 < failed / started < 0.6 * Thresholds().failing
    assert retried / started < 0.5 * Thresholds().retries


def test_the_receiver_is_mostly_well_and_sometimes_not() -> None:
    receiver = Receiver()
    random.seed(9)
    statuses: Counter[int] = Counter()
    try:
        for _ in range(40):
            request = urllib.request.Request(
                f"http://{receiver.host}/hooks/x", b"{}", method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    statuses[answer.status] += 1
            except urllib.error.HTTPError as error:
                with error:
                    statuses[error.code] += 1
    finally:
        receiver.close()

    assert statuses[200] > statuses[503] > 0


def test_a_client_that_went_away_is_no_news(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gone = threading.Event(), threading.Event()
    answer = _Handler._answer

    def answer_late(handler: _Handler, status: int, body: bytes) -> None:
        asked.set()
        gone.wait(20)
        answer(handler, status, body)

    monkeypatch.setattr(_Handler, "_answer", answer_late)
    before = set(threading.enumerate())
    receiver = Receiver()
    [serving] = set(threading.enumerate()) - before
    host, _, port = receiver.host.partition(":")
    try:
        with socket.create_connection((host, int(port))) as client:
            # Close with a reset, as the kernel does for a process that was killed.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            assert asked.wait(20)
        answering = set(threading.enumerate()) - before - {serving}
        gone.set()
        for thread in answering:
            thread.join(20)
    finally:
        receiver.close()

    assert answering
    assert "Traceback" not in capfd.readouterr().err


def start(tmp_path: Path, command: str, name: str = "worker-1") -> children.Child:
    log = tmp_path / "logs" / f"{name}.log"
    return children.start(name, command, home=tmp_path, log=log, environment=QUIET)


def wait_for(log: Path, word: str) -> None:
    until(lambda: word in log.read_text(), f"{log} says {word!r}")


def python(program: str) -> str:
    return f"exec {sys.executable} -u -c '{program}'"


def test_a_child_gets_one_signal_and_may_hand_back(tmp_path: Path) -> None:
    child = start(
        tmp_path,
        python(
            "import signal, sys, time;"
            'signal.signal(signal.SIGTERM, lambda *a: (print("handed back"), sys.exit(0)));'
            'print("ready"); time.sleep(60)'
        ),
    )
    wait_for(child.log, "ready")

    children.stop_all([child], lambda: False)

    assert not child.is_running
    assert child.log.read_text().count("handed back") == 1


def test_a_stubborn_child_is_ended_with_all_its_own(tmp_path: Path) -> None:
    child = start(
        tmp_path,
        python(
            "import signal, subprocess;"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            'below = subprocess.Popen(["sleep", "60"]); print(below.pid, "ready"); below.wait()'
        ),
    )
    wait_for(child.log, "ready")
    below = int(child.log.read_text().split()[0])

    children.stop_all([child], lambda: True)

    assert not child.is_running
    command = Path(f"/proc/{below}/cmdline")
    until(lambda: not (command.exists() and command.read_text()), "its own child has ended")


def test_a_dead_child_is_told_with_its_last_words(tmp_path: Path) -> None:
    child = start(tmp_path, "echo one; echo two >&2; exit 3")
    wait_for(child.log, "two")
    until(lambda: not child.is_running, "it has ended")

    with pytest.raises(children.ChildDied, match="worker-1 has ended with status 3") as raised:
        child.must_run()

    assert raised.value.message.splitlines()[1:] == ["  one", "  two"]


def test_what_ends_is_started_again_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = start(tmp_path, "echo here; exec sleep 60")
    run = Running("http://127.0.0.1:1", children=[child])
    wait_for(child.log, "here")
    pid = child.pid
    try:
        run.keep_running()
        assert capsys.readouterr().out == ""

        os.kill(pid, signal.SIGKILL)
        until(lambda: not child.is_running, "it has ended")
        run.keep_running()

        said = capsys.readouterr().out
        assert f"worker-1, process {pid}, was ended by signal 9; started again as process " in said
        assert said.endswith(f" {child.pid}\n")
        assert child.is_running
        until(lambda: child.log.read_text() == "here\n" * 2, "what it says is appended")
    finally:
        child.kill()


def test_what_cannot_run_is_not_started_for_ever(tmp_path: Path) -> None:
    child = start(tmp_path, "echo no such thing; exit 3")

    def start_ten_times() -> None:
        for _ in range(10):
            until(lambda: not child.is_running, "it has ended")
            child.start_again()

    with pytest.raises(children.ChildDied, match="ended with status 3") as raised:
        start_ten_times()

    assert raised.value.message.endswith("no such thing")


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        pytest.param(["demo", "incident", "paused"], marks=pytest.mark.postgresql("incidents")),
    ],
)
def test_a_port_that_was_asked_for_and_is_taken_is_refused(
    database_url: str, command: list[str]
) -> None:
    runner: FlaskCliRunner = create_app({"DATABASE_URL": database_url}).test_cli_runner()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = runner.invoke(args=[*command, "--into-database-url", f"--port={port}"])

    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith(f"Error: port {port} is taken: give another --port")


def test_a_port_that_nobody_asked_for_makes_way() -> None:
    @click.command()
    @processes.port_option
    def shown(port: int) -> None:
        click.echo(f"at {processes.free_port(port)}")

    with socket.socket() as taken:
        # Whoever else may have it already.
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        said = CliRunner().invoke(shown).output

    assert re.fullmatch(r"Port 8000 is taken; using (\d+)\nat \1\n", said)


def test_the_demo_does_not_run_in_production(database_url: str) -> None:
    runner: FlaskCliRunner = create_app({"QUEUE_ENV": "production"}).test_cli_runner()

    result = runner.invoke(args=["demo"])

    assert result.exit_code == 1
    assert "does not run in production" in result.stderr


def test_the_demo_asks_before_it_fills_the_database_of_the_environment(database_url: str) -> None:
    runner: FlaskCliRunner = create_app({"DATABASE_URL": database_url}).test_cli_runner()

    result = runner.invoke(args=["demo"])

    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith("Error: DATABASE_URL is set")
    assert line.endswith("give --into-database-url")
    assert database_url not in line


def test_the_procfile_serves_the_demo_on_loopback() -> None:
    commands = children.procfile(ROOT)

    assert set(commands) >= {"web", "worker"}
    assert "0.0.0.0:${PORT" in commands["web"]


def test_help_is_told_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin" / "demo", tmp_path / "bin")
    asked = [str(tmp_path / "bin" / "demo"), "--help"]

    # There is no bin/setup here that could be run.
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout

    assert "The first run takes two to three minutes" in told
    assert all(f"\n  {name}  " in told for name in demo.commands)
    assert all(f"--{name}" in told for name in ("port", "workers", "duration"))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_whole_demo_outlives_its_worker_and_stops_on_one_signal(database_url: str) -> None:
    port = free_port()
    command = ["flask", "--app", "wsgi", "demo", "--into-database-url", "--port", str(port)]
    demo = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    said: list[str] = []

    def read_to(word: str) -> str:
        for line in demo.stdout or ():
            said.append(line)
            if word in line:
                return line
        raise AssertionError("".join(said))

    told = read_to("To see a crash: kill -9")
    read_to("succeeded")
    os.kill(int(re.findall(r"-9 (\d+)", told)[0]), signal.SIGKILL)
    read_to("worker-1, process")
    read_to("succeeded")
    stopped = time.monotonic()
    os.killpg(demo.pid, signal.SIGINT)  # as the terminal does
    said += demo.stdout.read().splitlines(keepends=True)
    code = demo.wait(timeout=30)
    demo.stdout.close()

    text = "".join(said)
    assert code == 0, text
    assert f"Console   http://127.0.0.1:{port}/" in text
    assert "Webhooks  http://127.0.0.1:" in text
    assert text.endswith("Stopping\nStopped\n")
    assert time.monotonic() - stopped < 15
