"""From where on something counts as wrong. Pure; ``QUEUE_VERDICT`` sets them by their names."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, about: str, *, percent: bool = False, whole: bool = False) -> Any:
    kind = "percent" if percent else "whole" if whole else "span"
    return field(default=default, metadata={"about": about, "kind": kind})


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Spans in seconds, shares from 0 to 1."""

    stalled: float = _limit(60, "a job is due for longer than this, and nothing ends: stalled")
    quiet: float = _limit(120, "no attempt has ended for so long: nothing ends")
    wedged: float = _limit(300, "jobs run, and no attempt has ended for so long: wedged")
    paused: float = _limit(3600, "jobs are due for longer behind a pause or a hold: red")
    starving: float = _limit(600, "the jobs of a low priority are due for longer: starving")
    retries: float = _limit(0.5, "a larger part of the starts are retries: a storm", percent=True)
    retries_red: float = _limit(0.75, "a larger part than this: red", percent=True)
    failing: float = _limit(0.2, "a larger part of the attempts fail: failing", percent=True)
    failing_red: float = _limit(0.5, "a larger part than this: red", percent=True)
    least: float = _limit(20, "fewer starts or ends than this say nothing of shares", whole=True)


KINDS: dict[str, str] = {one.name: one.metadata["kind"] for one in fields(Thresholds)}
ABOUT: dict[str, str] = {one.name: one.metadata["about"] for one in fields(Thresholds)}


def shown(name: str, value: float) -> str:
    """A threshold as ``QUEUE_VERDICT`` takes it: ``60s``, ``20%``, ``20``."""
    if KINDS[name] == "percent":
        return f"{value * 100:g}%"
    return f"{value:g}" if KINDS[name] == "whole" else f"{value:g}s"
