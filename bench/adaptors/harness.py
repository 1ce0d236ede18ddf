"""What the Python adaptors share: their settings, and their commands.

``setup``; ``lone N`` and ``bulk N`` enqueue and print how long that took; ``paced N RATE`` prints
when each of N was committed, after one more that wakes both sides; ``worker`` works until SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from bench.adaptors.recorder import rec

DSN = os.environ.get("BENCH_DSN", "")
VARIANT = os.environ.get("BENCH_VARIANT", "default")
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "10"))
PAD = "x" * 80
CHUNK = 1000
# Between the job that wakes both sides and the first that counts.
AWAKE_S = 1.0


def chunks(count: int) -> Iterator[range]:
    """The numbers below ``count`` in chunks of a thousand, each of which is one commit."""
    for first in range(0, count, CHUNK):
        yield range(first, min(count, first + CHUNK))


def gaps(count: int, rate: float) -> list[float]:
    """Pauses between jobs, the same in every run, uneven so that no poll keeps step with them."""
    chance = random.Random(7)
    return [chance.uniform(0, 2.0 / rate) for _ in range(count)]


def say(**answer: Any) -> None:
    """Answer the bench with one line."""
    print(json.dumps(answer), flush=True)


def run(
    setup: Callable[[], None],
    lone: Callable[[int], None],
    bulk: Callable[[int], None],
) -> None:
    """Do what the command line asks of a queue without asyncio.

    ``lone`` enqueues one job and returns after its commit; ``bulk`` enqueues the numbers below its
    argument, a thousand a commit.
    """
    command, numbers = sys.argv[1], [float(text) for text in sys.argv[2:]]
    if command == "setup":
        setup()
        return
    count = int(numbers[0])
    if command == "lone":
        lone(count)  # connects
        began = time.perf_counter()
        for job in range(count):
            lone(job)
        say(n=count, secs=time.perf_counter() - began)
    elif command == "bulk":
        began = time.perf_counter()
        bulk(count)
        say(n=count, secs=time.perf_counter() - began)
    elif command == "paced":
        committed = []
        lone(count)
        time.sleep(AWAKE_S)
        for job, gap in enumerate(gaps(count, numbers[1])):
            time.sleep(gap)
            lone(job)
            committed.append(time.time())
        say(at=committed)


def run_async(
    setup: Any,
    opened: Callable[[], AbstractAsyncContextManager[Any]],
    lone: Any,
    bulk: Any,
    worker: Any,
) -> None:
    """The same for a queue with asyncio; ``opened`` gives the handle that producers use."""
    work = _go(setup, opened, lone, bulk, worker)
    if os.environ.get("BENCH_UVLOOP"):
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


async def _go(setup: Any, opened: Any, lone: Any, bulk: Any, worker: Any) -> None:
    command, numbers = sys.argv[1], [float(text) for text in sys.argv[2:]]
    if command == "setup":
        await setup()
    elif command == "worker":
        rec.open()
        await worker()
    else:
        async with opened() as handle:
            await _produce(handle, lone, bulk, command, numbers)


async def _produce(handle: Any, lone: Any, bulk: Any, command: str, numbers: list[float]) -> None:
    count = int(numbers[0])
    if command == "lone":
        await lone(handle, count)  # connects
        began = time.perf_counter()
        for job in range(count):
            await lone(handle, job)
        say(n=count, secs=time.perf_counter() - began)
    elif command == "bulk":
        began = time.perf_counter()
        await bulk(handle, count)
        say(n=count, secs=time.perf_counter() - began)
    elif command == "paced":
        committed = []
        await lone(handle, count)
        await asyncio.sleep(AWAKE_S)
        for job, gap in enumerate(gaps(count, numbers[1])):
            await asyncio.sleep(gap)
            await lone(handle, job)
            committed.append(time.time())
        say(at=committed)
