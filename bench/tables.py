"""The tables of the page, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.peer import Peer
from bench.results import Results
from bench.spread import Spread
from bench.table import BY_NAME

NOTHING = "–"


def number(value: float) -> str:
    """Three figures or so, thousands apart."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def shown(found: Spread | None) -> str:
    """``median (least–most)``, or the figure alone when there is one."""
    if found is None:
        return NOTHING
    middle = number(found.middle)
    return middle if found.count == 1 else f"{middle} ({number(found.least)}–{number(found.most)})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def title(name: str) -> str:
    """How a peer is called in a table, with its setting's name."""
    peer = BY_NAME.get(name)
    if peer is None:
        return name
    return peer.title + (", fast" if peer.variant == "fast" else "")


def rates(results: Results) -> str:
    """W1 to W3b, and the ratios to the limit."""
    columns: dict[str, Callable[[str], str]] = {
        "W1 lone enqueue": lambda name: cell(results, name, "w1"),
        "W2 bulk enqueue": lambda name: cell(results, name, "w2", instead="w3"),
        "W3 drain, one worker": lambda name: cell(results, name, "w3"),
        "W3 ÷ limit by hundreds": lambda name: shown(results.spread(name, "w3", "÷batch")),
        "W3 ÷ limit one by one": lambda name: shown(results.spread(name, "w3", "÷one")),
        "W3b drain, two workers": lambda name: cell(results, name, "w3b"),
    }
    return by_peer(results, columns)


def costs(results: Results) -> str:
    """What 1,000 jobs of W3 take."""
    columns: dict[str, Callable[[str], str]] = {
        "worker, CPU s": lambda name: shown(results.spread(name, "w3", "cpu_worker")),
        "server, CPU s": lambda name: shown(results.spread(name, "w3", "cpu_server")),
        "worker's peak memory, MiB": lambda name: shown(results.spread(name, "w3", "peak_mib")),
        "jobs that took it": lambda name: shown(results.spread(name, "w3", "jobs")),
        "keeps of a finished job": _kept,
    }
    return by_peer(results, columns)


def latencies(results: Results) -> str:
    """W4, in milliseconds."""
    columns: dict[str, Callable[[str], str]] = {
        f"{point} ms": lambda name, point=point: cell(results, name, "w4", figure=point)  # type: ignore[misc]
        for point in ("p50", "p95", "p99", "worst")
    }
    return by_peer(results, {**columns, "jobs seen": lambda name: _seen(results, name)})


def flatness(results: Results) -> str:
    """W5 and W6 beside W3, with what they cost the server."""
    columns: dict[str, Callable[[str], str]] = {}
    for workload, text in (("w3", "W3"), ("w5", "W5 many waiting"), ("w6", "W6 long history")):
        columns[text] = lambda name, workload=workload: cell(results, name, workload)  # type: ignore[misc]
    for workload in ("w3", "w5", "w6"):
        columns[f"server, CPU s: {workload.upper()}"] = lambda name, workload=workload: shown(  # type: ignore[misc]
            results.spread(name, workload, "cpu_server")
        )
    return by_peer(results, columns)


def cell(
    results: Results, name: str, workload: str, *, figure: str = "rate", instead: str = ""
) -> str:
    """A figure; or that it is missing or failed (``instead``: as whose part it was tried)."""
    found = results.spread(name, workload, figure)
    bad = results.bad(name, instead or workload)
    if found is None:
        return bad[0]["status"].replace("none", NOTHING) if bad else NOTHING
    failed = [line for line in bad if line["status"] == "failed"]
    return shown(found) + (f", {len(failed)} failed" if failed else "")


def by_peer(results: Results, columns: dict[str, Callable[[str], str]]) -> str:
    """A row for each peer."""
    names = results.peers()
    rows = [[title(name), *(make(name) for make in columns.values())] for name in names]
    return table(["", *columns], rows)


def _kept(name: str) -> str:
    peer: Peer | None = BY_NAME.get(name)
    return peer.keeps if peer else NOTHING


def _seen(results: Results, name: str) -> str:
    rounds = results.good(name, "w4")
    if not rounds:
        return NOTHING
    return f"{sum(line['jobs'] for line in rounds):,} of {sum(line['of'] for line in rounds):,}"
