"""Numbers in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from queueapp.jobs.metrics import Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What the name of a sample may have beyond its family's.
_SUFFIXES = ("_bucket", "_count")


def exposition(families: Iterable[Family], samples: Iterable[Sample]) -> str:
    """Every family with its samples, those without any as well: a name never goes away."""
    of_family: dict[str, list[Sample]] = defaultdict(list)
    known = {family.name: family for family in families}
    for sample in samples:
        of_family[_family_of(sample.name, known)].append(sample)
    lines = []
    for name, family in known.items():
        lines.append(f"# HELP {name} {_escaped(family.about)}")
        lines.append(f"# TYPE {name} {family.type.value}")
        lines += [
            f"{one.name}{_labels(one.labels)} {_number(one.value)}" for one in of_family[name]
        ]
    return "\n".join(lines) + "\n"


def _family_of(name: str, known: Mapping[str, Family]) -> str:
    if name in known:
        return name
    return next(name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix))


def _labels(labels: Mapping[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(float(value)).removesuffix(".0")
