"""Runs a peer's adaptor: its producer until it has answered, its workers until they are stopped."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import processes
from bench.errors import Failed
from bench.installation import ROOT, Installation
from bench.peer import Kind, Peer

# A producer that takes longer than this hangs.
_PATIENCE_S = 600


class Caller:
    """Runs a peer's adaptor: its producer until it has answered, its workers until stopped."""

    def __init__(self, peer: Peer, installation: Installation, scratch: Path) -> None:
        self.peer = peer
        self._installation = installation
        self._scratch = scratch
        self.address: dict[str, str] = {}

    def of(self, peer: Peer) -> Caller:
        """The same place with another setting of its queue."""
        other = Caller(peer, self._installation, self._scratch)
        other.address = self.address
        return other

    def call(self, *words: object) -> dict[str, Any]:
        """Run the adaptor with ``words``; return its answer. Raises Failed with what it said."""
        return self._answer(str(words[0]), [*self._adaptor(), *map(str, words)])

    def run_module(self, name: str, *words: object) -> dict[str, Any]:
        """Run another program of the adaptors' folder in this product's environment."""
        command = [self._installation.our_python, "-m", f"bench.adaptors.{name}"]
        return self._answer(name, [*command, *map(str, words)])

    def start_worker(self, number: int = 0) -> processes.Process:
        """Start one worker process."""
        return self._start(self._worker(), f"worker-{number}.log")

    def start(self, words: Sequence[str], log: str) -> processes.Process:
        """Start another program of this product, by Python's command line."""
        return self._start([self._installation.our_python, *words], log)

    def _start(self, command: Sequence[str], log: str) -> processes.Process:
        return processes.start(command, self._environment(), cwd=ROOT, log=self._scratch / log)

    def _answer(self, what: str, command: Sequence[str]) -> dict[str, Any]:
        try:
            ran = subprocess.run(
                command, env=self._environment(), cwd=ROOT, check=False, text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"{what} took longer than {_PATIENCE_S} s") from None
        if ran.returncode:
            raise Failed(f"{what}: {_last_words(ran.stderr or ran.stdout)}")
        answers = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        answer: dict[str, Any] = json.loads(answers[-1]) if answers else {}
        return answer

    def _adaptor(self) -> Sequence[str]:
        module = f"bench.adaptors.{self.peer.program.removesuffix('.py')}"
        if self.peer.kind is Kind.OURS:
            return [self._installation.our_python, "-m", module]
        if self.peer.kind is Kind.PYTHON:
            return [self._installation.python, "-m", module]
        return [self._installation.node, self._installation.node_program(self.peer.program)]

    def _worker(self) -> Sequence[str]:
        if self.peer.kind is Kind.OURS:
            flask = [self._installation.our_python, "-m", "flask", "--app", "wsgi"]
            return [*flask, "work", *self.peer.options]
        return [*self._adaptor(), "worker"]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        settings = {
            "BENCH_VARIANT": self.peer.variant,
            "BENCH_RECORDS": str(self._scratch / "records"),
            "PYTHONUNBUFFERED": "1",
            "NODE_ENV": "production",
        }
        if self.peer.kind is Kind.OURS:
            settings["DATABASE_URL"] = self.address.get("BENCH_DSN", "")
            settings["QUEUE_HANDLERS"] = "bench.adaptors.ours_handlers"
        return kept | settings | self.address | dict(self.peer.environment)


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:]
