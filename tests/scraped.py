"""What ``/metrics`` says, read strictly: a collector throws away the whole of a bad answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"# (HELP|TYPE) ([a-z_]+) (.+)")
_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.+)\})? (NaN|[+-]?(?:Inf|[0-9.]+(?:e[+-][0-9]+)?))")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ESCAPED = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}

Labels = frozenset[tuple[str, str]]


@dataclass
class Scraped:
    """One answer. ``types``: of each family; ``series``: each family's samples by their labels."""

    types: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[tuple[str, Labels], float]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """The one sample of a family without labels."""
        return self.of(name)

    def of(self, name: str, **labels: str) -> float:
        """The sample with these labels."""
        family = next(one for one in (name, name.rpartition("_")[0]) if one in self.series)
        return self.series[family][name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        """The samples of a family by the one label that they have."""
        return {dict(labels)[label]: value for (_, labels), value in self.series[name].items()}


def scraped(text: str) -> Scraped:
    """Read an answer. Raises AssertionError at the first line that a collector would not take."""
    assert text.endswith("\n")
    found, family = Scraped(), ""
    for line in text.splitlines():
        if line.startswith("#"):
            family = _comment(found, line, family)
        else:
            _sample(found, line, family)
    for name, kind in found.types.items():
        if kind == "histogram":
            _check_histogram(name, found.series[name])
    return found


def _comment(found: Scraped, line: str, family: str) -> str:
    comment = _COMMENT.fullmatch(line)
    assert comment, line
    what, name, said = comment.groups()
    if what == "HELP":
        assert name not in found.about, f"{name} twice"
        found.about[name] = said
        return name
    assert name == family, f"the type of {name} stands apart"
    found.types[name], found.series[name] = said, {}
    return name


def _sample(found: Scraped, line: str, family: str) -> None:
    sample = _SAMPLE.fullmatch(line)
    assert sample, line
    name, labels, value = sample.groups()
    kind = found.types[family]
    suffixes = ("_bucket", "_count") if kind == "histogram" else ("",)
    assert name in [family + suffix for suffix in suffixes], line
    assert (kind == "counter") == name.endswith("_total"), line
    key = (name, frozenset(_labels(labels or "").items()))
    assert key not in found.series[family], f"twice: {line}"
    found.series[family][key] = float(value)
    assert kind == "gauge" or float(value) >= 0


def _labels(text: str) -> Mapping[str, str]:
    found, at = {}, 0
    while at < len(text):
        label = _LABEL.match(text, at)
        assert label, text
        assert label[1] not in found
        found[label[1]] = re.sub(r'\\["\\n]', lambda one: _ESCAPED[one[0]], label[2])
        at = label.end()
    return found


def _check_histogram(name: str, series: Mapping[tuple[str, Labels], float]) -> None:
    upto = {float(dict(labels)["le"]): n for (one, labels), n in series.items() if labels}
    assert list(upto) == sorted(upto)
    assert list(upto.values()) == sorted(upto.values())
    if series:
        assert upto[float("inf")] == series[f"{name}_count", frozenset()]
