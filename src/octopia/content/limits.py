"""The limits on filters and publications.

They bound the work that one text or one publication can cause at a broker. Each violation raises a typed error that
names the limit and the actual size.
"""

from __future__ import annotations

FILTER_TEXT_BYTES_MAX = 4096
"""Length of a filter text, in bytes of UTF-8."""

FILTER_TOKENS_MAX = 200
"""Tokens in a filter text; whitespace does not count."""

FILTER_DEPTH_MAX = 32
"""Levels of AND, OR and NOT above a predicate, and levels of parentheses in a text."""

EXPRESSION_NODES_MAX = 8192
"""Nodes of an expression that was built by a program; the largest normal form has 4161."""

DISJUNCTION_FILTERS_MAX = 64
"""Filters in a normal form."""

FILTER_PREDICATES_MAX = 64
"""Predicates in one filter of a normal form."""

PUBLICATION_ATTRIBUTES_MAX = 64
"""Attributes of a publication."""

PUBLICATION_PAYLOAD_BYTES_MAX = 1 << 20
"""Length of a publication's payload: 1 MiB."""

NAME_LENGTH_MAX = 255
"""Length of an attribute name, in code points."""
