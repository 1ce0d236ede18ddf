"""Workers in other languages: each reference client goes through the test beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import reference_workers
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.reference_workers import EXAMPLES

WHOLE = "results,renewals,cancelled,stopped,killed,renewal_lost,late_result,frozen,unheard"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cases", ["results,late_result", pytest.param(WHOLE, marks=pytest.mark.slow)]
)
def test_reference_workers_conform(journey: Journey, tmp_path: Path, cases: str) -> None:
    languages = reference_workers.commands(tmp_path)
    commands = {f"example.{language}": command for language, command in languages.items()}
    kinds = ",".join(commands)
    web = journey.web(threads=8, QUEUE_MAX_WAITERS="4", QUEUE_EXTERNAL_KINDS=kinds)
    journey.work("--concurrency", "1", QUEUE_EXTERNAL_KINDS=kinds)

    # At once: they wait most of the time.
    tests = {
        kind: conformance(web.port, kind, cases, command) for kind, command in commands.items()
    }
    said = {kind: test.communicate(timeout=250)[0] for kind, test in tests.items()}

    sys.stdout.write("\n".join(said.values()))
    assert {kind: test.returncode for kind, test in tests.items()} == dict.fromkeys(commands, 0)
    count = len(cases.split(","))
    assert all(f"{count} of {count} passed" in each for each in said.values())
    stand(journey, every_claim_started=False, frozen=True)


def conformance(port: int, kind: str, cases: str, command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, str(EXAMPLES / "conformance.py")),
            *("--url", f"http://127.0.0.1:{port}", "--kind", kind, "--only", cases, *command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
    )


RESULTS = {
    "no JSON": "echo 'no JSON {'",
    "too large": "head -c 17000000 /dev/zero | tr '\\0' x | jq -Rc .",
}


@pytest.mark.slow
@pytest.mark.parametrize("said", RESULTS.values(), ids=RESULTS)
def test_a_refused_end_is_a_failure_and_no_lost_lease(
    journey: Journey, tmp_path: Path, said: str
) -> None:
    reference_workers.commands(tmp_path)
    script = (EXAMPLES / "worker.sh").read_text()
    echo = """jq -c '{echo}' <<<"$1\""""
    assert script.count(echo) == 1
    worker = tmp_path / "worker.sh"
    worker.write_text(script.replace(echo, said))
    web = journey.web(QUEUE_EXTERNAL_KINDS="example.work")
    job = journey.enqueue_one("example.work", max_attempts=5)

    process = journey.processes.start_line(
        "bash", f"exec bash {worker}", QUEUE_URL=f"http://127.0.0.1:{web.port}"
    )

    row = journey.wait_for_status(job, "failed")
    assert (row.attempts, row.error_message) == (1, "what it said at its end was refused")
    assert "refused:" in process.said()
    assert process.is_running
    assert process.stop() == 0
    stand(journey, every_claim_started=False)
