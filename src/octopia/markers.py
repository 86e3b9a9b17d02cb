"""Markers for fields that are not part of a state, written at the field: ``counters: History[Counters]``.

Two brokers that differ only in marked fields have the same future. The search of all interleavings leaves marked fields
out of the canonical form of a state. Every other field is part of it, including fields added later.

Classes that are compiled have no annotations at run time; they list their markers in a dictionary ``MARKS`` instead.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias, TypeVar

T = TypeVar("T")


class Mark(enum.Enum):
    """The reasons why a field is not part of a state."""

    FIXED = "set once and never changed"
    DERIVED = "computed from other fields, such as an index or a cache"
    HISTORY = "a record of the past that affects nothing"
    TIMED = "changed by time alone, which does not advance in a search"


Fixed: TypeAlias = Annotated[T, Mark.FIXED]
Derived: TypeAlias = Annotated[T, Mark.DERIVED]
History: TypeAlias = Annotated[T, Mark.HISTORY]
Timed: TypeAlias = Annotated[T, Mark.TIMED]
