"""Small changes of Python source that somebody could make by mistake."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATIONS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    line: int
    what: str  # "< becomes <="
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines. Types, texts and constants of the module stay as they are.

    So does `strict` of a zip, which only guards against mistakes elsewhere.

    >>> [mutant.what for mutant in mutants("def f(a):\\n    return a < 1 and not a")]
    ['a < 1 and (not a) becomes a < 1 or not a', 'a < 1 becomes a <= 1', '1 becomes 2', 'not a becomes a']
    """
    tree = ast.parse(source)
    inside = _inside_functions(tree)
    places = [(number, node) for number, node in enumerate(ast.walk(tree)) if id(node) in inside]
    for number, node in sorted(places, key=lambda place: (place[1].lineno, place[1].col_offset)):
        for other in _others(node):
            yield Mutant(node.lineno, f"{ast.unparse(node)} becomes {ast.unparse(other)}", _with(tree, number, other))


def _inside_functions(tree: ast.AST) -> set[int]:
    """The expressions that are computed when a function runs."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    bodies = [part for node in functions for part in (node.body if isinstance(node.body, list) else [node.body])]
    inside = [node for body in bodies for node in ast.walk(body)]
    types = [node.annotation for node in inside if isinstance(node, ast.AnnAssign)]
    types += [part for node in inside if isinstance(node, ast.FunctionDef) for part in _types(node)]
    left_out = {id(part) for type_ in types for part in ast.walk(type_)}
    left_out |= {id(node.value) for body in bodies for node in ast.walk(body) if _is_strict(node)}
    return {id(node) for node in inside if isinstance(node, ast.expr)} - left_out


def _is_strict(node: ast.AST) -> TypeGuard[ast.keyword]:
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _types(function: ast.FunctionDef) -> list[ast.expr]:
    named = [*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs]
    return [part for part in (function.returns, *(argument.annotation for argument in named)) if part is not None]


def _others(node: ast.AST) -> Iterator[ast.expr]:
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other.ops = [COMPARISONS[type(operator)]()]
            yield other
        case ast.BinOp(op=operator) if type(operator) in OPERATIONS:
            other.op = OPERATIONS[type(operator)]()
            yield other
        case ast.BoolOp(op=operator):
            other.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield other
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield other.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            other.func = ast.Name(NAMES[name])
            yield other
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            other.func.attr = NAMES[name]
            yield other
        case ast.IfExp(test=test):
            other.test = ast.UnaryOp(ast.Not(), test)
            yield other


def _with(tree: ast.AST, number: int, other: ast.expr) -> str:
    """The source with another expression in the place of the one with that number."""
    changed = copy.deepcopy(tree)
    target = next(node for place, node in enumerate(ast.walk(changed)) if place == number)
    for parent in ast.walk(changed):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, other)
            elif isinstance(value, list) and any(part is target for part in value):
                value[next(place for place, part in enumerate(value) if part is target)] = other
    return ast.unparse(ast.fix_missing_locations(changed))
