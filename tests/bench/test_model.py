"""The model of the ladder, on figures whose law is known."""

from __future__ import annotations

import pytest

from bench.model import Model, Rung, fit


def rungs(serial: float, series: dict[str, tuple[float, float]], cores: float) -> list[Rung]:
    """Measurements as the law has them: by series what a process takes alone, and CPU."""
    return [
        Rung(name, n, 1 / max(serial + alone / n, cpu / cores), cpu)
        for name, (alone, cpu) in series.items()
        for n in (1, 2, 4)
    ]


def test_a_serial_part_that_binds_is_found() -> None:
    measured = rungs(50e-6, {"a": (200e-6, 100e-6), "b": (100e-6, 40e-6)}, cores=8.0)

    model = fit(measured, 8)

    assert model.serial_s == pytest.approx(50e-6, rel=0.1)
    assert model.alone_s["a"] == pytest.approx(200e-6, rel=0.1)
    assert model.least_serial_s > 30e-6
    assert model.most_serial_s < 70e-6
    assert all(abs(model.residual(one)) < 0.05 for one in measured)
    # However many processors there are, no more than one job every 50 µs.
    low, high = model.range("a", cores=1000)
    assert low < 1 / 50e-6 < high * 1.1


def test_what_two_processors_hide_is_told_as_a_range() -> None:
    measured = rungs(5e-6, {"a": (110e-6, 140e-6)}, cores=2.0)

    model = fit(measured, 2)

    assert model.share == pytest.approx(1.0)
    assert model.least_serial_s < 1e-6
    assert model.most_serial_s > 10e-6
    low, high = model.range("a", cores=32)
    assert high > 1.5 * low
    assert low >= 2 / 140e-6


def test_the_handlers_own_cpu_takes_over() -> None:
    model = fit(rungs(5e-6, {"a": (150e-6, 140e-6)}, cores=2.0), 2)

    low, high = model.range("a", cores=32, handler_s=0.01)

    assert high <= 32 / 0.01
    assert low > 0.9 * 32 / 0.01014
    assert model.rate("a", 1, handler_s=0.01) < 1 / 0.01


def test_a_measurement_off_the_law_is_a_residual() -> None:
    measured = rungs(0.0, {"a": (400e-6, 100e-6)}, cores=8.0)
    odd = Rung("a", 8, measured[0].rate * 2, 100e-6)

    model = fit([*measured, odd], 8)

    assert model.residual(odd) < -0.1
    assert isinstance(model, Model)


def test_one_rung_is_not_enough() -> None:
    with pytest.raises(ValueError, match="one rung"):
        fit([Rung("a", 1, 1000.0, 0.0001)], 2)
