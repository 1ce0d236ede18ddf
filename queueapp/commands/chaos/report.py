"""How a run is told: conditions, faults, the invariants one line each, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from queueapp.commands.chaos.faults import Kind
from queueapp.commands.chaos.invariants import Finding


@dataclass
class Report:
    """One run; without ``findings`` it ended before it was judged."""

    conditions: dict[str, Any]
    faults: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether an invariant is."""
        return bool(self.findings) and not self.holds

    @property
    def holds(self) -> bool:
        """Whether every invariant does. What was not judged does not hold."""
        return bool(self.findings) and all(finding.holds for finding in self.findings)

    def lines(self) -> Iterator[str]:
        """The report as people read it."""
        yield from _block("Conditions", self.conditions)
        yield from _block("Faults", {kind.value: self.faults[kind] for kind in Kind})
        if self.findings:
            yield from ("", "Invariants")
            yield from self._invariants()
        if self.figures:
            yield from _block("Figures", self.figures)

    def _invariants(self) -> Iterable[str]:
        width = max(len(finding.name) for finding in self.findings)
        for finding in self.findings:
            word = "ok    " if finding.holds else click.style("BROKEN", fg="red", bold=True)
            yield f"  {word}  {finding.name:<{width}}  {finding.figures}"
            yield from (f"          {offender}" for offender in finding.first)

    def document(self) -> dict[str, Any]:
        """The report as programs read it."""
        return {
            "holds": self.holds,
            "conditions": self.conditions,
            "faults": {kind.name.lower(): self.faults[kind] for kind in Kind},
            "invariants": [{**asdict(one), "holds": one.holds} for one in self.findings],
            "figures": self.figures,
        }


def _block(title: str, told: dict[str, Any]) -> Iterator[str]:
    width = max(map(len, told))
    yield from ("", title)
    yield from (f"  {name:<{width}}  {value}" for name, value in told.items())
