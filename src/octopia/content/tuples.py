"""The tuple form of filters, as PADRES writes them: ``[class,eq,'STOCK'],[price,>,100]``.

A list of tuples is a conjunction. It has no OR, NOT, IN, BETWEEN, LIKE or IS NULL; ``format_tuples`` refuses a tree
that needs them. Extensions to PADRES: ``true`` and ``false`` are values, and strings and attribute names may be in
double quotes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from octopia.content.expressions import And, Expression
from octopia.content.literals import format_name, format_value
from octopia.content.parsing import (
    Grammar,
    Phrases,
    at_token,
    load_grammar,
    read_name,
    read_number,
    read_string,
    refuse_at,
    run_grammar,
)
from octopia.content.predicates import Operator, Predicate, scalar
from octopia.content.values import Value
from octopia.errors import InvalidFilter

if TYPE_CHECKING:
    from lark import Token

_OPERATORS = {
    "eq": Operator.EQ,
    "neq": Operator.NE,
    "=": Operator.EQ,
    "<>": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
    "str-prefix": Operator.PREFIX,
    "str-postfix": Operator.SUFFIX,
    "str-contains": Operator.CONTAINS,
    "ispresent": Operator.EXISTS,
}

_WORDS = {
    Operator.EQ: "eq",
    Operator.NE: "neq",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
    Operator.PREFIX: "str-prefix",
    Operator.SUFFIX: "str-postfix",
    Operator.CONTAINS: "str-contains",
}


def parse_tuples(text: str) -> Expression:
    """Parse the tuple form."""
    return run_grammar(_grammar(), text)


def format_tuples(expression: Expression) -> str:
    """Return a predicate, or a conjunction of predicates, as tuples; raise ``InvalidFilter`` for anything else."""
    operands = expression.operands if isinstance(expression, And) else (expression,)
    return ",".join(_format_tuple(each) for each in operands)


def _format_tuple(expression: Expression) -> str:
    if not isinstance(expression, Predicate):
        kind = type(expression).__name__.upper()
        raise InvalidFilter(f"expected predicates joined by one AND, got {kind}: use the SQL form")
    name = format_name(expression.attribute)
    if expression.operator is Operator.EXISTS:
        return f"[{name},isPresent,'ANY']"
    word = _WORDS.get(expression.operator)
    if word is None:
        operator = expression.operator.value.upper()
        raise InvalidFilter(
            f"expected an operator of the tuple form, got {operator} on {expression.attribute}: use the SQL form"
        )
    return f"[{name},{word},{_format_operand(scalar(expression))}]"


def _format_operand(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else format_value(value)


class _Builder:
    """Builds the tree: for each rule lark calls the method of that name with the parts of the rule."""

    def all_of(self, operands: list[Expression]) -> And:
        return And(tuple(operands))

    def tuple(self, parts: list[Any]) -> Predicate:
        name, word, *rest, bracket = parts
        operator = _read_operator(word)
        if operator is Operator.EXISTS:
            # PADRES requires a third element, 'ANY', without a meaning.
            return Predicate(name, operator)
        if not rest:
            raise refuse_at(bracket, f"expected a value after {word}, got ]")
        value = _read_value(rest[0])
        return at_token(rest[0], lambda: _build(name, operator, value))

    def name(self, tokens: list[Token]) -> str:
        return read_name(tokens[0])

    def operator(self, tokens: list[Token]) -> Token:
        return tokens[0]

    def value(self, tokens: list[Token]) -> Token:
        return tokens[0]


def _read_operator(word: Token) -> Operator:
    operator = _OPERATORS.get(word.value.lower())
    if operator is None:
        expected = "eq, neq, =, <>, <, <=, >, >=, str-prefix, str-postfix, str-contains or isPresent"
        raise refuse_at(word, f"expected {expected}, got {word}")
    return operator


def _read_value(token: Token) -> Value:
    if token.type == "NUMBER":
        return read_number(token)
    if token.type == "NAME":
        word = str(token.value).lower()
        if word not in ("true", "false"):
            raise refuse_at(token, f"expected a number, true, false or a string in quotes, got {token}")
        return word == "true"
    return read_string(token)


def _build(name: str, operator: Operator, value: Value) -> Predicate:
    # An empty suffix or substring has the form of the empty prefix: any string.
    if value == "" and operator in (Operator.SUFFIX, Operator.CONTAINS):
        return Predicate(name, Operator.PREFIX, value)
    return Predicate(name, operator, value)


_PHRASES: Phrases = (
    (("NUMBER", "STRING"), ("QUOTED", "NAME"), "a value"),
    (("SYMBOL",), ("STRING_OPERATOR", "NAME"), "an operator (eq, neq, <, <=, >, >=, str-prefix, isPresent...)"),
    (("NAME",), ("QUOTED",), "an attribute name"),
    (("COMMA",), (), "a comma"),
    (("LSQB",), (), "an opening bracket"),
    (("RSQB",), (), "a closing bracket"),
    (("$END",), (), "the end of the text"),
)


@functools.cache
def _grammar() -> Grammar:
    return load_grammar("tuples.lark", _Builder(), _PHRASES)
