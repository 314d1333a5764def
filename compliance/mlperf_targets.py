"""What can be read off the rule sheets and the package's tables: quality targets and numbers of runs."""

from __future__ import annotations

import ast
import functools
import math
from pathlib import Path
from typing import Any


def constants(records: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers with which the sheet's BEGIN block fills its state."""
    found: dict[str, float] = {}
    for record in records:
        body = record.get("BEGIN")
        text = body.get("CODE") if isinstance(body, dict) else None
        try:
            tree = ast.parse(text.strip() if isinstance(text, str) else "")
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                number = _number(value)
                if isinstance(key, ast.Constant) and number is not None:
                    found[str(key.value)] = number
    return found


def _number(node: ast.AST | None) -> float | None:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return None if not constant or isinstance(node.value, bool) else float(node.value)  # type: ignore[union-attr]


def target(text: str, constants: dict[str, float]) -> tuple[float, str] | None:
    """The target in a test such as "at most 0.925 and above 0": of two bounds the one that is no natural limit."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    bounds: dict[str, tuple[float, bool]] = {}
    for part in parts:
        if not (isinstance(part, ast.Compare) and len(part.ops) == 1 and ast.unparse(part.left) == "v['value']"):
            return None
        right, operator = part.comparators[0], part.ops[0]
        number = _number(right)
        if number is None and isinstance(right, ast.Subscript) and isinstance(right.slice, ast.Constant):
            number = constants.get(str(right.slice.value)) if ast.unparse(right.value) == "s" else None
        side = "higher" if isinstance(operator, ast.Gt | ast.GtE) else "lower"
        if number is None or side in bounds or not isinstance(operator, ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            return None
        bounds[side] = (number, isinstance(operator, ast.GtE | ast.LtE))
    if bounds.get("lower", (math.inf, False))[0] == 1.0:
        del bounds["lower"]
    if bounds.get("higher", (-math.inf, False))[0] == 0.0:
        del bounds["higher"]
    if len(bounds) == 2:
        bounds = {side: bound for side, bound in bounds.items() if bound[1]}
    if len(bounds) != 1:
        return None
    side, (number, _) = next(iter(bounds.items()))
    return number, side


@functools.cache
def run_counts(package: Path) -> dict[str, dict[str, int]]:
    """The table {usage: {benchmark: runs}} in the package's benchmark_meta.py, read without importing it."""
    try:
        tree = ast.parse((package / "benchmark_meta.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        try:
            table = ast.literal_eval(node.value)
        except ValueError:
            continue
        rows = list(table.values()) if isinstance(table, dict) else []
        if rows and all(isinstance(row, dict) and all(isinstance(n, int) for n in row.values()) for row in rows):
            return dict(table)
    return {}
