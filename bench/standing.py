"""This product against the others and against itself, each pair within the same round."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.results import Results
from bench.spread import Spread, spread
from bench.table import PEERS
from bench.tables import NOTHING, number, shown, table, title

_OTHERS = [peer for peer in PEERS if not peer.name.startswith("ours")]
_ON_POSTGRESQL = [peer.name for peer in _OTHERS if not peer.store.redis]


def standing(results: Results) -> str:
    """A table of comparisons, without those of which one side is not there; '' if none is."""
    rows = [*_against_others(results), *_against_itself(results), *_alone(results)]
    shown_rows = [row for row in rows if row[1] != NOTHING]
    return table(["what", "figure"], shown_rows) if shown_rows else ""


def ratio(results: Results, mine: tuple[str, str], other: tuple[str, str]) -> Spread | None:
    """The ratio of two rates in each round that has both."""
    rates = [_by_round(results, *side) for side in (mine, other)]
    return spread([rates[0][one] / rates[1][one] for one in rates[0] if one in rates[1]])


def best(results: Results, names: Sequence[str], workload: str) -> str:
    """Which of ``names`` has the highest median rate; '' if none was measured."""
    medians = {
        name: found.middle for name in names if (found := results.spread(name, workload, "rate"))
    }
    return max(medians, key=medians.__getitem__, default="")


def _by_round(results: Results, peer: str, workload: str) -> dict[int, float]:
    # The last of a round: a bulk enqueue is measured with both drains.
    return {line["round"]: line["rate"] for line in results.good(peer, workload)}


def _against_others(results: Results) -> list[tuple[str, str]]:
    rows = [
        (f"drain ÷ {title(name)}", _times(ratio(results, ("ours", "w3"), (name, "w3"))))
        for name in (peer.name for peer in _OTHERS)
    ]
    if name := best(results, _ON_POSTGRESQL, "w1"):
        found = ratio(results, ("ours-autocommit", "w1"), (name, "w1"))
        rows.append(
            (
                f"lone enqueue in autocommit mode ÷ the best on PostgreSQL, {title(name)}",
                _times(found),
            )
        )
    everybody = [peer.name for peer in _OTHERS]
    for workload, text, names in (
        ("w1", "lone enqueue ÷ the best on PostgreSQL", _ON_POSTGRESQL),
        ("w2", "bulk enqueue ÷ the best", everybody),
    ):
        if name := best(results, names, workload):
            found = ratio(results, ("ours", workload), (name, workload))
            rows.append((f"{text}, {title(name)}", _times(found)))
    return rows


def _against_itself(results: Results) -> list[tuple[str, str]]:
    plain = ("ours", "w3")
    pairs = {
        "two workers ÷ one": "w3b",
        "drain with many waiting ÷ plain drain": "w5",
        "drain after a long history ÷ plain drain": "w6",
        "drain with many scheduled ahead, of a higher priority ÷ plain drain": "scheduled",
        "drain under a held snapshot ÷ plain drain": "snapshot",
    }
    rows = [
        (text, _times(ratio(results, ("ours", workload), plain)))
        for text, workload in pairs.items()
    ]
    strict = ratio(results, ("ours-strict", "w3"), plain)
    return [*rows, ("strict order (`--prefetch 0`) ÷ default", _times(strict))]


def _alone(results: Results) -> list[tuple[str, str]]:
    rows = [
        ("strict order, jobs/s", shown(results.spread("ours-strict", "w3", "rate"))),
        ("enqueue through the API, jobs/s", shown(results.spread("ours", "api", "rate"))),
        ("drain under a held snapshot, jobs/s", shown(results.spread("ours", "snapshot", "rate"))),
        ("… seconds that it lasted", shown(results.spread("ours", "snapshot", "secs"))),
    ]
    return [*rows, *_memory(results)]


def _memory(results: Results) -> list[tuple[str, str]]:
    rounds = results.good("ours", "memory")
    if not rounds:
        return []
    jobs = rounds[0]["jobs"]

    def held(share: str) -> str:
        return shown(spread([line["mib_at"][share] for line in rounds]))

    shares: list[tuple[str, Callable[[str], str]]] = [
        (share, held) for share in ("25", "50", "75", "100")
    ]
    parts = [f"{of(share)} after {number(jobs * int(share) / 100)}" for share, of in shares]
    peak = shown(results.spread("ours", "memory", "peak_mib"))
    return [("worker's memory, MiB", "; ".join(parts)), ("… and its peak, MiB", peak)]


def _times(found: Spread | None) -> str:
    return NOTHING if found is None else f"× {shown(found)}"
