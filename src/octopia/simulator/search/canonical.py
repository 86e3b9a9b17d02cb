"""The canonical form of a broker and its sessions, and how they are cloned.

Two objects with the same canonical form must have the same future. So the form is found by walking over everything that
an object holds, rather than by naming what matters: a field that is added tomorrow is part of it. Left out is only

- what never changes (settings, the neighbourhood) and what is derived (matchers mirror their tables);
- what only tells of the past (counters, facts, effects, recent inputs);
- times: of a field that ends in ``_ms`` only whether it is set counts. In a search time stands still, but for one leap
  to the end of the grace period, which is longer than any window of Eq. 3 and shorter than the limits of D10.

Numbers (versions, sequences, grants) are kept as they are, and dictionaries in the order in which they grew. Both tell
more states apart than necessary, and never fewer.
"""

from __future__ import annotations

import enum
import hashlib
from collections import deque
from typing import Any

import msgspec

from octopia.content import Publication

_LEFT_OUT = frozenset(
    {
        "settings",
        "_settings",
        "neighbourhood",
        "_matcher",
        "_numbered",
        "_found",
        "kept_local",
        "_tau",
        "_capacity",
        "window",
        "counters",
        "facts",
        "effects",
        "_recent",
        "dropped_unacknowledged",
    }
)
_SHARED = frozenset({"settings", "_settings", "neighbourhood", "counters", "facts", "effects", "_recent"})
"""Fields that clones share: they never change, or they are replaced rather than changed, or nothing depends on them."""

_LEAVES: tuple[type, ...] = (int, str, bytes, float, type(None), enum.Enum, msgspec.Struct, Publication)
_is_leaf: dict[type, bool] = {}
_fields: dict[type, tuple[str, ...]] = {}


def digest(value: object) -> bytes:
    """Return 16 bytes that stand for the canonical form of a value."""
    encoded = msgspec.msgpack.encode(describe(value), enc_hook=_encode)
    return hashlib.blake2b(encoded, digest_size=16).digest()


def describe(value: Any) -> Any:
    """Return the canonical form of a value as nested lists of immutable values."""
    kind = type(value)
    if _holds_nothing(kind):
        return value
    if kind is dict:
        return [[describe(key), describe(each)] for key, each in value.items()]
    if kind in {list, tuple, deque}:
        return [describe(each) for each in value]
    return [_describe_field(name, getattr(value, name)) for name in _fields_of(value) if name not in _LEFT_OUT]


def clone(value: Any) -> Any:
    """Copy a value so deeply that nothing done to the copy shows in the original."""
    kind = type(value)
    if _holds_nothing(kind) or kind is tuple:
        return value
    if kind is dict:
        return {key: clone(each) for key, each in value.items()}
    if kind is list:
        return [clone(each) for each in value]
    if kind is deque:
        return deque(map(clone, value), value.maxlen)
    copy = object.__new__(kind)
    for name in _fields_of(value):
        part = getattr(value, name)
        object.__setattr__(copy, name, part if name in _SHARED else clone(part))
    return copy


def _describe_field(name: str, value: Any) -> Any:
    return value is not None if name.endswith("_ms") else describe(value)


def _holds_nothing(kind: type) -> bool:
    """Tell whether values of a type are immutable, so that they are their own canonical form."""
    known = _is_leaf.get(kind)
    if known is None:
        known = _is_leaf[kind] = issubclass(kind, _LEAVES) or hasattr(kind, "_fields")
    return known


def _fields_of(value: Any) -> tuple[str, ...]:
    """Return the names of an object's fields: all its slots, and what its constructor has set beside them."""
    kind = type(value)
    known = _fields.get(kind)
    if known is None:
        slots = [name for each in reversed(kind.__mro__) for name in getattr(each, "__slots__", ())]
        known = _fields[kind] = (*slots, *getattr(value, "__dict__", ()))
    return known


def _encode(value: object) -> object:
    if isinstance(value, Publication):
        return [sorted(value.attributes.items()), value.payload]
    raise NotImplementedError(f"no canonical form for {type(value).__name__}")
