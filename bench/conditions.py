"""Under what conditions a run was made: versions, settings, machine, date."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

from bench import services
from bench.installation import ROOT, Installation
from bench.peer import Kind, Peer
from bench.raw import Line
from bench.workloads import Size
from queueapp.version import VERSION


def conditions(
    peers: list[Peer], installation: Installation, versions: dict[str, str], size: Size
) -> Line:
    """What stands above the figures. ``versions`` are those of the services."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": machine(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "versions": {**versions, **installation.describe()},
        "postgresql_settings": services.SETTINGS,
        "peers": {peer.name: version(peer, installation) for peer in peers},
        "size": asdict(size),
        "code": _code(),
    }


def version(peer: Peer, installation: Installation) -> str:
    """The peer's version, of this product the commit as well."""
    if peer.kind is not Kind.OURS:
        return installation.version(peer)
    return f"{VERSION} ({_commit()})" if _commit() else VERSION


def machine() -> str:
    """Processors, memory, system."""
    model = re.search(r"model name\s*: (.+)", _text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))
    system = re.search(r'PRETTY_NAME="(.+)"', _text("/etc/os-release"))
    parts = [f"{os.cpu_count()} × {model[1].strip() if model else platform.machine()}"]
    if memory:
        parts.append(f"{int(memory[1]) / 1024 / 1024:.0f} GiB")
    return ", ".join([*parts, system[1] if system else platform.platform()])


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _commit() -> str:
    """The commit that was measured, with a + when files differ from it."""
    return _git("describe", "--always", "--dirty=+", "--exclude=*")


def _code() -> str:
    """The product's own files as committed, whatever else has changed."""
    return " ".join(_git("rev-parse", f"HEAD:{folder}") for folder in ("queueapp", "migrations"))


def _git(*words: str) -> str:
    try:
        asked = subprocess.run(
            ["git", *words], cwd=ROOT, check=False, capture_output=True, text=True
        )
    except OSError:
        return ""
    return asked.stdout.strip()
