"""How the rate grows with processes and processors: three figures, fitted to measured rungs.

One job takes ``serial_s`` that no two can take at once (the log's insertion, one index page, the
row that everybody passes), and ``alone_s`` that each process takes for itself (its own CPU, the
server's for it, the wait for the commit), so N processes need ``serial_s + alone_s / N`` a job. It
cannot be less than its CPU seconds divided by the processors in use. ``serial_s`` is one for all
series, since all write the same rows; ``alone_s`` is one of each series, its CPU is measured.

Pure: knows nothing of the bench.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# A serial part fits as well when the residuals grow by no more than a fifth and two per cent: a
# quiet machine repeats itself no better.
_AS_WELL = (1.2, 0.02)
_STEPS = 90


@dataclass(frozen=True)
class Rung:
    """One measurement: ``cpu_s`` is what a job cost, of everybody's processors."""

    series: str
    processes: int
    rate: float
    cpu_s: float


@dataclass(frozen=True)
class Model:
    """What was fitted. ``least_serial_s`` and ``most_serial_s`` fit as well as ``serial_s``."""

    serial_s: float
    least_serial_s: float
    most_serial_s: float
    # How many of the processors the busiest rung had in use, and of how many.
    used_cores: float
    cores: int
    # By series.
    alone_s: Mapping[str, float]
    cpu_s: Mapping[str, float]
    # Root of the mean squared residual, as a share.
    error: float

    @property
    def share(self) -> float:
        """The share of the processors that can be put to use."""
        return self.used_cores / self.cores

    def rate(
        self, series: str, processes: int, *,
        cores: int | None = None, handler_s: float = 0.0, serial_s: float | None = None,
    ) -> float:  # fmt: skip
        """Jobs a second of ``processes``; ``handler_s``: CPU seconds of the handler itself."""
        serial = self.serial_s if serial_s is None else serial_s
        alone = self.alone_s[series] + self.serial_s - serial + handler_s
        cpu = self.cpu_s[series] + handler_s
        return 1 / _a_job(
            serial, max(alone, 0.0), cpu, processes, (cores or self.cores) * self.share
        )

    def range(self, series: str, *, cores: int, handler_s: float = 0.0) -> tuple[float, float]:
        """Least and most on ``cores`` processors, with two processes for each."""
        ends = (self.most_serial_s, self.least_serial_s)
        low, high = (
            self.rate(series, 2 * cores, cores=cores, handler_s=handler_s, serial_s=end)
            for end in ends
        )
        return low, high

    def residual(self, rung: Rung) -> float:
        """How much more was measured than the model says, as a share."""
        return rung.rate / self.rate(rung.series, rung.processes) - 1


def fit(rungs: Sequence[Rung], cores: int) -> Model:
    """Fit to the logarithms of the measured rates. Raises ValueError without two rungs of a series.

    The processors in use and the CPU of a job are what was measured. Then every serial part from
    nothing to the whole of the fastest job is tried, each with the best ``alone_s`` of each series.
    """
    by_series = _by_series(rungs)
    if not any(len({rung.processes for rung in of}) > 1 for of in by_series.values()):
        raise ValueError("one rung alone says nothing about the next")
    cpu = {name: median(rung.cpu_s for rung in of) for name, of in by_series.items()}
    used = min(float(cores), max(rung.rate * rung.cpu_s for rung in rungs))
    tried = [(serial, _best(by_series, cpu, used, serial)) for serial in _serial_parts(rungs)]
    errors = {
        serial: math.sqrt(sum(square for _, square in best.values()) / len(rungs))
        for serial, best in tried
    }
    serial, best = min(tried, key=lambda one: errors[one[0]])
    factor, slack = _AS_WELL
    fitting = [one for one, error in errors.items() if error <= errors[serial] * factor + slack]
    return Model(
        serial_s=serial, least_serial_s=min(fitting), most_serial_s=max(fitting),
        used_cores=used, cores=cores, alone_s={name: alone for name, (alone, _) in best.items()},
        cpu_s=cpu, error=errors[serial],
    )  # fmt: skip


def _by_series(rungs: Iterable[Rung]) -> dict[str, list[Rung]]:
    found: dict[str, list[Rung]] = {}
    for rung in rungs:
        found.setdefault(rung.series, []).append(rung)
    return found


def _serial_parts(rungs: Sequence[Rung]) -> list[float]:
    """Nothing, and from a thousandth of the fastest job to all of it, by equal ratios."""
    whole = 1 / max(rung.rate for rung in rungs)
    return [0.0, *(whole * 10 ** (3 * step / _STEPS - 3) for step in range(_STEPS + 1))]


def _best(
    by_series: Mapping[str, Sequence[Rung]], cpu: Mapping[str, float], used: float, serial: float
) -> dict[str, tuple[float, float]]:
    """For each series its best ``alone_s`` and the squared residuals that are left."""
    best = {}
    for name, rungs in by_series.items():

        def squares(alone: float, name: str = name, rungs: Sequence[Rung] = rungs) -> float:
            return sum(
                math.log(rung.rate * _a_job(serial, alone, cpu[name], rung.processes, used)) ** 2
                for rung in rungs
            )

        slowest = max(rung.processes / rung.rate for rung in rungs)
        ladder = [slowest * 10 ** (2 * step / _STEPS - 2) for step in range(_STEPS + 1)]
        near = min(ladder, key=squares)
        fine = [near * (0.96 + 0.002 * step) for step in range(41)]
        best[name] = min(((alone, squares(alone)) for alone in fine), key=lambda one: one[1])
    return best


def _a_job(serial: float, alone: float, cpu: float, processes: int, cores: float) -> float:
    return max(serial + alone / processes, cpu / cores)
