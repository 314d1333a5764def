"""What a rule sheet asks of each record of a key, compiled into functions over many records.

The grammar is `mlperf_grammar`'s, and so is what it means; this saves one or two calls a record.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from compliance.mlperf_grammar import GLOBALS, Admit, function

Loop = Callable[[Iterator[Any], dict[Any, Any]], bool]


@functools.cache
def names(texts: tuple[str, ...]) -> frozenset[str]:
    """The names that `texts` use; none of those that are not valid Python."""
    found: set[str] = set()
    for text in texts:
        with contextlib.suppress(SyntaxError, ValueError):
            found.update(node.id for node in ast.walk(ast.parse(text.strip())) if isinstance(node, ast.Name))
    return frozenset(found)


@functools.cache
def bulk_test(texts: tuple[str, ...]) -> Callable[[list[Any]], bool] | None:
    """One function of records that is true where all `texts` are for each.

    None where a text names the state `s` or is not valid Python. Raises as `test`.
    """
    if "s" in names(texts):
        return None
    try:
        trees = [ast.parse(text.strip(), mode="eval").body for text in texts]
    except (SyntaxError, ValueError):
        return None
    admit = Admit(record=True, action=False)
    bodies: list[ast.expr] = [admit.visit(tree) for tree in trees]
    each = bodies[0] if len(bodies) == 1 else ast.BoolOp(ast.And(), bodies)
    loop = ast.comprehension(ast.Name("_e", ast.Store()), ast.Name("_es", ast.Load()), [], 0)
    body = ast.Call(ast.Name("all", ast.Load()), [ast.ListComp(each, [loop])], [])
    compiled: Callable[[list[Any]], bool] = function("lambda _es: None", body)
    return compiled


@functools.cache
def bulk_action(texts: tuple[str, ...], text: str) -> Loop | None:
    """One function `(records, s) -> bool` that tests each record and carries out `text` on it, one after the other.

    It ends with True at the first record of which a test of `texts` is false or raises, before anything is carried out
    on it, else with False. What the statements raise it lets through. In each case the last record taken from the
    iterator is the one that it is about. None where the statements assign to names of their own (which must not last
    from record to record) or ask for another sheet, or where something is not valid Python. Raises as `test`.
    """
    try:
        trees = [ast.parse(each.strip(), mode="eval").body for each in texts]
        statements = ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return None
    admit = Admit(record=True, action=True)
    admitted: ast.Module = admit.visit(statements)
    if admit.local or "enqueue_config" in names((text,)):
        return None
    bodies: list[ast.expr] = [Admit(record=True, action=False).visit(tree) for tree in trees]
    frame = ast.parse(_LOOP)
    loop = frame.body[0].body[0]  # type: ignore[attr-defined]
    if bodies:
        loop.body[0].body[0].test.operand = bodies[0] if len(bodies) == 1 else ast.BoolOp(ast.And(), bodies)
    else:
        del loop.body[0]
    loop.body += admitted.body
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(frame), "<rule sheet>", "exec"), GLOBALS, namespace)  # admitted above
    compiled: Loop = namespace["loop"]
    return compiled


_LOOP = """
def loop(_es, s):
    for _e in _es:
        try:
            if not None:
                return True
        except _Exception:
            return True
    return False
"""
