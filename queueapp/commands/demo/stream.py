"""The demo's jobs: an endless, varied stream. Chance decides, so no two minutes look alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

Job = dict[str, Any]

_NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Ken", "Radia", "Leslie", "Hedy")
_HOOKS = ("order.paid", "order.shipped", "user.created", "invoice.sent")


def jobs(receiver: str, rng: random.Random) -> Iterator[Job]:
    """Yield bodies for ``POST /api/jobs``, for ever. ``receiver`` is the host of the webhooks.

    About one attempt in ten fails: there is something to look at, and the queue is well.
    """
    makers: dict[Callable[[], Job], int] = {
        lambda: _job("demo.echo", message=f"Hello, {rng.choice(_NAMES)}"): 43,
        lambda: _webhook(receiver, rng): 28,
        lambda: _job("demo.sleep", seconds=round(rng.uniform(0.5, 4), 1)): 17,
        lambda: _job("demo.slow", seconds=rng.randint(8, 20), steps=40): 7,
        lambda: _job("demo.flaky", fail_first=rng.randint(1, 2)): 2,
        lambda: _job("demo.flaky", probability=0.6) | {"max_attempts": 3}: 2,
        lambda: _job("demo.fail", message="the report has no rows") | {"max_attempts": 2}: 1,
    }
    while True:
        [make] = rng.choices(list(makers), list(makers.values()))
        yield make() | _place(rng)


def _job(kind: str, **payload: Any) -> Job:
    return {"kind": kind, "payload": payload}


def _webhook(receiver: str, rng: random.Random) -> Job:
    event, order = rng.choice(_HOOKS), rng.randint(1000, 9999)
    url = f"http://{receiver}/hooks/{event.replace('.', '-')}"
    job = _job("http.request", url=url, json={"event": event, "order": order})
    return job | {"idempotency_key": f"{event}/{order}/{rng.getrandbits(32):08x}"}


def _place(rng: random.Random) -> Job:
    """Most jobs stand in the middle of the line and are due now."""
    place: Job = {}
    if rng.random() < 0.3:
        place["priority"] = rng.choice((10, 10, 5, -5))
    if rng.random() < 0.12:
        place["delay"] = rng.randint(10, 90)
    return place
