"""The canonical form of a node, and the cloning of nodes.

Two objects with the same canonical form must have the same future. So the form covers everything that an object holds,
including fields added later. Two things are left out:

- fields with a marker of ``octopia.markers`` at their declaration: they are fixed, derived, history, or changed by
  time;
- times: for a field whose name ends in ``_ms``, only whether it is set counts. In a search, time does not advance,
  except for one step to the end of the grace period, which is longer than any window of Eq. 3 and shorter than the
  limits of D10.

Numbers (versions, sequences, grants) and the insertion order of dictionaries are kept as they are. Both distinguish
more states than necessary, and never fewer.
"""

from __future__ import annotations

import enum
import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from octopia.content import Publication
from octopia.markers import Mark
from octopia.protocol.transit import Data, Frame

_SHARED = (Mark.FIXED, Mark.HISTORY)
"""Fields that clones share: they never change, or nothing depends on them."""

_LEAVES: tuple[type, ...] = (int, str, bytes, float, type(None), enum.Enum, msgspec.Struct, Publication, Data, Frame)
_is_leaf: dict[type, bool] = {}
_fields: dict[type, tuple[str, ...]] = {}
_marks: dict[type, Mapping[str, Mark]] = {}


def digest(value: object) -> bytes:
    """Return a digest of 16 bytes of the canonical form of a value."""
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
    marks = marks_of(kind)
    return [_describe_field(name, getattr(value, name)) for name in fields_of(value) if name not in marks]


def clone(value: Any) -> Any:
    """Return a deep copy of a value: changes to the copy do not affect the original."""
    kind = type(value)
    if _holds_nothing(kind) or kind is tuple:
        return value
    if kind is dict:
        return {key: clone(each) for key, each in value.items()}
    if kind is list:
        return [clone(each) for each in value]
    if kind is deque:
        return deque(map(clone, value), value.maxlen)
    if issubclass(kind, msgspec.Struct):
        return kind(*(clone(getattr(value, name)) for name in kind.__struct_fields__))
    copy: Any = kind.__new__(kind)  # type: ignore[call-overload]
    marks = marks_of(kind)
    for name in fields_of(value):
        part = getattr(value, name)
        setattr(copy, name, part if marks.get(name) in _SHARED else clone(part))
    return copy


def marks_of(kind: type) -> Mapping[str, Mark]:
    """Return the fields of a class that are not part of its state, each with the reason."""
    known = _marks.get(kind)
    if known is None:
        hints = get_type_hints(kind, include_extras=True)
        annotated = {name: hint.__metadata__[0] for name, hint in hints.items() if _is_marked(hint)}
        known = _marks[kind] = {**annotated, **getattr(kind, "MARKS", {})}
    return known


def _is_marked(hint: Any) -> bool:
    return isinstance(next(iter(getattr(hint, "__metadata__", ())), None), Mark)


def _describe_field(name: str, value: Any) -> Any:
    return value is not None if name.endswith("_ms") else describe(value)


def _holds_nothing(kind: type) -> bool:
    """Return whether values of a type are immutable, and so their own canonical form."""
    known = _is_leaf.get(kind)
    if known is None:
        is_leaf = issubclass(kind, _LEAVES) or hasattr(kind, "_fields")
        is_mutable = issubclass(kind, msgspec.Struct) and not kind.__struct_config__.frozen
        known = _is_leaf[kind] = is_leaf and not is_mutable
    return known


def fields_of(value: Any) -> tuple[str, ...]:
    """Return the names of an object's fields: all its slots, and all other attributes that its constructor has set."""
    kind = type(value)
    known = _fields.get(kind)
    if known is None:
        slots = [name for each in reversed(kind.__mro__) for name in getattr(each, "__slots__", ())]
        if issubclass(kind, msgspec.Struct):
            slots = list(kind.__struct_fields__)
        known = _fields[kind] = (*slots, *getattr(value, "__dict__", ()))
    return known


def _encode(value: object) -> object:
    if isinstance(value, Publication):
        return [sorted(value.attributes.items()), value.payload]
    if isinstance(value, Data | Frame):
        return [type(value).__name__, *(getattr(value, name) for name in value.__match_args__)]
    raise NotImplementedError(f"no canonical form for {type(value).__name__}")
