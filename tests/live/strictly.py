"""Tests whose outcome must not depend on prefetching run with it, and in the long runs without."""

from __future__ import annotations

import pytest

STRICT = "--prefetch=0"

either_way = pytest.mark.parametrize(
    "order", [(), pytest.param((STRICT,), marks=pytest.mark.slow)], ids=["prefetching", "strict"]
)
