"""``bench/beside``: what a console that many people look at costs the claims beside it.

One claimer works through jobs that do nothing, alone and beside open pages in turns, so that both
see the same machine. Pages are asked for from a process of their own. See docs/measuring.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Event
from statistics import median, quantiles

import sqlalchemy as sa

from bench.console import PANEL, Client
from bench.errors import Failed
from bench.tables import number, table
from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.transitions import NewJob, Outcome

KIND = "bench.beside"
SLOTS = 4
# So often the claimer asks: it is at work, but neither machine nor server is full.
PACE_S = 0.02
# Before all else that waits there.
PRIORITY = 32767
PAGES = {
    "/": 5.0, "/jobs": 5.0, "/jobs?status=failed": 5.0, "/jobs?status=queued": 5.0, "/errors": 5.0,
    "/kinds": 5.0, "/workers": 5.0, "/operations": 5.0, "/events": 2.0, "/system": 15.0,
}  # fmt: skip
HEAD = ("round", "claims alone: p50, p95 ms", "beside: p50, p95 ms", "p95 beside / alone",
        "polls", "their median, most ms")  # fmt: skip


def enqueue(engine: sa.Engine, count: int) -> list[int]:
    """Create so many jobs that do nothing; their ids."""
    new = NewJob(kind=KIND, payload={}, priority=PRIORITY)
    with engine.begin() as connection:
        made = transitions.enqueue(
            connection, [new] * count, producer="bench", actor="bench", via="python"
        )
    return [job.id for job in made]


def drain(engine: sa.Engine, turns: int) -> list[float]:
    """Claim and settle as a worker does, so many times; the milliseconds of each."""
    holder = Holder(f"worker:{KIND}", lease_s=60, only=(KIND,))
    taken: list[float] = []
    claims: list[Claim] = []
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as line:
        for _ in range(turns):
            ended = [
                Outcome(id=one.id, token=one.token, verb="succeed", claimed_at=one.claimed_at,
                        ran_s=0.001)
                for one in claims
            ]  # fmt: skip
            began = time.perf_counter()
            claims = transitions.exchange(line, ended, holder, slots=SLOTS).claims
            took = time.perf_counter() - began
            taken.append(took * 1000)
            time.sleep(max(0.0, PACE_S - took))
            if len(claims) < SLOTS:
                raise Failed("somebody else has taken the jobs: stop the workers")
    return taken


def look(url: str, tabs: int, ends: Event, told: multiprocessing.Queue[list[float]]) -> None:
    """So many tabs, each with a page that asks by itself, until the end."""
    taken: list[float] = []

    def watch(nth: int) -> None:
        path, pace_s = list(PAGES.items())[nth % len(PAGES)]
        client, tag = Client(url, os.environ.get("QUEUE_TOKEN", "")), ""
        while not ends.wait(pace_s if tag else nth * 5.0 / tabs):
            headers = PANEL | {"Queue-Timer": "1"} | ({"HX-PTag": tag} if tag else {})
            with contextlib.suppress(OSError, http.client.HTTPException):
                took, answer, _ = client.ask(path, **headers)
                tag = answer.headers["HX-PTag"] or tag or "-"
                taken.append(took)

    watchers = [threading.Thread(target=watch, args=(nth,)) for nth in range(tabs)]
    for one in watchers:
        one.start()
    for one in watchers:
        one.join()
    told.put(taken)


@contextlib.contextmanager
def looked_at(url: str, tabs: int) -> Iterator[list[float]]:
    """Open the tabs, and shut them at the end; how long each of their answers took."""
    polls: list[float] = []
    ends = multiprocessing.Event()
    told: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    watching = multiprocessing.Process(target=look, args=(url, tabs, ends, told))
    watching.start()
    time.sleep(6)
    try:
        yield polls
    finally:
        ends.set()
        polls += told.get(timeout=90)
        watching.join()


def remove(engine: sa.Engine, ids: Sequence[int]) -> None:
    """Take away what was made for it."""
    span = {"first": min(ids), "last": max(ids), "kind": KIND}
    with engine.begin() as connection:
        for rows in ("job_events WHERE job_id", "jobs WHERE id"):
            connection.execute(
                sa.text(f"DELETE FROM {rows} BETWEEN :first AND :last AND kind = :kind"), span
            )


def compare(engine: sa.Engine, url: str, *, tabs: int, turns: int, nth: int) -> tuple[str, ...]:
    """A row of the table."""
    alone = drain(engine, turns)
    with looked_at(url, tabs) as polls:
        beside = drain(engine, turns)
    (low, high), (low_beside, high_beside) = (
        (median(taken), quantiles(taken, n=20)[-1]) for taken in (alone, beside)
    )
    pairs = ((low, high), (low_beside, high_beside), (median(polls), max(polls)))
    claims, others, answers = (f"{number(one)}, {number(other)}" for one, other in pairs)
    return str(nth), claims, others, number(high_beside / high), str(len(polls)), answers


def main(words: Sequence[str]) -> int:
    """Measure, print the table; the exit status."""
    parser = argparse.ArgumentParser(
        prog="bench/beside",
        description="Claims of jobs that do nothing, alone and beside open pages of a console, in"
        " turns. Writes into the database of DATABASE_URL, and takes its own jobs away again.",
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="default: %(default)s")
    parser.add_argument("--tabs", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("--turns", type=int, default=1_500, metavar="N", help="claims each time")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: %(default)s")
    given = parser.parse_args(words)
    address = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sa.create_engine(address)
    ids: list[int] = []
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{given.tabs} tabs, {SLOTS} jobs a claim; load average of this machine: {load}\n")
    print(table(HEAD, []), flush=True)
    try:
        for nth in range(1, given.rounds + 1):
            for _ in range(2 * given.turns * SLOTS // 1_000 + 1):
                ids += enqueue(engine, 1_000)
            row = compare(engine, given.url, tabs=given.tabs, turns=given.turns, nth=nth)
            print("| " + " | ".join(row) + " |", flush=True)
    finally:
        if ids:
            remove(engine, ids)
        engine.dispose()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as error:
        print(f"bench/beside: {error}", file=sys.stderr)
        sys.exit(2)
