"""Formatting of expressions as SQL text that parses back to the same tree.

Parentheses are printed only where the tree has a nesting that precedence alone would not give. LIKE gets an ESCAPE only
if a literal % or _ is in the pattern; without ESCAPE a backslash is an ordinary character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from octopia.content.expressions import And, Constant, Expression, Not, Or, check_size
from octopia.content.literals import format_name, format_string, format_value, show_value
from octopia.content.patterns import ESCAPE, Piece, Wildcard, read_pattern, write_pattern
from octopia.content.predicates import Operator, Predicate, bounds, elements, scalar
from octopia.content.values import Value

_Writer: TypeAlias = Callable[[Value], str]


def format_sql(expression: Expression) -> str:
    """Return an expression as SQL text; raise ``InvalidFilter`` for infinities, which have no literal."""
    check_size(expression)
    return _format(expression, format_value)


def shorten(text: str, length: int) -> str:
    """Return a text of at most ``length`` characters, with dots in place of its end."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def show_expression(expression: Expression) -> str:
    """Return an expression for people to read; unlike ``format_sql`` it refuses no value."""
    return _format(expression, show_value)


def _format(expression: Expression, write: _Writer) -> str:
    match expression:
        case Predicate():
            return _format_predicate(expression, write)
        case Constant(value):
            return write(value)
        case And(operands):
            return " AND ".join(_nested(each, (And, Or), write) for each in operands)
        case Or(operands):
            return " OR ".join(_nested(each, (Or,), write) for each in operands)
        case Not(Predicate(operator=Operator.BETWEEN) as predicate):
            return _format_between(predicate, "NOT BETWEEN", write)
        case Not(operand):
            return f"NOT {_nested(operand, (And, Or), write)}"
        case _:
            assert_never(expression)


def _nested(expression: Expression, looser: tuple[type[And] | type[Or], ...], write: _Writer) -> str:
    """Return an operand, in parentheses if its operator binds less tightly than the one around it."""
    text = _format(expression, write)
    return f"({text})" if isinstance(expression, looser) else text


def _format_predicate(predicate: Predicate, write: _Writer) -> str:
    name = format_name(predicate.attribute)
    match predicate.operator:
        case Operator.EXISTS:
            return f"{name} IS NOT NULL"
        case Operator.ABSENT:
            return f"{name} IS NULL"
        case Operator.BETWEEN:
            return _format_between(predicate, "BETWEEN", write)
        case Operator.IN | Operator.NOT_IN:
            listed = ", ".join(map(write, elements(predicate)))
            return f"{name} {predicate.operator.value.upper()} ({listed})"
        case Operator.EQ | Operator.NE | Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return f"{name} {predicate.operator.value} {write(scalar(predicate))}"
    keyword = "NOT LIKE" if predicate.operator.name.startswith("NOT_") else "LIKE"
    return f"{name} {keyword} {_format_pattern(_pieces(predicate))}"


def _format_between(predicate: Predicate, keyword: str, write: _Writer) -> str:
    low, high = bounds(predicate)
    return f"{format_name(predicate.attribute)} {keyword} {write(low)} AND {write(high)}"


def _format_pattern(pieces: tuple[Piece, ...]) -> str:
    if "%" in pieces or "_" in pieces:
        return f"{format_string(write_pattern(pieces))} ESCAPE '{ESCAPE}'"
    return format_string(write_pattern(pieces, escape=""))


def _pieces(predicate: Predicate) -> tuple[Piece, ...]:
    """Return the LIKE pattern that is equivalent to the predicate."""
    text = str(predicate.operand)
    match predicate.operator:
        case Operator.PREFIX | Operator.NOT_PREFIX:
            return (*text, Wildcard.ANY)
        case Operator.SUFFIX | Operator.NOT_SUFFIX:
            return (Wildcard.ANY, *text)
        case Operator.CONTAINS | Operator.NOT_CONTAINS:
            return (Wildcard.ANY, *text, Wildcard.ANY)
        case _:
            return read_pattern(text, ESCAPE)
