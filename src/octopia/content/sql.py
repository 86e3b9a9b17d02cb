"""The SQL form of filters: ``symbol = 'IBM' AND price > 100``, as in JMS and AMQP selectors.

The tree keeps the structure of the text: ``a AND b AND c`` is one AND of three, ``(a AND b) AND c`` an AND within an
AND. ``NOT BETWEEN`` becomes NOT of BETWEEN; ``NOT IN`` and ``NOT LIKE`` are operators.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from octopia.content.expressions import FALSE, TRUE, And, Constant, Expression, Not, Or
from octopia.content.literals import KEYWORDS
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
from octopia.content.predicates import Operator, Predicate, like
from octopia.content.values import Value

if TYPE_CHECKING:
    from lark import Token


def parse_sql(text: str) -> Expression:
    """Parse the SQL form."""
    return run_grammar(_grammar(), text)


class _Literal(NamedTuple):
    value: Value
    token: Token


class _Builder:
    """Builds the tree: for each rule lark calls the method of that name with the parts of the rule."""

    def any_of(self, operands: list[Expression]) -> Or:
        return Or(tuple(operands))

    def all_of(self, operands: list[Expression]) -> And:
        return And(tuple(operands))

    def negation(self, operands: list[Expression]) -> Not:
        return Not(operands[0])

    def always(self, _: list[Token]) -> Constant:
        return TRUE

    def never(self, _: list[Token]) -> Constant:
        return FALSE

    def comparison(self, parts: list[Any]) -> Predicate:
        name, symbol, literal = parts
        return at_token(literal.token, lambda: Predicate(name, Operator(symbol.value), literal.value))

    def between(self, parts: list[Any]) -> Predicate:
        name, low, high = parts
        return at_token(low.token, lambda: Predicate(name, Operator.BETWEEN, (low.value, high.value)))

    def not_between(self, parts: list[Any]) -> Not:
        return Not(self.between(parts))

    def is_in(self, parts: list[Any]) -> Predicate:
        return Predicate(parts[0], Operator.IN, parts[1])

    def is_not_in(self, parts: list[Any]) -> Predicate:
        return Predicate(parts[0], Operator.NOT_IN, parts[1])

    def is_like(self, parts: list[Any]) -> Predicate:
        return self._like(*parts, negated=False)

    def is_not_like(self, parts: list[Any]) -> Predicate:
        return self._like(*parts, negated=True)

    def _like(self, name: str, pattern: Token, *escape: Token, negated: bool) -> Predicate:
        text = read_string(pattern)
        if not escape:
            return at_token(pattern, lambda: like(name, text, negated=negated))
        character = read_string(escape[0])
        if not character:
            raise refuse_at(escape[0], "expected one character after ESCAPE, got none")
        return at_token(escape[0], lambda: like(name, text, character, negated=negated))

    def is_null(self, parts: list[Any]) -> Predicate:
        return Predicate(parts[0], Operator.ABSENT)

    def is_not_null(self, parts: list[Any]) -> Predicate:
        return Predicate(parts[0], Operator.EXISTS)

    def elements(self, literals: list[_Literal]) -> tuple[Value, ...]:
        return tuple(each.value for each in literals)

    def literal(self, tokens: list[Token]) -> _Literal:
        token = tokens[0]
        if token.type == "NUMBER":
            return _Literal(read_number(token), token)
        if token.type == "STRING":
            return _Literal(read_string(token), token)
        return _Literal(token.type == "TRUE", token)

    def name(self, tokens: list[Token]) -> str:
        return read_name(tokens[0])


_PHRASES: Phrases = (
    (("NAME", "LPAR"), ("QUOTED", "_NOT", "TRUE", "FALSE"), "a condition"),
    (("NUMBER", "STRING"), ("TRUE", "FALSE"), "a value"),
    (
        ("COMPARISON",),
        ("_BETWEEN", "_IN", "_LIKE", "_IS", "_NOT"),
        "an operator (=, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS)",
    ),
    (("_BETWEEN",), ("_IN", "_LIKE"), "BETWEEN, IN or LIKE"),
    (("STRING",), (), "a string"),
    (("_NULL",), (), "NULL"),
    (("_NOT",), (), "NOT NULL"),
    (("_ESCAPE",), (), "ESCAPE"),
    (("_AND",), (), "AND"),
    (("_OR",), (), "OR"),
    (("LPAR",), (), "an opening parenthesis"),
    (("COMMA",), (), "a comma"),
    (("RPAR",), (), "a closing parenthesis"),
    (("$END",), (), "the end of the text"),
)


@functools.cache
def _grammar() -> Grammar:
    return load_grammar("sql.lark", _Builder(), _PHRASES, KEYWORDS)
