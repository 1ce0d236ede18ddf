"""Lines and points over a scale of doubling, as SVG, readable on light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDE, _HIGH = 820, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 250, 60, 44
_STYLE = """
.ground { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px system-ui, sans-serif }
.title { font-size: 15px; font-weight: 600 } .quiet { fill: #59636e; font-size: 12px }
.grid { stroke: #d0d7de; stroke-width: 1 } .line { fill: none; stroke-width: 2 }
.guess { stroke-dasharray: 5 5 }
.c0 { color: #0969da } .c1 { color: #8250df } .c2 { color: #9a6700 } .c3 { color: #1a7f37 }
.c4 { color: #59636e } .mark { fill: currentColor } .line { stroke: currentColor }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .quiet { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .c0 { color: #4493f8 } .c1 { color: #ab7df8 } .c2 { color: #d29922 } .c3 { color: #3fb950 }
  .c4 { color: #9198a1 }
}
""".strip()

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """``points`` were measured, ``line`` is what the model says; ``guess``: nothing is measured."""

    label: str
    line: Sequence[Point]
    points: Sequence[Point] = ()
    guess: bool = False
    colour: int = 0


@dataclass(frozen=True)
class _Scale:
    """From a value to its place, each doubling as far as the next."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))


def curves(title: str, about: str, across: str, drawn: Sequence[Curve]) -> str:
    """A chart: across and up by powers, each curve with its name at its end."""
    points = [point for curve in drawn for point in (*curve.line, *curve.points)]
    x = _Scale(min(p[0] for p in points), max(p[0] for p in points), _LEFT, _WIDE - _RIGHT)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    y = _Scale(_below(low), _above(high), _HIGH - _BOTTOM, _TOP)
    said = "; ".join(_said(curve) for curve in drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}"'
        f' height="{_HIGH}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(about)} {escape(said)}.</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{_WIDE - 1}" height="{_HIGH - 1}" rx="6"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        f'<text class="quiet" x="16" y="42">{escape(about)}</text>',
        *_grid(x, y, across),
        *(_curve(curve, x, y) for curve in drawn),
        *_labels(drawn, y),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(x: _Scale, y: _Scale, across: str) -> list[str]:
    drawn = []
    for value in _doublings(y.least, y.most):
        at = y.at(value)
        drawn.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="quiet" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
            f"{value:,.0f}</text>"
        )
    bottom = _HIGH - _BOTTOM
    for value in _doublings(x.least, x.most):
        drawn.append(
            f'<text class="quiet" x="{x.at(value):.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{value:g}</text>"
        )
    middle = (_LEFT + _WIDE - _RIGHT) / 2
    named = f'<text class="quiet" x="{middle}" y="{bottom + 36}" text-anchor="middle">'
    return [*drawn, f"{named}{escape(across)}</text>"]


def _curve(curve: Curve, x: _Scale, y: _Scale) -> str:
    line = " ".join(f"{x.at(one):.1f},{y.at(rate):.1f}" for one, rate in curve.line)
    guess = " guess" if curve.guess else ""
    marks = "".join(
        f'<circle class="mark" cx="{x.at(one):.1f}" cy="{y.at(rate):.1f}" r="4.5"/>'
        for one, rate in curve.points
    )
    return (
        f'<g class="c{curve.colour % 5}"><polyline class="line{guess}" points="{line}"/>{marks}</g>'
    )


def _labels(drawn: Sequence[Curve], y: _Scale) -> list[str]:
    """Names beside the ends of the lines, one below the other where the ends are close."""
    ends = sorted((y.at(curve.line[-1][1]), number) for number, curve in enumerate(drawn))
    parts, above = [], 0.0
    for at, number in ends:
        above = max(at, above + 17)
        left = _WIDE - _RIGHT + 8
        parts.append(
            f'<g class="c{drawn[number].colour % 5}"><rect class="mark" x="{left}"'
            f' y="{above - 3:.1f}" width="10" height="4"/></g>'
            f'<text x="{left + 16}" y="{above + 4:.1f}">{escape(drawn[number].label)}</text>'
        )
    return parts


def _said(curve: Curve) -> str:
    what, points = ("measured", curve.points) if curve.points else ("model", curve.line)
    return f"{curve.label}, {what}: " + ", ".join(f"{rate:,.0f} at {x:g}" for x, rate in points)


def _below(value: float) -> float:
    return float(2 ** math.floor(math.log2(value / 1000)) * 1000)


def _above(value: float) -> float:
    return float(2 ** math.ceil(math.log2(value / 1000)) * 1000)


def _doublings(least: float, most: float) -> list[float]:
    steps = round(math.log2(most / least))
    return [least * 2**step for step in range(steps + 1)]
