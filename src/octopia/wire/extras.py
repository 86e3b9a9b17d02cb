"""The extra part of the frames of publications: the handles of a delivery, and the detour of a rerouted copy.

The same few parts travel again and again, so short ones are encoded and decoded once and remembered. Parts that were
refused are not remembered, and long ones neither, since they come from outside.
"""

from __future__ import annotations

import functools
from typing import Annotated

import msgspec
from msgspec import Meta

from octopia.errors import BadFrame
from octopia.protocol.detours import Detour
from octopia.protocol.duties import Crossings, Entered, Lane, Origin
from octopia.wire import checks
from octopia.wire.format import ILINKS_MAX

_REMEMBERED = 4096
_REMEMBERED_BYTES_MAX = 64
_CROSSINGS_MAX = 8

_ORIGINS = {Origin.HOST: None, Origin.LOCAL: True}


class _DetourFields(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A detour as it is encoded; the origin is nil for the host region, and true for local clients only."""

    lane: Lane
    ilinks: Annotated[int, Meta(ge=0, le=ILINKS_MAX)] = 0
    origin: str | bool | None = None
    cross: Crossings = ()


_to_msgpack = msgspec.msgpack.Encoder().encode
_to_detour = msgspec.msgpack.Decoder(_DetourFields).decode
_to_handles = msgspec.msgpack.Decoder(tuple[int, ...]).decode


def detour_of(extra: bytes) -> Detour:
    """Return a detour, or raise one of ``decoding.REFUSALS``."""
    return _detour_of(extra) if len(extra) <= _REMEMBERED_BYTES_MAX else _detour_of.__wrapped__(extra)


@functools.lru_cache(_REMEMBERED)
def _detour_of(extra: bytes) -> Detour:
    fields = _to_detour(extra)
    detour = Detour(fields.lane, fields.ilinks, _origin(fields.origin), fields.cross)
    checks.check_detour(detour)
    return detour


def _origin(encoded: str | bool | None) -> Entered:
    if isinstance(encoded, str):
        return encoded
    if encoded is False:
        raise BadFrame("expected nil, true or a region as the origin of a detour, got false")
    return Origin.LOCAL if encoded else Origin.HOST


def encoded_detour(detour: Detour) -> bytes:
    """Return the bytes of a detour, without trailing defaults."""
    return _encoded_detour(detour) if len(detour.cross) <= _CROSSINGS_MAX else _encoded_detour.__wrapped__(detour)


@functools.lru_cache(_REMEMBERED)
def _encoded_detour(detour: Detour) -> bytes:
    origin = _ORIGINS[detour.origin] if isinstance(detour.origin, Origin) else detour.origin
    fields: list[object] = [detour.lane, detour.ilinks, origin, detour.cross]
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return _to_msgpack(fields)


def handles_of(extra: bytes) -> tuple[int, ...]:
    """Return the handles of a delivery, or raise one of ``decoding.REFUSALS``."""
    return _handles_of(extra) if len(extra) <= _REMEMBERED_BYTES_MAX else _handles_of.__wrapped__(extra)


@functools.lru_cache(_REMEMBERED)
def _handles_of(extra: bytes) -> tuple[int, ...]:
    handles = _to_handles(extra)
    checks.check_handles(handles)
    return handles


def encoded_handles(handles: tuple[int, ...]) -> bytes:
    """Return the bytes of the handles of a delivery."""
    return _encoded_handles(handles) if len(handles) <= _REMEMBERED_BYTES_MAX else _to_msgpack(handles)


@functools.lru_cache(_REMEMBERED)
def _encoded_handles(handles: tuple[int, ...]) -> bytes:
    return _to_msgpack(handles)
