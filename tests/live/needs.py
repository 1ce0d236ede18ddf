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
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM])
    found = shutil.which(name, path=places)
    if found is None:
        lacking(f"no {name} (apt-get install {package or name})")
    return Path(found)


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


@cache
def _may_unshare() -> bool:
    asked = subprocess.run(["unshare", "-nm", "true"], check=False, capture_output=True)
    return asked.returncode == 0
