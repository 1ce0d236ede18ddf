"""PgQueuer: batches of 10 and threads, or batches of 100, coroutines and uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.adaptors.harness import DSN, PAD, VARIANT, chunks, run_async
from bench.adaptors.recorder import rec

FAST = VARIANT == "fast"


async def setup():
    connection = await asyncpg.connect(DSN)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    if FAST:
        await connection.execute(queries.qbe.build_optimize_autovacuum_query())
    await connection.close()


@contextlib.asynccontextmanager
async def opened():
    connection = await asyncpg.connect(DSN)
    yield Queries(AsyncpgDriver(connection))
    await connection.close()


def payload(job):
    return json.dumps({"n": job, "pad": PAD}).encode()


async def lone(queries, job):
    await queries.enqueue("noop", payload(job))


async def bulk(queries, count):
    for numbers in chunks(count):
        payloads = [payload(job) for job in numbers]
        await queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))


def count_it(job):
    rec.hit(json.loads(job.payload)["n"])


async def worker():
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(DSN)))

    @queuer.entrypoint("noop")
    async def noop(job):
        if FAST:
            count_it(job)
        else:  # it refuses plain functions, so its users wrap them
            await asyncio.to_thread(count_it, job)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, queuer.shutdown.set)
    if FAST:
        await queuer.run(batch_size=100, max_concurrent_tasks=200)
    else:  # 20 is the least it takes for a batch of 10
        await queuer.run(batch_size=10, max_concurrent_tasks=20)


run_async(setup, opened, lone, bulk, worker)
