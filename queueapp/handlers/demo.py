"""Kinds to try the queue with: ``demo.echo``, ``demo.sleep``, ``demo.slow``, ``demo.flaky``,
``demo.fail``. They touch nothing outside the queue.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

from pydantic import Field

from queueapp.handlers.context import JobContext
from queueapp.handlers.registry import handler

_TICKS = 100
_TICK_S = 0.25

Duration = Annotated[float, Field(ge=0, le=86400)]
_STAGES = ("Reading the orders", "Adding them up", "Drawing the charts", "Writing the report")


class DemoFailure(Exception):
    """What the failing demo kinds raise."""


@handler("demo.echo")
def echo(message: Any = None) -> Any:
    """Return the payload's message."""
    return message


@handler("demo.sleep")
def sleep(context: JobContext, seconds: Duration = 1.0) -> dict[str, float]:
    """Sleep, telling the progress, and stop when asked to."""
    ticks = max(1, min(_TICKS, int(seconds / _TICK_S)))
    for tick in range(ticks):
        context.progress(100 * tick / ticks)
        context.wait(seconds / ticks)
    context.progress(100)
    return {"slept_s": seconds}


@handler("demo.slow")
def slow(context: JobContext, seconds: Duration = 30.0, steps: int = 40) -> dict[str, int]:
    """Work through a long report step by step, with a note for each stage."""
    steps = max(1, min(steps, 10_000))
    for step in range(steps):
        stage = _STAGES[step * len(_STAGES) // steps]
        context.progress(100 * step / steps, f"{stage} ({step + 1} of {steps})")
        context.wait(seconds / steps)
    context.progress(100, "Done")
    return {"steps": steps}


@handler("demo.flaky")
def flaky(
    context: JobContext,
    fail_first: Annotated[int | None, Field(ge=0, le=10_000)] = None,
    probability: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> dict[str, int]:
    """Fail the first attempts, or each with a probability; the same job always fares the same."""
    if _is_unlucky(context, fail_first, probability):
        raise DemoFailure(f"attempt {context.attempt} met bad luck")
    return {"attempt": context.attempt}


def _is_unlucky(context: JobContext, fail_first: int | None, probability: float) -> bool:
    if fail_first is not None:
        return context.attempt <= fail_first
    # Seeded by job and attempt, so that a test knows the outcome and a second run repeats it.
    chance = random.Random(f"{context.id}/{context.attempt}")  # noqa: S311
    return chance.random() < probability


@handler("demo.fail")
def fail(message: str = "this kind always fails") -> None:
    """Raise an error, always."""
    raise DemoFailure(message)
