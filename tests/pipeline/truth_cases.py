"""Publications and filters for the tests of the truth: columns of every type, and edge cases that have a name.

A publication of a table has values of one type in each column, so that the strategies for content, with values of any
type for each attribute, are used for filters only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from octopia.content import Expression, Value
from property.content_strategies import ODD_TEXTS, TEXTS, expressions, predicates

TYPES = {"t": pa.string(), "w": pa.int64(), "d": pa.float64(), "b": pa.bool_(), "odd `name.x": pa.int64()}
"""The columns; filters also use ``missing``."""
WHOLES = (0, 1, 2, 3, 5, -1, 4, 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63 - 1, -(2**63))
DOUBLES = (0.0, -0.0, 1.0, 2.5, -1.0, 0.5, float(2**53), float(2**53 + 2), 2.0**63, -(2.0**63), 1e300, 5e-324)
INFINITIES = (math.inf, -math.inf)
STRINGS = (*TEXTS, *ODD_TEXTS, "abd", "aabb", "a\nb", "a\x00", "a\U0001f419b", "ab\n", "${env:HOME}")
POOLS: dict[str, tuple[Value, ...]] = {
    "t": STRINGS,
    "w": WHOLES,
    "d": (*DOUBLES, *INFINITIES),
    "b": (True, False),
    "odd `name.x": (1, 2),
}
NAMES = (*TYPES, "missing")

asked_numbers = st.sampled_from((*WHOLES, *DOUBLES, *INFINITIES, 0.1, 2.5, -0.5))
asked_texts = st.sampled_from(STRINGS)
leaves = predicates(st.sampled_from(NAMES), asked_numbers, asked_texts)
trees: st.SearchStrategy[Expression] = expressions(leaves, 6)
publications: st.SearchStrategy[dict[str, Value | None]] = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(pool) for name, pool in POOLS.items()}
)

EDGES: tuple[tuple[str, dict[str, Value], bool | None], ...] = (
    ("w = 9007199254740993", {"w": 2**53 + 1}, True),
    ("w = 9007199254740992.0", {"w": 2**53 + 1}, False),
    ("w > 9007199254740992.0", {"w": 2**53 + 1}, True),
    ("d = 9007199254740993", {"d": float(2**53)}, False),
    ("d < 9007199254740993", {"d": float(2**53)}, True),
    ("d >= 9007199254740993", {"d": float(2**53 + 2)}, True),
    ("d BETWEEN 9007199254740993 AND 9007199254740993", {"d": float(2**53)}, False),
    ("w < 2.5", {"w": 2}, True),
    ("w >= 2.5", {"w": 2}, False),
    ("w = 2.5", {"w": 2}, False),
    ("w <> 2.5", {"w": 2}, True),
    ("w < 1e300", {"w": 2**63 - 1}, True),
    ("w < 9223372036854775808.0", {"w": 2**63 - 1}, True),
    ("w >= -9223372036854775808.0", {"w": -(2**63)}, True),
    ("w > 1e300", {}, None),
    ("d = 0", {"d": -0.0}, True),
    ("d < 0", {"d": -0.0}, False),
    ("d >= 0.0", {"d": -0.0}, True),
    ("d IN (0,1,2,3,4,5,6,7,8,9,10,11,12)", {"d": -0.0}, True),
    ("d > 1e308", {"d": math.inf}, True),
    ("d < -1e308", {"d": -math.inf}, True),
    ("t LIKE 'a\\_%' ESCAPE '\\'", {"t": "a_b"}, True),
    ("t LIKE 'a\\_%' ESCAPE '\\'", {"t": "axb"}, False),
    ("t LIKE '_00!%' ESCAPE '!'", {"t": "100%"}, True),
    ("t LIKE '_00!%' ESCAPE '!'", {"t": "1000"}, False),
    ("t LIKE '%!%%' ESCAPE '!'", {"t": "100%"}, True),
    ("t LIKE 'a_b'", {"t": "a\nb"}, True),
    ("t LIKE 'a%_'", {"t": "ab\n"}, True),
    ("t LIKE 'a_'", {"t": "ab\n"}, False),
    ("t LIKE 'a_b'", {"t": "a\U0001f419b"}, True),
    ("t LIKE 'a__b'", {"t": "a\U0001f419b"}, False),
    ("t LIKE 'a_'", {"t": "a\x00"}, True),
    ("t = 'a'", {"t": "a\x00"}, False),
    ("t > 'a'", {"t": "a\x00"}, True),
    ("t > '\uffff'", {"t": "\U0001f419"}, True),
    ("t < '\U0001f419'", {"t": "\uffff"}, True),
    ("t = '${env:HOME}'", {"t": "${env:HOME}"}, True),
    ("t LIKE '%''%'", {"t": "it's"}, True),
    ("t IN ('a', 1, TRUE)", {"t": "a"}, True),
    ("t IN ('a', 1, TRUE)", {"t": "b"}, None),
    ("t NOT IN ('a', 1, TRUE)", {"t": "a"}, False),
    ("t NOT IN ('a', 1, TRUE)", {"t": "b"}, None),
    ("t NOT IN ('a', 'c')", {"t": "b"}, True),
    ("w IN (1, 2.0, 'x')", {"w": 2}, True),
    ("w IN ('x')", {"w": 2}, None),
    ("t = 1", {"t": "1"}, None),
    ("t <> 1", {"t": "1"}, None),
    ("w = TRUE", {"w": 1}, None),
    ("b = 1", {"b": True}, None),
    ("b = TRUE", {"b": True}, True),
    ("b <> TRUE", {"b": True}, False),
    ("missing = 1", {}, None),
    ("missing IS NULL", {}, True),
    ("missing IS NOT NULL", {}, False),
    ("NOT (missing = 1)", {}, None),
    ("missing = 1 OR TRUE", {}, True),
    ("missing = 1 AND FALSE", {}, False),
    ("w IS NULL AND NOT (w = 1 AND FALSE)", {}, True),
    ('"odd `name.x" >= 2', {"odd `name.x": 2}, True),
    ("W IS NULL", {"w": 1}, True),
)


def table_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """A batch of publications with the columns above, numbered from 0."""
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in TYPES.items()}
    return pa.record_batch({"number": pa.array(np.arange(len(rows)), pa.int64()), **columns})


def carried(row: dict[str, Any]) -> dict[str, Value]:
    """The attributes that a publication carries."""
    return {name: value for name, value in row.items() if value is not None}
