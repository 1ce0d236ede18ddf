"""Raw lines gathered by peer and workload, each rate beside the limit measured just before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bench.raw import Line
from bench.spread import Spread, spread


class Results:
    """What a run has found. ``line["÷one"]`` and ``["÷batch"]`` are ratios to the limits."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._of: dict[tuple[str, str], list[Line]] = defaultdict(list)
        self.loads: list[float] = []
        limits: dict[str, float] = {}
        for line in lines:
            self.loads.append(line["load"])
            if line["peer"] == "limit" and line["status"] == "ok":
                limits[line["workload"]] = line["rate"]
            elif line["status"] == "ok" and "rate" in line:
                ratios = {f"÷{which}": line["rate"] / rate for which, rate in limits.items()}
                line = {**line, **ratios}
            self._of[line["peer"], line["workload"]].append(line)

    def spread(self, peer: str, workload: str, figure: str) -> Spread | None:
        """Median, least and most of a figure over the rounds that have it."""
        return spread([line[figure] for line in self.good(peer, workload) if figure in line])

    def good(self, peer: str, workload: str) -> list[Line]:
        """The rounds that were measured."""
        return [line for line in self._of.get((peer, workload), []) if line["status"] == "ok"]

    def bad(self, peer: str, workload: str) -> list[Line]:
        """The rounds that were not."""
        return [line for line in self._of.get((peer, workload), []) if line["status"] != "ok"]

    def all_bad(self) -> list[Line]:
        """Everything that was not measured, in the order of the run."""
        return [line for lines in self._of.values() for line in lines if line["status"] != "ok"]

    def peers(self) -> list[str]:
        """All that were measured or should have been, limits aside."""
        return list(dict.fromkeys(peer for peer, _ in self._of if peer != "limit"))

    def has(self, *workloads: str) -> bool:
        """Whether anything was measured, or tried, of these."""
        return any(workload in workloads for _, workload in self._of)
