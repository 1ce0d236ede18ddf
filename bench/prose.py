"""What the page says in words, whatever the figures are."""

from __future__ import annotations

from bench.raw import Line

HEAD = """\
# Benchmarks

This product beside other job queues, all on one machine, each doing the same work in turn. The page
is written by `bench/run`; do not edit it.

"""
QUICK = """\
> **A quick run**: few jobs and few rounds. It shows that everything works, not who is faster.

"""
AGAIN = """\
## Run it again

```sh
bench/run            # all of it, about an hour
bench/run --quick    # one short round, under five minutes
bench/run --resume   # complete a run that was interrupted
bench/run --help     # one queue, one workload, more rounds, another PostgreSQL
bench/run --report   # this page again, from the last results
```

The other queues are installed into a scratch folder of the bench, with the versions above.
PostgreSQL and Redis are started for the run, on loopback and free ports, and removed after it.
Another queue is one entry in `bench/table.py` and one program of fifty lines in `bench/adaptors/`.
"""
CAVEATS = """\
## Read this with care

- Producer, worker, database and the bench share one machine. With more processors, or a database on
  another host, the order of the queues may differ.
- No-op jobs measure the queue and nothing else. A job that takes 10 ms makes them all alike.
- The queues do not promise the same. Some delete a job when it is done, or keep no events; Redis is
  not durable to the last second. The column "keeps" says what is left of a finished job.
- The ratio to the limit is to a measurement a moment earlier: it is as noisy as the machine.
- Latency does not count the producer's own commit.
- Fast settings are those that each project's documentation or benchmark names, as far as we found
  them. If you know better ones, they belong into `bench/table.py`.

"""


def workloads(conditions: Line) -> str:
    """What each workload is, with the sizes of the run."""
    # A run of an earlier version has fewer sizes.
    known = {"deep_s": conditions["size"].get("most_cap_s", 0), **conditions["size"]}
    size = {name: f"{value:,g}" for name, value in known.items()}
    return f"""\
## The workloads

Every job has a payload of about 100 bytes and a handler that only counts it. Each workload begins
with a fresh database, copied from a migrated one, after `ANALYZE` and a checkpoint.

- **W1** lone enqueue: one producer, {size["lone"]} jobs, a commit each.
- **W2** bulk enqueue: the jobs of the drain, a thousand a commit.
- **W3** drain: one worker, concurrency 10, {size["most_jobs"]} jobs (fewer for the slow), from the
  first start to the last end that the store has; cut after 8 to 14 seconds, {size["most_cap_s"]} s
  at most. **W3b**: two workers.
- **W4** idle to start: {size["paced"]} jobs, {size["paced_per_s"]} a second at uneven moments.
- **W5** many waiting: {size["waiting"]} jobs wait; cut after {size["deep_s"]} s.
- **W6** long history: {size["history"]} jobs have ended before.
- For this product alone: {size["api"]} jobs through the API on eight connections (gunicorn, two
  processes of four threads); a drain with {size["scheduled"]} jobs of a higher priority scheduled
  ahead; a drain under a snapshot that is held all the while, {size["pinned_s"]} s at most; and the
  worker's memory over {size["steady"]} jobs. Its ladder of processes stands
  in [Outgrowing one machine](scaling.md).

A queue that stands here at two settings has W3b, W5 and W6 at the faster one, which takes larger
batches with the same SQL: a – there is a workload that this setting was not given. What could
not be measured stands there with its reason.

After each drain the workers are stopped with grace and every job is looked at: it must have run
exactly once and be marked done in the store, else that measurement is a failure and has no figure.
Where the drain was cut short, the same holds for those that ran; other queues may have up to 25
that ran and are not marked, for not all of them settle what they did when they stop.

"""
