"""The page: conditions, tables, charts, caveats. Written whole from the raw results of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import pictures, prose, tables
from bench.raw import Line
from bench.results import Results
from bench.standing import standing
from bench.table import BY_NAME
from bench.tables import NOTHING, number, shown, table, title


def write(folder: Path, conditions: Line, lines: Sequence[Line]) -> Path:
    """Write the page and its charts into ``folder``; return the page."""
    results = Results(lines)
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, chart in pictures.draw(results).items():
        (images / name).write_text(chart)
    page = folder / "benchmarks.md"
    page.write_text(text(conditions, results))
    return page


def text(conditions: Line, results: Results) -> str:
    """The page as Markdown."""
    parts = [prose.HEAD, prose.QUICK if conditions["quick"] else ""]
    parts += [_conditions(conditions, results), _failures(results)]
    if results.has("w1", "w2", "w3", "w3b"):
        parts += [_speed(results)]
    if results.has("w4"):
        parts += [_latency(results)]
    if results.has("w5", "w6"):
        parts += [_flatness(results)]
    parts += [_ours(results), _limits(results)]
    parts += [prose.workloads(conditions), prose.CAVEATS, prose.AGAIN]
    return "".join(parts)


def summary(conditions: Line, lines: Sequence[Line]) -> str:
    """What is said at the end of a run."""
    results = Results(lines)
    parts = [tables.rates(results)] if results.has("w1", "w2", "w3", "w3b") else []
    parts += [tables.latencies(results)] if results.has("w4") else []
    parts += [standing(results), _failures(results).strip()]
    return "\n\n".join(part for part in parts if part)


def _conditions(conditions: Line, results: Results) -> str:
    versions = ", ".join(f"{name} {one}" for name, one in conditions["versions"].items())
    settings = ", ".join(f"`{k} = {v}`" for k, v in conditions["postgresql_settings"].items())
    loads = f"{min(results.loads, default=0):.1f} to {max(results.loads, default=0):.1f}"
    rows = [
        [title(name), version or "not installed", BY_NAME[name].settings]
        for name, version in conditions["peers"].items()
        if name in BY_NAME
    ]
    return f"""\
## Conditions

- {conditions["date"]}, rounds of all in turn: {conditions["rounds"]}. Figures are medians with
  least and most: `median (least–most)`.
- {conditions["machine"]}; load average {conditions["load_at_start"]} before the run, {loads}
  during it, the bench's own work included.
- {versions}.
- PostgreSQL: as `initdb` leaves it, with {settings};
  `fsync` and `synchronous_commit` are on.
  Redis: append-only file, flushed every second, so that it may lose a second on a crash where
  PostgreSQL loses nothing.
- Workers log to a file, at the level that is their default.

{table(["queue", "version", "settings"], rows)}

"""


def _failures(results: Results) -> str:
    """What was not measured, and why: nothing is left out in silence."""
    bad = [line for line in results.all_bad() if line["why"]]
    if not bad:
        return ""
    rows = [
        [title(line["peer"]), line["workload"], str(line["round"] + 1), line["status"], _cell(line)]
        for line in bad
    ]
    head = ["queue", "workload", "round", "status", "why"]
    return f"## Not measured\n\n{table(head, rows)}\n\n"


def _cell(line: Line) -> str:
    return str(line["why"]).replace("|", "/").replace("\n", " ")


def _speed(results: Results) -> str:
    return f"""\
## Speed

![Jobs a second of each queue](images/bench-drain.svg)

Jobs a second; the ratios are to the [limit](#the-limit) measured just before.

{tables.rates(results)}

![CPU seconds for 1,000 jobs of each queue](images/bench-cpu.svg)

What 1,000 jobs of W3 cost, from the first job's start to the last one's end. CPU seconds move far
less with whatever else the machine does than jobs a second do.

{tables.costs(results)}

"""


def _latency(results: Results) -> str:
    return f"""\
## From idle to start

![Milliseconds to the start of a job, of each queue](images/bench-latency.svg)

W4: jobs come one by one to an idle worker; from the return of the producer's commit to the start of
the handler.

{tables.latencies(results)}

"""


def _flatness(results: Results) -> str:
    return f"""\
## As the tables grow

{tables.flatness(results)}

"""


def _ours(results: Results) -> str:
    compared = standing(results)
    if not compared:
        return ""
    return f"""\
## This product

Ratios are taken within each round. What is not listed was not part of this run.

{compared}

"""


def _limits(results: Results) -> str:
    rows = [
        [text, shown(results.spread("limit", which, "rate")), _cost(results, which)]
        for which, text in (
            ("one", "one job at a time, claim and end in a commit each"),
            ("batch", "a hundred at a time, in one statement each"),
        )
    ]
    return f"""\
## The limit

What the database gives to the barest queue with a history, driven by `pgbench` with four clients: a
claim and an end, each with its event, no handler at all.

{table(["", "jobs/s", "server, CPU s per 1,000"], rows)}

"""


def _cost(results: Results, which: str) -> str:
    found = results.spread("limit", which, "cpu_server")
    return number(found.middle) if found else NOTHING
