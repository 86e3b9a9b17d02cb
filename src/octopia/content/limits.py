"""The limits on filters and publications.

They bound the memory and the time that one filter or one publication can take at a broker. The limits on texts hold for
texts. All others hold for every filter, whether it comes from a text, from a program or over the wire. Each violation
raises a typed error that names the limit and the actual size.
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

FILTER_LENGTH_MAX = 64 * 1024
"""Length of all names and values in a normal form, in code points; a number counts as 9."""

FILTER_COST_US_MAX = 500
"""Time of one evaluation of a normal form on the worst publication (``octopia.content.costs``), in microseconds.

The index may evaluate a filter twice for one publication, so the limit is half of a millisecond.
"""

OPERAND_LENGTH_MAX = FILTER_TEXT_BYTES_MAX
"""Length of a string in a predicate, in code points."""

OPERAND_VALUES_MAX = 100
"""Values in the list of IN and NOT IN; 200 tokens can name 98."""

DECODED_ITEMS_MAX = 256
"""Items of one list in an encoded filter at which decoding stops, so that a long list takes no memory."""

PATTERN_LENGTH_MAX = 256
"""Length of a canonical pattern, and of a text that is searched for as a substring, in code points.

Compiled patterns take about 20 bytes per character.
"""

PUBLICATION_ATTRIBUTES_MAX = 64
"""Attributes of a publication."""

PUBLICATION_PAYLOAD_BYTES_MAX = 1 << 20
"""Length of a publication's payload: 1 MiB."""

STRING_LENGTH_MAX = 8192
"""Length of a string in a publication, in code points.

Every pattern may have to read the whole string, so this limit decides how many patterns a filter may have. Longer texts
belong in the payload, which filters do not read.
"""

NAME_LENGTH_MAX = 255
"""Length of an attribute name, in code points."""

NUMBER_BYTES = 9
"""The size that a number or boolean counts as."""
