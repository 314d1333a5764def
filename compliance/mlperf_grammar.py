"""The closed grammar of MLPerf's rule sheets.

The official checker hands the sheets' texts to `eval` and `exec`. Here a text is parsed, every node, name and
attribute of it is looked up in the lists below, and only what is listed is compiled: a comparison of a record's
value, arithmetic, a change of the sheet's own state `s`, a call of a listed function. Anything else raises
`SheetError` with the construct. The compiled code sees the listed functions and nothing else, and operations whose
result could be far larger than their operands are bounded.

What a text may name: `v` (the record's value and metadata), `ll` (the record itself), `s` (the sheet's state),
`math`, `is_integer`, `enqueue_config` and the listed built-in functions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import string
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

Test = Callable[[Any, dict[Any, Any]], Any]
Action = Callable[[Any, dict[Any, Any], Callable[[Any], None]], Any]

LONGEST_PRODUCT = 100_000_000
_STRING_NUMBERS = 6

_EXPRESSIONS = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Subscript, ast.Slice, ast.Attribute, ast.Call,
    ast.keyword, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict,
    ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
_OPERATORS = (
    ast.And, ast.Or, ast.Not, ast.USub, ast.UAdd, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.BitOr, ast.BitAnd, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn,
)  # fmt: skip
_STATEMENTS = (ast.Module, ast.Expr, ast.Assign, ast.AugAssign, ast.If, ast.Pass)
_MATH = frozenset(
    [
        "ceil",
        "floor",
        "trunc",
        "log",
        "log2",
        "log10",
        "sqrt",
        "exp",
        "pow",
        "fabs",
        "isclose",
        "isnan",
        "isinf",
        "isfinite",
        "gcd",
        "inf",
        "nan",
        "pi",
        "e",
    ]
)
_METHODS = frozenset(
    [
        "get",
        "keys",
        "values",
        "items",
        "update",
        "append",
        "extend",
        "index",
        "count",
        "lower",
        "upper",
        "strip",
        "startswith",
        "endswith",
        "split",
        "format",
        "is_integer",
    ]
)
_CHANGING = frozenset({"update", "append", "extend"})
_RECORD_FIELDS = {"timestamp": "time_ms", "key": "key"}
_RESERVED = frozenset({"v", "ll", "s", "math", "is_integer", "enqueue_config"})


class SheetError(Exception):
    """A rule sheet holds something that the grammar does not admit, or cannot be read at all."""


def _is_integer(value: Any) -> bool:
    """As the official checker has it: within 1e-5 of a whole number."""
    return bool(abs(round(value) - value) < 0.00001)


def _whole(record: Any) -> Any:
    """The record's `v` where a text uses it as a whole."""
    whole = getattr(record, "whole", None)
    return {"value": record.value, "metadata": record.metadata} if whole is None else whole


def _times(a: Any, b: Any) -> Any:
    """a * b, unless it would repeat text or a list to a size that no honest log needs."""
    for many, times in ((a, b), (b, a)):
        if isinstance(many, str | list | tuple) and isinstance(times, int) and len(many) * times > LONGEST_PRODUCT:
            raise MemoryError("a product of text or lists is too long")
    return a * b


def _modulo(a: Any, b: Any) -> Any:
    """a % b, unless `a` is text that would be formatted to a huge width."""
    if isinstance(a, str):
        digits = "".join(c if c.isdigit() else " " for c in a).split()
        if "*" in a or any(len(number) > _STRING_NUMBERS for number in digits):
            raise MemoryError("a formatted text is too long")
    return a % b


def _say_nothing(*_: Any) -> None:
    """`print` in a sheet: the checker's output is its own."""


_FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (len, type, abs, round, int, float, str, bool, list, tuple, set, dict, sorted, min, max, sum, any, all,
              isinstance)
}  # fmt: skip
GLOBALS: dict[str, Any] = {
    **_FUNCTIONS, "print": _say_nothing, "math": math, "is_integer": _is_integer, "_whole": _whole, "_times": _times,
    "_modulo": _modulo, "_float": float, "_Exception": Exception, "__builtins__": {},
}  # fmt: skip


class Admit(ast.NodeTransformer):
    """Refuses what is not listed, and points `v[...]` and `ll....` at the record `_e`."""

    def __init__(self, record: bool, action: bool) -> None:
        self.record, self.action = record, action
        self.local: set[str] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        allowed = (*_EXPRESSIONS, *_OPERATORS, *(_STATEMENTS if self.action else ()))
        if not isinstance(node, allowed):
            raise SheetError(f"{type(node).__name__} is not in the grammar")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value is not None and not isinstance(node.value, str | int | float):
            raise SheetError(f"a constant of type {type(node.value).__name__} is not in the grammar")
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = node.id
        if isinstance(node.ctx, ast.Store):
            if name in _RESERVED or name in _FUNCTIONS or name.startswith("_"):
                raise SheetError(f"an assignment to {name} is not in the grammar")
            self.local.add(name)
            return node
        if name == "v" and self.record:
            return ast.Call(ast.Name("_whole", ast.Load()), [ast.Name("_e", ast.Load())], [])
        known = name in GLOBALS or name == "s" or (name == "enqueue_config" and self.action) or name in self.local
        if name.startswith("_") or not known:
            raise SheetError(f"the name {name} is not in the grammar")
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        base = node.value
        if isinstance(node.ctx, ast.Store):
            if not self._own(base):
                raise SheetError("only the sheet's state s may be changed")
        elif self.record and isinstance(base, ast.Name) and base.id == "v" and isinstance(node.slice, ast.Constant):
            member = node.slice.value
            if member in ("value", "metadata"):
                return ast.Attribute(ast.Name("_e", ast.Load()), member, ast.Load())
        return self.generic_visit(node)

    def _own(self, node: ast.expr) -> bool:
        """Whether `node` is the sheet's state or a part of it, or a local name."""
        while isinstance(node, ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and (node.id == "s" or node.id in self.local)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        base = node.value
        if isinstance(node.ctx, ast.Load) and isinstance(base, ast.Name):
            if base.id == "ll" and self.record and node.attr in _RECORD_FIELDS:
                field = ast.Attribute(ast.Name("_e", ast.Load()), _RECORD_FIELDS[node.attr], ast.Load())
                return ast.Call(ast.Name("_float", ast.Load()), [field], []) if field.attr == "time_ms" else field
            if base.id == "math" and node.attr in _MATH:
                return node
        raise SheetError(f"the attribute .{node.attr} is not in the grammar")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if any(keyword.arg is None for keyword in node.keywords):
            raise SheetError("a call with ** is not in the grammar")
        function = node.func
        if isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id in ("math", "ll")
        ):
            if function.attr not in _METHODS:
                raise SheetError(f"the method .{function.attr}() is not in the grammar")
            if function.attr == "format":
                _admit_format(function.value)
            if function.attr in _CHANGING and not self._own(function.value):
                raise SheetError("only the sheet's state s may be changed")
            function.value = self.visit(function.value)
        elif isinstance(function, ast.Name | ast.Attribute):
            if isinstance(function, ast.Name) and function.id == "type" and len(node.args) != 1:
                raise SheetError("type() with several arguments is not in the grammar")
            if isinstance(function, ast.Name) and (function.id in self.local or function.id in ("s", "v", "math")):
                raise SheetError(f"a call of {function.id} is not in the grammar")
            node.func = self.visit(function)
        else:
            raise SheetError(f"a call of a {type(function).__name__} is not in the grammar")
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        whole = self.record and isinstance(node.comparators[-1], ast.Name) and node.comparators[-1].id == "v"
        if (
            whole
            and isinstance(node.ops[0], ast.In)
            and isinstance(node.left, ast.Constant)
            and node.left.value == "value"
        ):
            return ast.Constant(True)  # a record without a value is never shown to a rule
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow):
            power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
            if not (isinstance(power, ast.Constant) and isinstance(power.value, int | float) and power.value <= 16):
                raise SheetError("a power whose exponent is not a small number is not in the grammar")
        bounded = {ast.Mult: "_times", ast.Mod: "_modulo"}.get(type(node.op))
        sides = (node.left, node.right)
        numbers = [side for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, int | float)]
        harmless = len(numbers) == 2 or any(isinstance(number.value, float) for number in numbers)
        self.generic_visit(node)
        if bounded and not harmless:
            return ast.Call(ast.Name(bounded, ast.Load()), [node.left, node.right], [])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.op, ast.Add | ast.Sub | ast.Div):
            raise SheetError(f"{type(node.op).__name__} in an assignment is not in the grammar")
        return self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        if node.format_spec is not None:
            raise SheetError("a format width is not in the grammar")
        return self.generic_visit(node)


def _admit_format(text: ast.expr) -> None:
    """`.format` only of a text that stands in the sheet, with plain fields: no attribute, no index, no width."""
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        raise SheetError(".format() of anything but a text of the sheet is not in the grammar")
    for _, field, width, _ in string.Formatter().parse(text.value):
        if field is not None and (not (field == "" or field.isalnum()) or width):
            raise SheetError(f"the format field {{{field}}} is not in the grammar")


def _broken(*_: Any) -> Any:
    raise SyntaxError("the sheet's text is not valid Python")


@functools.cache
def test(texts: tuple[str, ...], record: bool = True) -> Test:
    """One function `(record, s) -> value` that is true where all `texts` are (in their order, stopping at the first).

    A text that is not valid Python gives a function that raises whenever it is called, as it would officially.
    Raises `SheetError` for a construct outside the grammar. `record=False`: a text without a record (END).
    """
    try:
        trees = [ast.parse(text.strip(), mode="eval").body for text in texts]
    except (SyntaxError, ValueError):
        return _broken
    admit = Admit(record, action=False)
    bodies: list[ast.expr] = [admit.visit(tree) for tree in trees]
    body = bodies[0] if len(bodies) == 1 else ast.BoolOp(ast.And(), bodies)
    compiled: Test = function("lambda _e, s: None", body)
    return compiled


@functools.cache
def action(text: str, record: bool = True) -> Action:
    """One function `(record, s, enqueue_config)` that carries out the statements of `text`; else as `test`."""
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return _broken
    admitted: ast.Module = Admit(record, action=True).visit(tree)
    compiled: Action = function("def action(_e, s, enqueue_config): pass", admitted.body or [ast.Pass()])
    return compiled


def function(signature: str, body: Any) -> Any:
    tree = ast.parse(signature)
    head = tree.body[0]
    if isinstance(head, ast.Expr):
        head.value.body = body  # type: ignore[attr-defined]
        code: CodeType = compile(ast.fix_missing_locations(ast.Expression(head.value)), "<rule sheet>", "eval")
        return eval(code, GLOBALS)  # admitted above
    head.body = body  # type: ignore[attr-defined]
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), "<rule sheet>", "exec"), GLOBALS, namespace)  # admitted above
    return namespace["action"]


@dataclass(frozen=True)
class Merge:
    """Stable diffusion's BEGIN block: its two metrics, logged apart, merged into one record per evaluation.

    Of every record `source` whose metadata has `metric`, the values of one evaluation (equal metadata `progress`)
    become one record named `target`, appended to the log.
    """

    source: str
    metric: str
    progress: str
    target: str


_MERGE_SHAPE = "4806cc6c9813e6d0"
_MERGE_TEXTS = 7


def begin(text: str) -> Action | Merge:
    """The block that starts a sheet: statements of the grammar, or the merging of two metrics, known by its shape."""
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return _broken
    if not isinstance(tree.body[0] if tree.body else None, ast.ImportFrom):
        return action(text, record=False)
    shape, texts = _shape(tree)
    if shape != _MERGE_SHAPE or len(texts) != _MERGE_TEXTS or (texts[2], texts[6]) != ("metadata", "value"):
        raise SheetError(f"an unknown BEGIN block with an import (shape {shape})")
    return Merge(source=texts[0], metric=texts[1], progress=texts[3], target=texts[4])


def _shape(tree: ast.AST) -> tuple[str, list[str]]:
    """A fingerprint of a block's structure, blind to its local names and its texts; and those texts in order."""
    local = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names: list[str] = []
    texts: list[str] = []

    def number(item: str, seen: list[str]) -> str:
        if item not in seen:
            seen.append(item)
        return str(seen.index(item))

    def describe(node: Any) -> str:
        if isinstance(node, list):
            return "[" + ",".join(map(describe, node)) + "]"
        if isinstance(node, ast.Name):
            return "local" + number(node.id, names) if node.id in local else node.id
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return "text" + number(node.value, texts)
        if isinstance(node, ast.AST):
            parts = [
                describe(value) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment")
            ]
            return f"{type(node).__name__}({','.join(parts)})"
        return repr(node)

    return hashlib.sha256(describe(tree).encode()).hexdigest()[:16], texts
