"""The order of the tests in a parallel run.

Tests of faults and journeys wait for processes, the others keep the processors busy. In the order
of their names all would first compute side by side and then wait side by side; mixed, file by file,
some wait while others compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

WAITING = {"faults", "journeys", "browser", "web"}


def mixed(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The same tests, files whole and in their order, those that wait spread over the others."""
    files = [(path, list(group)) for path, group in groupby(items, key=lambda item: item.path)]
    waiting = [group for path, group in files if _waits(path)]
    others = [group for path, group in files if not _waits(path)]
    placed = sorted([*_placed(waiting), *_placed(others)], key=lambda one: one[0])
    return [item for _, group in placed for item in group]


def _waits(path: Path) -> bool:
    return path.parent.name in WAITING


def _placed(groups: list[list[pytest.Item]]) -> Iterator[tuple[float, list[pytest.Item]]]:
    """Each file with where its middle lies, between 0 and 1."""
    before, total = 0, sum(map(len, groups))
    for group in groups:
        yield (before + len(group) / 2) / total, group
        before += len(group)
