"""procrastinate: a plain function with the default pool, or a coroutine with more connections."""

from __future__ import annotations

import contextlib

import procrastinate

from bench.adaptors.harness import CONCURRENCY, DSN, PAD, VARIANT, chunks, run_async
from bench.adaptors.recorder import rec

FAST = VARIANT == "fast"
pool = {"min_size": 4, "max_size": 12} if FAST else {}
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN, **pool))

if FAST:

    @app.task(name="noop", queue="q")
    async def noop(n, pad):
        rec.hit(n)
else:

    @app.task(name="noop", queue="q")
    def noop(n, pad):
        rec.hit(n)


async def setup():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@contextlib.asynccontextmanager
async def opened():
    async with app.open_async():
        yield app


async def lone(_, job):
    await noop.defer_async(n=job, pad=PAD)


async def bulk(_, count):
    for numbers in chunks(count):
        await noop.batch_defer_async(*[{"n": job, "pad": PAD} for job in numbers])


async def worker():
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


run_async(setup, opened, lone, bulk, worker)
