"""The filter language: parsing texts into trees, and formatting trees as texts.

``parse_expression(format_expression(tree)) == tree`` for every tree whose text is within the limits on texts.
Formatting does not check these limits: a large normal form can be printed although its text would not be accepted.
"""

from __future__ import annotations

import enum

from octopia.content.expressions import Expression, check_size, normalise, to_expression
from octopia.content.filters import Disjunction
from octopia.content.formatting import format_sql
from octopia.content.parsing import check_text
from octopia.content.sql import parse_sql
from octopia.content.tuples import format_tuples, parse_tuples


class TextForm(enum.Enum):
    """The two text forms of a filter."""

    SQL = "sql"
    TUPLES = "tuples"


def parse_expression(text: str) -> Expression:
    """Parse a filter in either form; a text that starts with a bracket is in the tuple form."""
    check_text(text)
    return parse_tuples(text) if text.lstrip(" \t\r\n\f").startswith("[") else parse_sql(text)


def parse_filter(text: str) -> Disjunction:
    """Parse a filter in either form and return its normal form."""
    return normalise(parse_expression(text))


def format_expression(expression: Expression, form: TextForm = TextForm.SQL) -> str:
    """Return the text of an expression; raise ``InvalidFilter`` if the form cannot express it."""
    check_size(expression)
    return format_tuples(expression) if form is TextForm.TUPLES else format_sql(expression)


def format_filter(interest: Disjunction, form: TextForm = TextForm.SQL) -> str:
    """Return the text of a normal form."""
    return format_expression(to_expression(interest), form)
