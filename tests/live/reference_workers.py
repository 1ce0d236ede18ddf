"""The reference workers in other languages, as the machine can run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.live import needs

EXAMPLES = Path(__file__).parents[2] / "examples" / "workers"


def commands(folder: Path) -> dict[str, list[str]]:
    """How each is started, by language; without those whose language is not here.

    ``folder`` is where the one in Go is built.
    """
    for name in ("bash", "curl", "jq"):
        needs.program(name)
    found = {"bash": [str(EXAMPLES / "worker.sh")]}
    if node := needs.at_hand("node", "nodejs"):
        found["node"] = [str(node), str(EXAMPLES / "worker.mjs")]
    # Its compiler takes half a gigabyte, so continuous integration does without.
    if go := shutil.which("go"):
        found["go"] = [str(_built(Path(go), folder))]
    return found


def _built(go: Path, folder: Path) -> Path:
    worker = folder / "worker"
    # Old versions bring their library compiled for the linker of C, which may be missing.
    environment = {**os.environ, "CGO_ENABLED": "1" if shutil.which("gcc") else "0"}
    command = [str(go), "build", "-o", str(worker), str(EXAMPLES / "worker.go")]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return worker
