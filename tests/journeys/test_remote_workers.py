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
