"""Content: publications, filters, the relations between them, and the filter language.

This is the bottom layer, and pure: values in, values out. ``parse_filter`` turns a text into the normal form (a
``Disjunction``) that brokers store. Routing needs only the relations ``matches``, ``conforms``, ``intersects`` and
``covers``. Everything is immutable, hashable and picklable.
"""

from octopia.content.expressions import (
    FALSE,
    TRUE,
    And,
    Constant,
    Expression,
    Not,
    Or,
    evaluate,
    normalise,
    to_expression,
)
from octopia.content.filters import Disjunction, Filter, group_by_attribute
from octopia.content.language import TextForm, format_expression, format_filter, parse_expression, parse_filter
from octopia.content.predicates import Operator, Predicate, contains, like, negate, suffix
from octopia.content.publications import Publication
from octopia.content.relations import (
    Mismatch,
    conforms,
    conjoin,
    covers,
    explain_filter,
    explain_mismatch,
    intersection_with,
    intersects,
    matches,
)
from octopia.content.values import Value, ValueType, value_type

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Constant",
    "Disjunction",
    "Expression",
    "Filter",
    "Mismatch",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "Publication",
    "TextForm",
    "Value",
    "ValueType",
    "conforms",
    "conjoin",
    "contains",
    "covers",
    "evaluate",
    "explain_filter",
    "explain_mismatch",
    "format_expression",
    "format_filter",
    "group_by_attribute",
    "intersection_with",
    "intersects",
    "like",
    "matches",
    "negate",
    "normalise",
    "parse_expression",
    "parse_filter",
    "suffix",
    "to_expression",
    "value_type",
]
