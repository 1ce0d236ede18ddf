"""As whom PostgreSQL runs, which refuses to be root.

An ordinary user runs it as themselves. Root runs it in a private user namespace, where root goes
by another number and files need no new owner; where namespaces are refused (containers, chroots),
as an unprivileged user who owns the data.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queueapp.local_postgres.errors import LocalPostgresUnavailable

_CLONE_NEWUSER = 0x10000000
_ANY_BUT_ROOT = 1000
_UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True)
class Identity:
    """Who runs PostgreSQL: ``options`` for subprocess, and the owner of its files if not us."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    owner: tuple[int, int] | None = None

    def run(self, *command: str | Path, **more: Any) -> subprocess.CompletedProcess[Any]:
        """Run ``command`` as this identity; raises OSError when it may not even be started."""
        environment = {
            name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ
        }
        # Settings of the caller's psql (PGPORT, PGOPTIONS, a missing locale) must not reach it.
        environment |= {"LC_ALL": "C", "TZ": "UTC"}
        return subprocess.run(
            command,
            check=False,
            cwd="/",  # the caller's may be closed to this identity
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            **self.options,
            **more,
        )

    def can_run(self, program: Path) -> bool:
        """Whether ``program --version`` works as this identity, shared libraries included."""
        try:
            return self.run(program, "--version", capture_output=True).returncode == 0
        except OSError:
            return False

    def can_enter(self, folder: Path) -> bool:
        """Whether ``folder`` can be reached."""
        entered = self.run("sh", "-c", 'cd -- "$1"', "sh", folder, capture_output=True)
        return entered.returncode == 0

    def give(self, path: Path, mode: int) -> None:
        """Make ``path`` this identity's own, with ``mode``."""
        path.chmod(mode)
        if self.owner:
            os.chown(path, *self.owner)


def choose_identity(data: Path) -> Identity:
    """Choose who runs the cluster in ``data``, which need not exist yet."""
    if os.geteuid() != 0:
        return Identity("you")
    if data.exists() and (owner := data.stat()).st_uid:
        return _user(f"uid {owner.st_uid}", owner.st_uid, owner.st_gid)
    if _namespaces_allowed():
        return Identity("you", {"preexec_fn": _enter_namespace})
    if data.exists():
        refused = "belongs to root and needs user namespaces, which are refused here"
        raise LocalPostgresUnavailable(f"{data} {refused}; remove it to begin anew.")
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return _user(name, entry.pw_uid, entry.pw_gid)
    raise LocalPostgresUnavailable("PostgreSQL refuses to run as root, and no other user is here.")


def _user(name: str, uid: int, gid: int) -> Identity:
    return Identity(name, {"user": uid, "group": gid, "extra_groups": []}, (uid, gid))


def _namespaces_allowed() -> bool:
    if sys.platform != "linux":
        return False
    try:
        subprocess.run(["true"], preexec_fn=_enter_namespace, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _enter_namespace() -> None:
    """Run between fork and exec: be root to the files, and another number to PostgreSQL."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWUSER)")
    maps = {
        "setgroups": "deny",
        "uid_map": f"{_ANY_BUT_ROOT} {uid} 1",
        "gid_map": f"{_ANY_BUT_ROOT} {gid} 1",
    }
    for name, text in maps.items():
        Path("/proc/self", name).write_text(text)
