"""Reference points, their hull, the region of acceptance and the runs, drawn as one SVG file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from compliance.rcp_check import Verdict
from compliance.rcp_points import Point

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 40, 50


def draw(verdicts: list[Verdict]) -> str:
    """One panel a verdict that has points, below one another; text of an SVG file."""
    shown = [one for one in verdicts if one.points]
    height = HEIGHT * max(len(shown), 1)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">']
    lines.append(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    if not shown:
        lines.append(f'<text x="20" y="40">No reference points for {escape(str(verdicts[0].benchmark))}.</text>')
    for number, one in enumerate(shown):
        lines.append(f'<g transform="translate(0,{number * HEIGHT})">')
        lines += _Panel(one).lines()
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


class _Panel:
    """Batch size to the right (logarithmic), epochs or samples up."""

    def __init__(self, one: Verdict) -> None:
        self.one = one
        self.size = one.batch_size if isinstance(one.batch_size, int | float) and one.batch_size > 0 else None
        self.values = [value for value in one.values if value < 1e9]
        sizes = [point.batch_size for point in one.points] + ([self.size] if self.size else [])
        heights = [v for point in one.points for v in point.values] + self.values
        heights += [point.least for point in one.points]
        self.low_x, self.high_x = math.log2(min(sizes)) - 0.5, math.log2(max(sizes)) + 0.5
        margin = (max(heights) - min(heights)) * 0.08 or 1.0
        self.low_y, self.high_y = min(heights) - margin, max(heights) + margin

    def x(self, size: float) -> float:
        share = (math.log2(size) - self.low_x) / (self.high_x - self.low_x)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.low_y) / (self.high_y - self.low_y)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def lines(self) -> Iterator[str]:
        one = self.one
        title = f"{one.benchmark}: {one.unit} at the target, by batch size; {one.path}"
        yield f'<text x="{LEFT}" y="22" font-size="13">{escape(title)}</text>'
        yield from self._axes()
        yield self._region(one.hull)
        hull = " ".join(f"{self.x(p.batch_size)},{self.y(p.mean)}" for p in one.hull)
        yield f'<polyline points="{hull}" fill="none" stroke="#1f77b4" stroke-width="2"/>'
        for point in one.points:
            for value in point.values:
                yield self._dot(point.batch_size, value, 2, "#9ecae1", point.name)
            yield self._dot(point.batch_size, point.mean, 5, "#1f77b4", f"{point.name}: mean {point.mean:g}")
        if self.size:
            for value in self.values:
                yield self._dot(self.size, value, 3, "#d62728", f"a run: {value:g}")
            mean = one.corrected.mean
            if mean is not None and math.isfinite(mean) and mean < 1e9:
                yield self._dot(self.size, mean, 6, "#d62728", f"the submission's mean: {mean:g}")

    def _dot(self, size: float, value: float, radius: int, color: str, title: str) -> str:
        place = f'cx="{self.x(size)}" cy="{self.y(value)}" r="{radius}" fill="{color}"'
        return f"<circle {place}><title>{escape(title)}</title></circle>"

    def _region(self, hull: list[Point]) -> str:
        """Everything above the smallest acceptable means."""
        edge = [f"{self.x(p.batch_size)},{self.y(p.least)}" for p in hull]
        corners = [f"{self.x(hull[-1].batch_size)},{TOP}", f"{self.x(hull[0].batch_size)},{TOP}"] if hull else []
        return f'<polygon points="{" ".join(edge + corners)}" fill="#1f77b4" fill-opacity="0.08"/>'

    def _axes(self) -> Iterator[str]:
        style = 'stroke="#999"'
        yield f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}" {style}/>'
        yield f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{HEIGHT - BOTTOM}" {style}/>'
        last = -math.inf
        for size in sorted({point.batch_size for point in self.one.points}):
            if self.x(size) - last >= 45:
                last = self.x(size)
                yield self._label(last, HEIGHT - BOTTOM + 18, f"{size:g}", "middle")
        for step in range(5):
            value = self.low_y + (self.high_y - self.low_y) * step / 4
            yield self._label(LEFT - 6, self.y(value) + 4, f"{value:.4g}", "end")

    @staticmethod
    def _label(x: float, y: float, text: str, anchor: str) -> str:
        return f'<text x="{x}" y="{y}" font-size="11" text-anchor="{anchor}">{escape(text)}</text>'
