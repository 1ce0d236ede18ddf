"""Chancy: its process pool and slow poll, or coroutines with eager polling and more connections."""

from __future__ import annotations

import contextlib
import logging

from chancy import Chancy, Job, Queue, Worker

from bench.adaptors import chancy_handlers
from bench.adaptors.harness import CONCURRENCY, DSN, PAD, VARIANT, chunks, run_async

FAST = VARIANT == "fast"
log = logging.getLogger("chancy")
log.setLevel(logging.WARNING)


def made():
    if not FAST:
        return Chancy(DSN)
    return Chancy(DSN, log=log, min_connection_pool_size=2, max_connection_pool_size=10)


def queue():
    if not FAST:
        return Queue("q", concurrency=CONCURRENCY)
    asynchronous = Chancy.Executor.Async
    return Queue("q", concurrency=CONCURRENCY, executor=asynchronous, eager_polling=True)


async def setup():
    async with made() as chancy:
        await chancy.migrate()
        await chancy.declare(queue())


@contextlib.asynccontextmanager
async def opened():
    async with made() as chancy:
        yield chancy


def job(number):
    handler = chancy_handlers.anoop if FAST else chancy_handlers.noop
    return Job.from_func(handler).with_kwargs(n=number, pad=PAD).with_queue("q")


async def lone(chancy, number):
    await chancy.push(job(number))


async def bulk(chancy, count):
    for numbers in chunks(count):
        jobs = [job(number) for number in numbers]
        async for _ in chancy.push_many(jobs, batch_size=len(jobs)):
            pass


async def worker():
    async with made() as chancy, Worker(chancy) as working:
        await working.wait_for_shutdown()


if __name__ == "__main__":  # its pool imports this module again
    run_async(setup, opened, lone, bulk, worker)
