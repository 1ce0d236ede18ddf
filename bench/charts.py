"""Charts as SVG: rows of bars or points, readable on light and dark, for eyes and screen readers.

The ground is painted, so that a chart is readable on a page whose scheme is not the system's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDE = 820
_LABEL = 190
_VALUE = 170
_ROW = 26
_TOP = 54
_PLOT = _WIDE - _LABEL - _VALUE
_STYLE = """
.ground { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px system-ui, sans-serif }
.title { font-size: 15px; font-weight: 600 } .quiet { fill: #59636e; font-size: 12px }
.bar { fill: #8c959f } .ours { fill: #0969da } .range { stroke: #1f2328; stroke-width: 1.5 }
.grid { stroke: #d0d7de; stroke-width: 1 } .ours-label { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .quiet { fill: #9198a1 }
  .bar { fill: #656c76 } .ours { fill: #4493f8 }
  .range { stroke: #f0f6fc } .grid { stroke: #3d444d }
}
""".strip()


@dataclass(frozen=True)
class Row:
    """One line of a chart: ``text`` stands behind the bar, or alone when there is no ``value``.

    ``low`` and ``high`` are the ends of the range.
    """

    label: str
    text: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    ours: bool = False


def bars(title: str, about: str, rows: Sequence[Row]) -> str:
    """Bars from zero, with the range of the rounds as a thin line."""
    most = max((row.high or row.value or 0.0 for row in rows), default=0.0) or 1.0

    def at(value: float) -> float:
        return _LABEL + _PLOT * min(1.0, value / most)

    drawn = []
    for place, row in enumerate(rows):
        if row.value is not None:
            length = max(1.0, at(row.value) - _LABEL)
            y = _TOP + place * _ROW
            drawn.append(
                f'<rect class="{_class(row)}" x="{_LABEL}" y="{y + 5}" width="{length:.1f}"'
                f' height="{_ROW - 10}" rx="2"/>{_range(row, at, y)}'
            )
    return _page(title, about, rows, drawn)


def points(title: str, about: str, rows: Sequence[Row]) -> str:
    """Points on a scale of powers of ten, a line from ``low`` to ``high``."""
    figures = [one for row in rows for one in (row.value, row.low, row.high) if one]
    first = math.floor(math.log10(min(figures, default=1.0)))
    last = max(first + 1, math.ceil(math.log10(max(figures, default=1.0))))

    def at(value: float) -> float:
        share = (math.log10(value) - first) / (last - first)
        return _LABEL + _PLOT * min(1.0, max(0.0, share))

    bottom = _TOP + len(rows) * _ROW
    drawn = []
    for power in range(first, last + 1):
        x = at(10.0**power)
        drawn.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
            f'<text class="quiet" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{10.0**power:,g}</text>"
        )
    for place, row in enumerate(rows):
        if row.value:
            y = _TOP + place * _ROW
            drawn.append(
                f'{_range(row, at, y)}<circle class="{_class(row)}" cx="{at(row.value):.1f}"'
                f' cy="{y + _ROW / 2}" r="5"/>'
            )
    return _page(title, about, rows, drawn, foot=20)


def _class(row: Row) -> str:
    return "ours" if row.ours else "bar"


def _range(row: Row, at: object, y: float) -> str:
    if not callable(at) or not row.low or row.high <= row.low:
        return ""
    middle = y + _ROW / 2
    return (
        f'<line class="range" x1="{at(row.low):.1f}" x2="{at(row.high):.1f}"'
        f' y1="{middle}" y2="{middle}"/>'
    )


def _page(title: str, about: str, rows: Sequence[Row], drawn: Sequence[str], foot: int = 0) -> str:
    high = _TOP + len(rows) * _ROW + 14 + foot
    texts = []
    for place, row in enumerate(rows):
        y = _TOP + place * _ROW + _ROW / 2 + 4.5
        weight = ' class="ours-label"' if row.ours else ""
        texts.append(
            f'<text{weight} x="{_LABEL - 10}" y="{y}" text-anchor="end">{escape(row.label)}</text>'
            f'<text{weight} x="{_LABEL + _PLOT + 10}" y="{y}">{escape(row.text)}</text>'
        )
    said = "; ".join(f"{row.label}: {row.text}" for row in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" width="{_WIDE}"'
        f' height="{high}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(about)} {escape(said)}.</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{_WIDE - 1}" height="{high - 1}" rx="6"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        f'<text class="quiet" x="16" y="42">{escape(about)}</text>',
        *drawn,
        *texts,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
