"""What is measured. Another queue, or another setting of one, is one entry here.

Each queue stands here as it comes and, where that differs, at its fastest setting. This product
stands at its defaults; what is switched off besides shows what a default is worth.
"""

from __future__ import annotations

from dataclasses import replace

from bench import stores
from bench.peer import Kind, Peer

_ALL_EVENTS = "row and every event"
# Where a faster setting is measured too, it alone has the rest: two workers, and full tables.
_AS_IT_COMES = ("w1", "w3", "w4")

_OURS = Peer(
    name="ours",
    title="**this product**",
    settings="its defaults: `flask work`",
    keeps=_ALL_EVENTS,
    kind=Kind.OURS,
    store=stores.OURS,
    program="ours.py",
    cut_slack=0,
)
_PROCRASTINATE = Peer(
    name="procrastinate",
    title="procrastinate",
    settings="concurrency 10, plain function",
    keeps=_ALL_EVENTS,
    kind=Kind.PYTHON,
    store=stores.PROCRASTINATE,
    program="procrastinate.py",
    package="procrastinate",
)
_PGQUEUER = Peer(
    name="pgqueuer",
    title="PgQueuer",
    settings="batch 10, plain function in a thread",
    keeps="log rows; the job's row is deleted",
    kind=Kind.PYTHON,
    store=stores.PGQUEUER,
    program="pgqueuer.py",
    package="pgqueuer",
)
_CHANCY = Peer(
    name="chancy",
    title="Chancy",
    settings="process pool of 10, poll every 5 s",
    keeps="row",
    kind=Kind.PYTHON,
    store=stores.CHANCY,
    program="chancy.py",
    package="chancy",
    jobs=1_000,
    cap_s=11.0,
    warm_up_s=4.0,
)
_PGBOSS = Peer(
    name="pgboss",
    title="pg-boss",
    settings="localConcurrency 10, one job a poll, poll every 2 s",
    keeps="row",
    kind=Kind.NODE,
    store=stores.PGBOSS,
    program="pgboss.mjs",
    package="pg-boss",
    jobs=1_000,
)
_GRAPHILE = Peer(
    name="graphile",
    title="Graphile Worker",
    settings="concurrency 10",
    keeps="nothing; rows are deleted",
    kind=Kind.NODE,
    store=stores.GRAPHILE,
    program="graphile.mjs",
    package="graphile-worker",
)
_BULLMQ = Peer(
    name="bullmq",
    title="BullMQ (Redis)",
    settings="concurrency 10, completed jobs kept; no faster setting known",
    keeps="job, in memory",
    kind=Kind.NODE,
    store=stores.BULLMQ,
    program="bullmq.mjs",
    package="bullmq",
)

PEERS = (
    _OURS,
    replace(
        _OURS,
        name="ours-strict",
        title="this product, strict order",
        settings="`flask work --prefetch 0`",
        options=("--prefetch", "0"),
        workloads=("w3", "w3b", "w4"),
    ),
    replace(
        _OURS,
        name="ours-autocommit",
        title="this product, autocommit",
        settings="`enqueue` on a connection in autocommit mode",
        variant="autocommit",
        workloads=("w1",),
    ),
    replace(_PROCRASTINATE, workloads=_AS_IT_COMES),
    replace(
        _PROCRASTINATE,
        name="procrastinate-fast",
        settings="concurrency 10, coroutine, pool of 4 to 12",
        variant="fast",
    ),
    replace(_PGQUEUER, workloads=_AS_IT_COMES),
    replace(
        _PGQUEUER,
        name="pgqueuer-fast",
        settings="batch 100, 200 tasks, coroutine, uvloop, its autovacuum settings",
        variant="fast",
        environment={"BENCH_UVLOOP": "1"},
    ),
    replace(_CHANCY, workloads=_AS_IT_COMES),
    replace(
        _CHANCY,
        name="chancy-fast",
        settings="10 coroutines, eager polling, pool of 2 to 10",
        variant="fast",
        jobs=6_000,
        cap_s=14.0,
    ),
    replace(_PGBOSS, workloads=_AS_IT_COMES),
    replace(
        _PGBOSS,
        name="pgboss-fast",
        settings="batch 100 × 2, burst, poll every 0.5 s, LISTEN; a failure fails the batch",
        variant="fast",
        jobs=20_000,
    ),
    replace(_GRAPHILE, workloads=_AS_IT_COMES),
    replace(
        _GRAPHILE,
        name="graphile-fast",
        settings="concurrency 10, local queue of 500, batched completion, no log",
        variant="fast",
    ),
    _BULLMQ,
)
BY_NAME = {peer.name: peer for peer in PEERS}
