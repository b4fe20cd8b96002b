"""`evaluation`: the value of an expression of Python's grammar, without running it as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from spectheory.core.errors import InputError

Evaluation = Callable[[Mapping[str, Any]], Any]
"""The value of an expression, from the values of its names."""
OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}


def evaluation(node: ast.AST, functions: Mapping[str, Callable[..., Any]]) -> Evaluation:
    """The function that computes the value of an expression, which may call `functions` and nothing else.

    Raises:
        InputError: the expression has a part of another kind.
    """

    def part(inner: ast.AST) -> Evaluation:
        return evaluation(inner, functions)

    match node:
        case ast.Constant(value=value):
            return lambda values: value
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Compare(left=left, ops=signs, comparators=rest):
            compared = [OPERATIONS[type(sign)] for sign in signs]
            sides = [part(side) for side in (left, *rest)]
            if len(compared) == 1:
                sign, one, other = compared[0], *sides
                return lambda values: sign(one(values), other(values))
            return lambda values: all(
                is_true(*pair) for is_true, pair in zip(compared, pairwise(side(values) for side in sides), strict=True)
            )
        case ast.BoolOp(op=op, values=terms):
            together, terms = (all if isinstance(op, ast.And) else any), [part(term) for term in terms]
            return lambda values: together(term(values) for term in terms)
        case ast.UnaryOp(op=op, operand=operand):
            applied, inner = OPERATIONS[type(op)], part(operand)
            return lambda values: applied(inner(values))
        case ast.BinOp(left=left, op=op, right=right):
            joined, one, other = OPERATIONS[type(op)], part(left), part(right)
            return lambda values: joined(one(values), other(values))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
            called, given = functions[name], [part(argument) for argument in arguments]
            return lambda values: called(*(argument(values) for argument in given))
        case ast.Subscript(value=sequence, slice=index):
            items, place = part(sequence), part(index)
            return lambda values: items(values)[place(values)]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            listed = [part(element) for element in elements]
            return lambda values: [element(values) for element in listed]
    raise InputError(f"a formula must not have {ast.unparse(node)}")
