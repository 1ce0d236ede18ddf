"""What Chancy's workers import."""

from __future__ import annotations

from bench.adaptors.recorder import rec


def noop(n: int, pad: str) -> None:
    rec.hit(n)


async def anoop(n: int, pad: str) -> None:
    rec.hit(n)
