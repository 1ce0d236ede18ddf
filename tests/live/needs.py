"""What some faults need of the machine: a program from the system's packages, or a right.

A newcomer's machine may lack it: the test is skipped there and says how to get it. In continuous
integration nothing may be missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

# Debian's servers lie outside a user's PATH.
_SYSTEM = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def program(name: str, package: str | None = None) -> Path:
    """The path of a program; without it the test is skipped (in CI it fails)."""
    found = _found(name)
    if found is None:
        lacking(_advice(name, package))
    return found


def at_hand(name: str, package: str | None = None) -> Path | None:
    """The path of a program that a test can do without; None without it (in CI it fails)."""
    found = _found(name)
    if found is None and os.environ.get("CI"):
        pytest.fail(_advice(name, package))
    return found


def namespaces() -> None:
    """Network namespaces and mounts may be made here; else the test is skipped (in CI it fails)."""
    program("ip", "iproute2")
    if not _may_unshare():
        lacking("no right to make a network namespace (run as root)")


def lacking(what: str) -> NoReturn:
    """Skip the test, or fail it where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def _found(name: str) -> Path | None:
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM])
    found = shutil.which(name, path=places)
    return None if found is None else Path(found)


def _advice(name: str, package: str | None) -> str:
    return f"no {name} (apt-get install {package or name})"


@cache
def _may_unshare() -> bool:
    asked = subprocess.run(["unshare", "-nm", "true"], check=False, capture_output=True)
    return asked.returncode == 0
