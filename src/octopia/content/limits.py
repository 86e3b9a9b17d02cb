"""The limits on filters and publications.

They bound the work that one text or one publication can cause at a broker. Each breach is a typed error that names the
limit and what came.
"""

from __future__ import annotations

FILTER_TEXT_BYTES_MAX = 4096
"""Length of a filter's text, in bytes of UTF-8."""

FILTER_TOKENS_MAX = 200
"""Tokens in a filter's text; blanks do not count."""

FILTER_DEPTH_MAX = 32
"""Levels of AND, OR and NOT above a predicate, and levels of parentheses in a text."""

EXPRESSION_NODES_MAX = 8192
"""Nodes of an expression that was built without a text; the largest normal form has 4161."""

DISJUNCTION_FILTERS_MAX = 64
"""Filters in a normal form."""

FILTER_PREDICATES_MAX = 64
"""Predicates in one filter of a normal form."""

PUBLICATION_ATTRIBUTES_MAX = 64
"""Attributes of a publication."""

PUBLICATION_PAYLOAD_BYTES_MAX = 1 << 20
"""Length of a publication's payload: 1 MiB."""

NAME_LENGTH_MAX = 255
"""Length of an attribute's name, in code points."""
