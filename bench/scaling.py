"""The measured part of docs/scaling.md: the ladder, the model that fits it, what it foretells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bench import curves, tables
from bench.curves import Curve
from bench.installation import ROOT
from bench.ladder import RUNGS, SERIES, Series
from bench.model import Model, Rung, fit
from bench.raw import Line
from bench.results import Results
from bench.tables import NOTHING, number, shown, table

PAGE = "scaling.md"
PICTURE = "scaling-ladder.svg"
BEGIN, END = "<!-- bench ladder begin -->", "<!-- bench ladder end -->"
AHEAD = (4, 8, 16, 32)
# CPU milliseconds of the handler itself.
HANDLERS_MS = (0, 1, 10)


def write(folder: Path, conditions: Line, lines: Sequence[Line]) -> Path | None:
    """Renew the part between the marks, and its picture; None when no ladder was measured."""
    results = Results(lines)
    if not any(results.good("ours", name) for _, _, name in _names()):
        return None
    model = _model(conditions, results)
    whole = (ROOT / "docs" / PAGE).read_text()
    part = text(conditions, results, model)
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    if model:
        (images / PICTURE).write_text(picture(results, model))
    page = folder / PAGE
    marked = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    page.write_text(re.sub(marked, lambda _: f"{BEGIN}\n{part}\n{END}", whole, flags=re.DOTALL))
    return page


def summary(conditions: Line, lines: Sequence[Line]) -> str:
    """The rungs, as they are said at the end of a run; '' without any."""
    results = Results(lines)
    measured = any(results.good("ours", name) for _, _, name in _names())
    return _ladder(results, _model(conditions, results)) if measured else ""


def text(conditions: Line, results: Results, model: Model | None) -> str:
    """What stands between the marks."""
    versions = conditions["versions"]
    kind = "A quick run, to see that it works; " if conditions["quick"] else ""
    loads = f"{min(results.loads, default=0):.1f} to {max(results.loads, default=0):.1f}"
    head = f"""\
{kind}{conditions["date"]}, {conditions["machine"]}, PostgreSQL {versions["PostgreSQL"]}, Python
{versions["Python"]}; workers and server share the machine, load average {loads}. Rounds:
{conditions["rounds"]}; figures are `median (least–most)`.

{_ladder(results, model)}
"""
    return head + (_foretold(results, model) if model else _NO_MODEL)


_NO_MODEL = "\nToo few rungs were measured to fit the model.\n"


def picture(results: Results, model: Model) -> str:
    """Measured points, the model's lines through them, and what it says of 32 processors."""
    drawn = []
    for colour, series in enumerate(_fitted(model)):
        points = [(float(n), rate) for n in RUNGS if (rate := _rate(results, series, n))]
        line = [(float(n), model.rate(series.name, n)) for n in (1, 2, 3, 4, 6, 8)]
        label = series.title.replace("`", "").replace("the same SQL", "its SQL")
        drawn.append(Curve(label, line, points, colour=colour))
    for end, name in ((model.most_serial_s, "least"), (model.least_serial_s, "most")):
        line = [
            (float(n), model.rate("noop", n, cores=32, serial_s=end))
            for n in (1, 2, 4, 8, 16, 32, 64)
        ]
        if "noop" in model.alone_s:
            drawn.append(Curve(f"no-op on 32 processors, {name}", line, guess=True))
    return curves.curves(
        "Jobs a second by worker processes",
        f"Points: measured on {model.cores} processors. Lines: the model. Dashed: nothing is"
        " measured there.",
        "worker processes (clients of pgbench)",
        drawn,
    )


def _names() -> list[tuple[Series, int, str]]:
    return [(series, n, f"ladder {series.name} {n}") for series in SERIES for n in RUNGS]


def _ladder(results: Results, model: Model | None) -> str:
    rows = []
    for series, count, name in _names():
        if not results.good("ours", name) and not results.bad("ours", name):
            continue
        rows.append(
            [
                series.title, str(count), tables.cell(results, "ours", name),
                *(_figure(results, name, one) for one in ("cpu_worker", "cpu_server")),
                _figure(results, name, "jobs_a_commit"), _figure(results, name, "wal"),
                _off(results, model, series, count),
            ]
        )  # fmt: skip
    for which, said in (("batch", "100 a statement"), ("one", "one by one")):
        found = results.spread("limit", which, "rate")
        cost = shown(results.spread("limit", which, "cpu_server"))
        title = f"the barest queue by pgbench, {said} ([limit](benchmarks.md#the-limit))"
        rows.append([title, "4", shown(found), NOTHING, cost, NOTHING, NOTHING, NOTHING])
    head = ["", "processes", "jobs/s", "worker, CPU s per 1,000", "server, CPU s per 1,000",
            "jobs a commit", "WAL bytes a job", "off the model"]  # fmt: skip
    return table(head, rows)


def _figure(results: Results, name: str, figure: str) -> str:
    found = results.spread("ours", name, figure)
    return number(found.middle) if found else NOTHING


def _rate(results: Results, series: Series, count: int) -> float:
    found = results.spread("ours", f"ladder {series.name} {count}", "rate")
    return found.middle if found else 0.0


def _rung(results: Results, series: Series, count: int) -> Rung | None:
    name = f"ladder {series.name} {count}"
    rate = _rate(results, series, count)
    costs = [results.spread("ours", name, one) for one in ("cpu_worker", "cpu_server")]
    if not rate:
        return None
    return Rung(series.name, count, rate, sum(one.middle for one in costs if one) / 1000)


def _off(results: Results, model: Model | None, series: Series, count: int) -> str:
    rung = _rung(results, series, count)
    if not model or not rung or rung.series not in model.alone_s:
        return NOTHING
    return f"{round(model.residual(rung) * 100):+d} %"


def _model(conditions: Line, results: Results) -> Model | None:
    rungs = [_rung(results, series, n) for series in SERIES for n in RUNGS]
    cores = int(conditions["machine"].split()[0])
    try:
        return fit([rung for rung in rungs if rung], cores)
    except ValueError:
        return None


def _fitted(model: Model) -> list[Series]:
    return [series for series in SERIES if series.name in model.alone_s]


def _foretold(results: Results, model: Model) -> str:
    named = [series for series in _fitted(model) if not series.batch]
    heads = [f"{series.title}" for series in named]
    default = "noop" if "noop" in model.alone_s else named[0].name if named else ""
    rows = []
    for cores in AHEAD:
        cells = [_range(model.range(series.name, cores=cores)) for series in named]
        busy = [
            _range(model.range(default, cores=cores, handler_s=ms / 1000))
            for ms in HANDLERS_MS
            if ms and default
        ]
        rows.append([str(cores), *cells, *busy])
    handlers = [f"handlers of {ms} ms CPU" for ms in HANDLERS_MS if ms and default]
    alone = [
        [
            series.title,
            number(model.alone_s[series.name] * 1e6),
            number(model.cpu_s[series.name] * 1e6),
        ]
        for series in _fitted(model)
    ]
    serial = (
        f"{_micro(model.serial_s)} ({_micro(model.least_serial_s)}–{_micro(model.most_serial_s)})"
    )
    return f"""
![Jobs a second by worker processes](images/{PICTURE})

Fitted: a serial part of {serial} µs a job; {model.used_cores:.2f} of {model.cores} processors in
use at the busiest rung, {model.share * 100:.0f} %; residuals of {model.error * 100:.1f} %, root of
the mean square.

{table(["", "a process alone, µs a job", "CPU, µs a job"], alone)}

What the model says of a machine with more processors, workers and server on it, two processes for
each processor, as far as the range of the serial part leaves it open:

{table(["processors", *heads, *handlers], rows)}
"""


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _range(ends: tuple[float, float]) -> str:
    low, high = (_two(end) for end in ends)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _two(value: float) -> int:
    """Two figures: the model has no more."""
    return int(float(f"{value:.2g}"))
