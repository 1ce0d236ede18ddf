"""What counts as a deploy, for all that tell of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Deploy:
    """A release, and when the first worker said that it runs it."""

    release: str
    at: datetime


def latest(seen: Iterable[tuple[str | None, datetime | None]]) -> Deploy | None:
    """The newest release of ``seen``: what each worker runs, and its first sign.

    None unless another release was there before it. A worker without ``QUEUE_RELEASE`` tells of
    none: it is neither a deploy nor what was there before one.
    """
    first: dict[str, datetime] = {}
    for release, at in seen:
        if release and release.strip() and at:
            first[release] = min(at, first.get(release, at))
    newest = max(first, key=lambda release: first[release], default="")
    return Deploy(newest, first[newest]) if len(first) > 1 else None
