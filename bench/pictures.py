"""Which charts the page has, and what stands in their rows."""

from __future__ import annotations

from collections.abc import Callable

from bench import charts
from bench.charts import Row
from bench.results import Results
from bench.spread import spread
from bench.tables import NOTHING, number, shown, title


def draw(results: Results) -> dict[str, str]:
    """File names and charts."""
    drains = _rows(results, "w3", lambda name: _drain(results, name))
    costs = _rows(results, "w3", lambda name: _cost(results, name))
    waits = _rows(results, "w4", lambda name: _wait(results, name))
    best_first = sorted(drains, key=lambda row: -(row.value or 0))
    return {
        "bench-drain.svg": charts.bars(
            "Drain: jobs a second",
            "One worker, concurrency 10, no-op jobs. Median of the rounds; line: least to most.",
            best_first,
        ),
        "bench-cpu.svg": charts.points(
            "CPU: seconds for 1,000 jobs, worker + server",
            "Less is better. Point: their sum, on powers of ten; line: least to most.",
            _least_first(costs),
        ),
        "bench-latency.svg": charts.points(
            "From the commit of a job to the start of its handler: milliseconds",
            "An idle worker, 20 jobs a second. Point: p50; line: to p99. Powers of ten.",
            _least_first(waits),
        ),
    }


def _rows(results: Results, workload: str, make: Callable[[str], Row | None]) -> list[Row]:
    rows = []
    for name in results.peers():
        bad = results.bad(name, workload)
        row = make(name)
        if row is None and bad:
            row = Row(_label(name), bad[0]["status"], ours=_ours(name))
        if row:
            rows.append(row)
    return rows


def _drain(results: Results, name: str) -> Row | None:
    found = results.spread(name, "w3", "rate")
    if not found:
        return None
    return Row(_label(name), shown(found), found.middle, found.least, found.most, ours=_ours(name))


def _cost(results: Results, name: str) -> Row | None:
    rounds = results.good(name, "w3")
    found = spread([line["cpu_worker"] + line["cpu_server"] for line in rounds])
    if not found:
        return None
    text = " + ".join(
        number(part.middle) if (part := results.spread(name, "w3", figure)) else NOTHING
        for figure in ("cpu_worker", "cpu_server")
    )
    return Row(_label(name), text, found.middle, found.least, found.most, ours=_ours(name))


def _wait(results: Results, name: str) -> Row | None:
    middle, far = (results.spread(name, "w4", point) for point in ("p50", "p99"))
    if not middle or not far:
        return None
    text = f"{number(middle.middle)} / {number(far.middle)}"
    return Row(_label(name), text, middle.middle, middle.middle, far.middle, ours=_ours(name))


def _least_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.value or float("inf"))


def _label(name: str) -> str:
    return title(name).replace("*", "")


def _ours(name: str) -> bool:
    return name.startswith("ours")
