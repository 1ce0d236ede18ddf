"""What a rule is: one small thing that looks at the facts and says what is wrong, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from queueapp.jobs.verdict.facts import Facts
from queueapp.jobs.verdict.findings import Finding, Level, Step


@dataclass(frozen=True)
class Said:
    """What a rule says. ``paths``: pages for the next step.

    ``step``, ``title``: others than the rule's.
    """

    level: Level
    sentence: str
    since: datetime | None
    evidence: dict[str, Any] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    step: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class Rule:
    """One rule. ``needs``: the parts of the facts without which it cannot be asked."""

    code: str
    title: str
    levels: tuple[Level, ...]
    about: str
    step: str
    fields: tuple[str, ...]
    needs: tuple[str, ...]
    look: Callable[[Facts], Said | None]

    def ask(self, facts: Facts) -> Finding | None:
        """Look, if all that it needs was read."""
        if any(facts.of(part) is None for part in self.needs):
            return None
        said = self.look(facts)
        if said is None:
            return None
        return Finding(
            self.code,
            said.title or self.title,
            said.level,
            said.sentence,
            Step(said.step or self.step, said.paths),
            said.since,
            said.evidence,
        )
