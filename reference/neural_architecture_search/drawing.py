"""A cell as a drawing, for a person to look at."""

from __future__ import annotations

from pathlib import Path

from reference.common.errors import SetupError

from .cell import FUNCTIONS, Cell

STEP_X, STEP_Y, RADIUS = 130, 90, 28
COLOURS = {"tanh": "#bcd9f5", "relu": "#f5cdbc", "sigmoid": "#d3efc3", "identity": "#e6e6e6"}


def write(path: Path, cell: Cell) -> None:
    """Write `cell` as SVG. Makes the folder.

    Raises SetupError when the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg(cell), encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot write the samples {path}: {error.strerror or error}") from None


def svg(cell: Cell) -> str:
    """The drawing: "x, h" feeds node 0, the nodes that nobody reads feed "mean", the new state."""
    places = _places(cell)
    right = max(x for x, _ in places) + STEP_X
    start, end = (STEP_X * 0.5, places[0][1]), (right, places[0][1])
    lines = [_arrow(start, places[0])]
    lines += [_arrow(places[read], places[node]) for node, read in enumerate(cell.reads, start=1)]
    lines += [_arrow(places[node], end) for node in cell.ends]
    shapes = [_circle(start, "x, h", "", "#ffffff"), _circle(end, "mean", "", "#ffffff")]
    for node, function in enumerate(cell.functions):
        name = FUNCTIONS[function]
        shapes.append(_circle(places[node], str(node), name, COLOURS[name]))
    width, height = right + STEP_X * 0.5, max(y for _, y in places) + STEP_Y * 0.7
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' height="{height:g}" font-family="sans-serif" font-size="13" text-anchor="middle">'
    )
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<title>{cell}</title>", ground, *lines, *shapes, "</svg>\n"])


def _places(cell: Cell) -> list[tuple[float, float]]:
    """Centres of the nodes, a tree from left to right: the ends stand in the last column, each in a row of its own,
    every other node in the column of its depth, halfway between the first and the last node that read it."""
    depths = [0]
    for read in cell.reads:
        depths.append(depths[read] + 1)
    rows: dict[int, float] = {}
    order = iter(range(len(cell.functions)))

    def settle(node: int) -> None:
        readers = [reader for reader, read in enumerate(cell.reads, start=1) if read == node]
        for reader in readers:
            settle(reader)
        rows[node] = (rows[readers[0]] + rows[readers[-1]]) / 2 if readers else next(order)

    settle(0)
    columns = [max(depths) if node in cell.ends else depth for node, depth in enumerate(depths)]
    return [(STEP_X * (column + 1.5), STEP_Y * (rows[node] + 0.7)) for node, column in enumerate(columns)]


def _arrow(start: tuple[float, float], stop: tuple[float, float]) -> str:
    """A line between two circles' edges with a small triangle at its end."""
    (x1, y1), (x2, y2) = start, stop
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    x1, y1, x2, y2 = x1 + dx * RADIUS, y1 + dy * RADIUS, x2 - dx * RADIUS, y2 - dy * RADIUS
    left = f"{x2 - 9 * dx - 4 * dy:.1f},{y2 - 9 * dy + 4 * dx:.1f}"
    right = f"{x2 - 9 * dx + 4 * dy:.1f},{y2 - 9 * dy - 4 * dx:.1f}"
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#444"/>'
        f'<polygon points="{x2:.1f},{y2:.1f} {left} {right}" fill="#444"/>'
    )


def _circle(at: tuple[float, float], name: str, below: str, colour: str) -> str:
    x, y = at
    text = f'<text x="{x:.1f}" y="{y + (-2 if below else 4):.1f}">{name}</text>'
    if below:
        text += f'<text x="{x:.1f}" y="{y + 12:.1f}" font-size="11">{below}</text>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{colour}" stroke="#444"/>{text}'
