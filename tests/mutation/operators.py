"""The changes of mutants: for a node of a syntax tree, the nodes that may replace it.

These stay unchanged: texts for people (f-strings, the arguments of exceptions and of ``refuse``), annotations, decorators (they
cache), ``zip``'s ``strict`` (an assertion), and code that affects only the run time (``only_costs_time``).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

Change = tuple[str, ast.AST]
"""The operator's name, and the new node."""

COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""Replacements: for an order its neighbour and its opposite, for other comparisons the opposite."""

ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}

TYPES = {
    "float64": "float32", "FLOAT64": "FLOAT32", "float32": "float64", "FLOAT32": "FLOAT64", "int64": "int32",
    "int32": "int64", "uint8": "int8", "max": "min", "min": "max", "maximum": "minimum", "all": "any", "any": "all",
    "isnan": "isfinite", "isfinite": "isnan", "logical_or": "logical_and", "multiply": "divide", "divide": "multiply",
    "shape": "size", "ndim": "size",
}  # fmt: skip
"""Pairs of names that are easily confused."""

SYMMETRIC = {
    "max", "min", "maximum", "minimum", "multiply", "add", "logical_or", "logical_and", "may_share_memory", "cast", "gcd",
    "and_", "or_", "xor", "fadd", "fmul",
}  # fmt: skip
"""Functions and LLVM instructions whose arguments may be swapped. ``typing.cast`` returns its argument."""


TEXTS = {"refuse", "Discrepancy", "Key", "Attribution"}
"""Functions whose arguments are texts, so that their order does not matter to a program."""


COSTS = {
    "AHEAD", "BLOCK", "FEW", "LARGE_PIECE", "LEAST_PIECE", "LOOK_UP_FROM", "PIECE", "SHARED", "THREADS_FROM", "WORTH",
}  # fmt: skip
"""Constants that are sizes of work: another value gives the same bits in another time."""

COSTING = {"fetch_ahead", "leaves_caches"}
"""Functions that affect only the run time."""


def only_costs_time(node: ast.AST) -> bool:
    """True for a size of work, a comparison with one, and a function or call of ``COSTING``."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id in COSTS for target in node.targets)
    if isinstance(node, ast.Compare):
        return any(isinstance(side, ast.Name) and side.id in COSTS for side in (node.left, *node.comparators))
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and called(node.value) in COSTING
    return isinstance(node, ast.FunctionDef) and node.name in COSTING


def changes(node: ast.AST, parent: ast.AST, bound: Counter[str]) -> Iterator[Change]:
    """Yield every change of this node itself, not of its children.

    Args:
        bound: Number of bindings of each name in the function.
    """
    if isinstance(node, ast.stmt):
        yield from _statement(node, parent, bound)
    elif isinstance(node, ast.Compare):
        yield from _comparison(node)
    elif isinstance(node, ast.BoolOp):
        yield from _boolean(node)
    elif isinstance(node, ast.BinOp):
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp):
        yield ("condition" if isinstance(node.op, ast.Not) else "arithmetic"), node.operand
    elif isinstance(node, ast.Constant):
        yield from _constant(node, parent)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Slice):
        yield from _slice(node)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from _name(node)
    if isinstance(node, ast.expr) and _is_condition(node, parent):
        yield "condition", ast.UnaryOp(ast.Not(), node)


def _statement(node: ast.stmt, parent: ast.AST, bound: Counter[str]) -> Iterator[Change]:
    if isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return", ast.Return(ast.Constant(None))
        if not isinstance(parent, ast.FunctionDef):
            yield "statement", ast.Pass()
    elif isinstance(node, ast.Expr):
        if not isinstance(node.value, ast.Constant):
            yield "statement", ast.Pass()
    elif isinstance(node, ast.Raise | ast.AugAssign):
        yield "statement", ast.Pass()
    elif isinstance(node, ast.Assign):
        # If a name is bound only here, its absence is no interesting mutation.
        if all(bound[name] > 1 for name in names_bound(node)):
            yield "statement", ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "loop", ast.Break()
        yield "statement", ast.Pass()
    elif isinstance(node, ast.Break):
        yield "loop", ast.Continue()
    elif isinstance(node, ast.For):
        yield "loop", ast.For(node.target, ast.Tuple([], ast.Load()), node.body, node.orelse)


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for place, old in enumerate(node.ops):
        for new in COMPARISONS[type(old)]:
            yield "comparison", ast.Compare(node.left, _with(node.ops, place, new()), node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    yield "boolean", ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield "operand", ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]


def _constant(node: ast.Constant, parent: ast.AST) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, str) and isinstance(parent, ast.Compare):
        yield "constant", ast.Constant(value + " ")


def _call(node: ast.Call) -> Iterator[Change]:
    name = called(node)
    if name not in SYMMETRIC and name not in TEXTS:
        for place in range(len(node.args) - 1):
            first, second = node.args[place : place + 2]
            if _is_value(first) and _is_value(second):
                swapped = _with(_with(node.args, place, second), place + 1, first)
                yield "arguments", ast.Call(node.func, swapped, node.keywords)
    for place, keyword in enumerate(node.keywords):
        if not is_assertion(node, keyword) and name not in TEXTS:
            yield "keyword", ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])


def _slice(node: ast.Slice) -> Iterator[Change]:
    if node.lower is not None:
        yield "slice", ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield "slice", ast.Slice(node.lower, None, node.step)
        yield "slice", ast.Slice(node.lower, ast.BinOp(node.upper, ast.Sub(), ast.Constant(1)), node.step)


def _name(node: ast.Name | ast.Attribute) -> Iterator[Change]:
    if isinstance(node, ast.Name) and node.id in TYPES:
        yield "name", ast.Name(TYPES[node.id], ast.Load())
    elif isinstance(node, ast.Attribute) and node.attr in TYPES:
        yield "name", ast.Attribute(node.value, TYPES[node.attr], ast.Load())


def _is_condition(node: ast.expr, parent: ast.AST) -> bool:
    """True if the node decides a branch and no other change of it is its negation."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return False
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    return isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert) and node is parent.test


def _is_value(node: ast.expr) -> bool:
    """True if an argument is a value from a variable, not a type, number or text."""
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not ast.unparse(node).startswith("np.")


def names_bound(node: ast.AST) -> Iterator[str]:
    """Yield each name that a function's body, a statement or a signature binds, once for each binding."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.arg):
            yield inner.arg


def called(node: ast.Call) -> str:
    """Return the name of the called function, without the object that it belongs to."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_assertion(node: ast.Call, keyword: ast.keyword) -> bool:
    """True if the keyword is ``zip``'s ``strict``."""
    return called(node) == "zip" and keyword.arg == "strict"


def _with(items: list, place: int, new: ast.AST) -> list:
    return [*items[:place], new, *items[place + 1 :]]
