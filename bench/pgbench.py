"""Runs pgbench: a script, as many clients, for a time or for a number of calls."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import Failed, Missing


@dataclass(frozen=True, kw_only=True)
class Script:
    """What pgbench is given: ``session`` has PostgreSQL options (``-c jit=off``)."""

    text: str
    variables: Mapping[str, object] = field(default_factory=dict)
    session: str = ""
    clients: int = 4


@dataclass(frozen=True)
class Driven:
    """``calls`` in all, in ``seconds`` without the connecting; ``cpu_s`` of pgbench itself."""

    calls: int
    seconds: float
    cpu_s: float


def drive(
    binaries: Path, url: str, script: Script, *, scratch: Path, seconds: int = 0, calls: int = 0
) -> Driven:
    """Run ``script`` for ``seconds``, or ``calls`` times a client.

    Raises Missing without a pgbench, Failed when it fails.
    """
    file = scratch / "pgbench.sql"
    file.write_text(script.text)
    until = ["--time", str(seconds)] if seconds else ["--transactions", str(calls)]
    counts = ["--client", str(script.clients), "--jobs", "1", *until]
    variables = [f"--define={name}={value}" for name, value in script.variables.items()]
    how = ["--no-vacuum", "--protocol", "prepared", *counts, *variables, "--file", str(file)]
    used = _cpu_s()
    ran = subprocess.run(
        [find(binaries), *how, url],
        env={**os.environ, "PGOPTIONS": script.session},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    found = re.search(r"transactions actually processed: (\d+)[^$]*tps = ([\d.]+)", ran.stdout)
    if ran.returncode or not found:
        raise Failed(f"pgbench: {ran.stderr.strip()[-300:]}")
    return Driven(int(found[1]), int(found[1]) / float(found[2]), _cpu_s() - used)


def find(binaries: Path) -> str:
    """The one beside the server, else any. Raises Missing."""
    beside = binaries / "pgbench"
    program = str(beside) if beside.exists() else shutil.which("pgbench")
    if not program:
        raise Missing(f"no pgbench in {binaries} nor on PATH")
    return program


def _cpu_s() -> float:
    """What all children that have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
