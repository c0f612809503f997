# SPDX-License-Identifier: Apache-2.0
"""Draw bars as an SVG picture that is readable on light and on dark pages. It has no script and no font of its own."""

from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, BAR, GAP, LEFT, RIGHT, TOP = 760, 22, 10, 210, 160, 44
FONT = "font-family='system-ui, sans-serif' font-size='14'"
COLOURS = {"ours": "#2563a8", "other": "#9aa5b1"}


class Bar(NamedTuple):
    """`label` is what stands behind the bar: its figure as text."""

    name: str
    value: float
    label: str
    kind: str


def draw_bars(title, bars):
    """Return the picture: one bar a line, the longest across the width."""
    scale = (WIDTH - LEFT - RIGHT) / max(bar.value for bar in bars)
    height = TOP + len(bars) * (BAR + GAP) + GAP
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' viewBox='0 0 {WIDTH} {height}' {FONT}>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
        f"<text x='{GAP}' y='26' font-weight='600' fill='#1f2933'>{escape(title)}</text>",
    ]
    for number, bar in enumerate(bars):
        y = TOP + number * (BAR + GAP)
        width = bar.value * scale
        lines += [
            f"<text x='{LEFT - 8}' y='{y + 16}' text-anchor='end' fill='#1f2933'>{escape(bar.name)}</text>",
            f"<rect x='{LEFT}' y='{y}' width='{width:.1f}' height='{BAR}' rx='2' fill='{COLOURS[bar.kind]}'/>",
            f"<text x='{LEFT + width + 6:.1f}' y='{y + 16}' fill='#1f2933'>{escape(bar.label)}</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])
