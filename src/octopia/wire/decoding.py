"""The decoder: from bytes to items (``octopia.wire.format`` documents the format).

Nothing that arrives over a connection is trusted. msgspec checks types and lengths while it decodes, filters are
checked when they are built, and the rest is checked in ``octopia.wire.checks``. The attributes of publications are
checked by a compiled scan (``octopia.content.encoded``), and decoded here only if it does not know the answer. A
received publication is as valid as one built with ``Publication(…)``; a test compares the two.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from octopia.content import Publication, Value
from octopia.content.encoded import IS_COMPILED
from octopia.content.limits import (
    NAME_LENGTH_MAX,
    PUBLICATION_ATTRIBUTES_MAX,
    PUBLICATION_PAYLOAD_BYTES_MAX,
    STRING_LENGTH_MAX,
)
from octopia.content.publications import scanned
from octopia.content.values import INTEGER_MAX, INTEGER_MIN
from octopia.errors import BadFrame, OctopiaError
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import (
    CONTROL,
    Ack,
    Answer,
    Closing,
    ClusterIndexVector,
    Command,
    Frame,
    Grant,
    Hello,
    Opening,
    WireItem,
)
from octopia.protocol.messages import Control, Copy, Deliver, Publish, PublishRequest
from octopia.protocol.registry import REGISTRY
from octopia.wire import checks
from octopia.wire.extras import detour_of, handles_of
from octopia.wire.format import (
    ACK,
    ATTRIBUTES_BYTES_MAX,
    CIV_WIDTH_MAX,
    GREETING,
    HEADER,
    LENGTH_BYTES,
    MAGIC,
    ORDERED,
    PLACED,
    PUBLICATION,
    START,
    VERSION,
    Kind,
)

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
_Integer: TypeAlias = Annotated[int, Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]
_String: TypeAlias = Annotated[str, Meta(max_length=STRING_LENGTH_MAX)]
_Attributes: TypeAlias = Annotated[
    dict[_Name, _Integer | float | _String | bool], Meta(min_length=1, max_length=PUBLICATION_ATTRIBUTES_MAX)
]


_to_attributes: Callable[[bytes], dict[str, Value]] = msgspec.msgpack.Decoder(_Attributes).decode
_to_hello = msgspec.msgpack.Decoder(Hello).decode
_to_opening = msgspec.msgpack.Decoder(Opening).decode
_to_closing = msgspec.msgpack.Decoder(Closing).decode
_to_command = msgspec.msgpack.Decoder(Command).decode
_to_answer = msgspec.msgpack.Decoder(Answer).decode

_unpack_publication = PUBLICATION.unpack_from
_host_broker = checks.host_broker
_HEADER_BYTES = HEADER.size
_PUBLICATION_BYTES = PUBLICATION.size
_TIME_MIN, _TIME_MAX = -sys.float_info.max, sys.float_info.max
_PUBLISH = int(Kind.PUBLISH)
_PUBLISH_REQUEST = int(Kind.PUBLISH_REQUEST)
_DELIVER = int(Kind.DELIVER)
# The first bytes of a msgpack map: up to 15 entries, a count of 16 bits, a count of 32 bits.
_FIXMAP, _MAP16, _MAP32 = 0x80, 0xDE, 0xDF
_NO_FRAME = bytes(HEADER.size - START.size)


# Publications.


def _publication(data: bytes, at: int, end: int) -> Frame:
    (
        _,
        kind,
        clusters,
        traffic_class,
        sequence,
        bits,
        incarnation,
        number,
        published_ms,
        hop,
        cluster,
        region_bytes,
        extra_bytes,
        attributes_bytes,
    ) = _unpack_publication(data, at)
    region_at = at + _PUBLICATION_BYTES
    extra_at = region_at + region_bytes
    attributes_at = extra_at + extra_bytes
    payload_at = attributes_at + attributes_bytes
    if payload_at > end:
        raise BadFrame(f"expected parts of at most {end - region_at} bytes in total, got {payload_at - region_at}")
    if not _TIME_MIN <= published_ms <= _TIME_MAX:
        raise BadFrame(f"expected a time of publication, got {published_ms}")
    publication = _content(data[attributes_at:payload_at], data[payload_at:end])
    if kind == _PUBLISH_REQUEST:
        if clusters or bits or incarnation or hop or cluster or region_bytes or extra_bytes:
            raise BadFrame("expected only a number and a time in a request, got an id, CIV, hop or extra part")
        return _framed(sequence, PublishRequest(number, publication, published_ms), traffic_class, 0)
    host = _host_broker(data[region_at:extra_at], cluster)
    name = PublicationId(host, incarnation, number)
    if kind == _PUBLISH:
        ordered = clusters >= ORDERED
        if ordered:
            clusters -= ORDERED
        civ = _civ(bits, clusters) if clusters or bits else None
        detour = detour_of(data[extra_at:attributes_at]) if extra_bytes else None
        message = Publish(name, publication, civ, hop, published_ms, detour, ordered)
        return _framed(sequence, message, traffic_class, bits.bit_count() if detour is None else detour.lane)
    if clusters or bits:
        raise BadFrame(f"expected no CIV, got {bits:#x} of width {clusters}")
    extra = data[extra_at:attributes_at]
    if kind == _DELIVER:
        delivery = Deliver(name, publication, handles_of(extra), hop, published_ms)
        return _framed(sequence, delivery, traffic_class, CONTROL)
    copies = REGISTRY.other_copies
    if copies is None:
        raise BadFrame("expected a publication of OctopiA, got one of a routing scheme that is not registered here")
    copy = copies.make(name, publication, extra, hop, published_ms)
    checks.check_message(copy)
    return _framed(sequence, copy, traffic_class, 0)


def _framed(sequence: int, message: Copy | PublishRequest | Deliver, traffic_class: int, expected_class: int) -> Frame:
    if traffic_class != expected_class:
        raise BadFrame(f"expected the traffic class {expected_class}, got {traffic_class}")
    return Frame(sequence, message)


def _content(encoded: bytes, payload: bytes) -> Publication:
    """Return a publication, checked as ``Publication(…)`` would check it."""
    if len(encoded) > ATTRIBUTES_BYTES_MAX:
        raise BadFrame(f"expected attributes of at most {ATTRIBUTES_BYTES_MAX} bytes, got {len(encoded)}")
    if len(payload) > PUBLICATION_PAYLOAD_BYTES_MAX:
        raise BadFrame(f"expected a payload of at most {PUBLICATION_PAYLOAD_BYTES_MAX} bytes, got {len(payload)}")
    if IS_COMPILED:
        publication = scanned(encoded, payload)
        if publication is not None:
            return publication
    return decode_content(encoded, payload)


def decode_content(encoded: bytes, payload: bytes) -> Publication:
    """Return a publication with decoded attributes, or raise one of ``REFUSALS``: the reference of the scan."""
    attributes = _to_attributes(encoded)
    if encoded[0] - _FIXMAP != len(attributes) and _announced(encoded) != len(attributes):
        raise BadFrame(f"expected each attribute once, got {_announced(encoded)} entries for {len(attributes)} names")
    for value in attributes.values():
        if value != value:
            raise BadFrame("expected a number, got NaN for an attribute")
    publication = Publication.trusted(attributes, payload)
    publication.encoded_attributes = encoded
    return publication


def _announced(encoded: bytes) -> int:
    """Return the number of entries that a map declares; a Python dictionary has fewer if a name came twice."""
    width = {_MAP16: 2, _MAP32: 4}.get(encoded[0])
    return int.from_bytes(encoded[1 : 1 + width]) if width is not None else encoded[0] - _FIXMAP


def _civ(bits: int, clusters: int) -> ClusterIndexVector:
    if clusters > CIV_WIDTH_MAX or bits >> clusters:
        raise BadFrame(f"expected a CIV of at most {CIV_WIDTH_MAX} clusters, got {bits:#x} of width {clusters}")
    return ClusterIndexVector(bits, clusters)


# Other items.


def _control(data: bytes, at: int, end: int) -> Frame:
    _, _, clusters, traffic_class, sequence = HEADER.unpack_from(data, at)
    if clusters or traffic_class != CONTROL:
        raise BadFrame(f"expected no CIV and the traffic class {CONTROL}, got width {clusters}, class {traffic_class}")
    message = _control_decoder(REGISTRY.control_types)(data[at + _HEADER_BYTES : end])
    checks.check_message(message)
    return Frame(sequence, message)


@functools.lru_cache(maxsize=2)
def _control_decoder(types: tuple[type, ...]) -> Callable[[bytes], Control]:
    """Return the decoder of control messages; it is rebuilt when more messages are registered."""
    return msgspec.msgpack.Decoder(functools.reduce(operator.or_, types)).decode


def _opening(data: bytes, at: int, end: int) -> Opening:
    body = _body(data, at, end)
    if len(body) < GREETING.size:
        raise BadFrame(f"expected the magic word and the protocol version, got {len(body)} bytes")
    magic, version = GREETING.unpack_from(body)
    if magic != MAGIC:
        raise BadFrame(f"expected the magic word {MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise BadFrame(f"expected protocol version {VERSION}, got {version}")
    opening = _to_opening(body[GREETING.size :])
    checks.check_opening(opening)
    return opening


def _closing(data: bytes, at: int, end: int) -> Closing:
    return _to_closing(_body(data, at, end))


def _hello(data: bytes, at: int, end: int) -> Hello:
    hello = _to_hello(_body(data, at, end))
    checks.check_hello(hello)
    return hello


def _ack(data: bytes, at: int, end: int) -> Ack:
    body = _body(data, at, end)
    if len(body) < ACK.size:
        raise BadFrame(f"expected an acknowledgement of at least {ACK.size} bytes, got {len(body)}")
    accepted, number, window_bytes, held_ms, asks, classes = ACK.unpack_from(body)
    if len(body) != ACK.size + classes * PLACED.size:
        raise BadFrame(f"expected {classes} classes in an acknowledgement, got {len(body) - ACK.size} bytes for them")
    if asks > 1:
        raise BadFrame(f"expected 0 or 1 for whether an acknowledgement asks for one, got {asks}")
    placed = tuple(PLACED.iter_unpack(body[ACK.size :]))
    ack = Ack(accepted, Grant(number, window_bytes, placed), held_ms, asks == 1)
    checks.check_ack(ack)
    return ack


def _command(data: bytes, at: int, end: int) -> Command:
    command = _to_command(_body(data, at, end))
    if command.broker:
        BrokerId.parse(command.broker)
    return command


def _answer(data: bytes, at: int, end: int) -> Answer:
    return _to_answer(_body(data, at, end))


def _body(data: bytes, at: int, end: int) -> bytes:
    """Return the body of a frame that is not part of the sequence."""
    body_at = at + _HEADER_BYTES
    if data[at + START.size : body_at] != _NO_FRAME:
        raise BadFrame("expected neither CIV, class nor sequence, got one of them")
    return data[body_at:end]


REFUSALS = (msgspec.MsgspecError, OctopiaError, UnicodeError, RecursionError)
"""The errors of a malformed frame: ours, those of msgspec, and Python's for bad UTF-8 or deep nesting."""

_Decoder: TypeAlias = Callable[[bytes, int, int], WireItem]

_DECODERS: dict[Kind, _Decoder] = {
    Kind.OPENING: _opening,
    Kind.CLOSING: _closing,
    Kind.HELLO: _hello,
    Kind.ACK: _ack,
    Kind.CONTROL: _control,
    Kind.PUBLISH: _publication,
    Kind.PUBLISH_REQUEST: _publication,
    Kind.DELIVER: _publication,
    Kind.OTHER_COPY: _publication,
    Kind.COMMAND: _command,
    Kind.ANSWER: _answer,
}

# A plain int is a faster key than an enum member.
DECODERS: dict[int, _Decoder] = {int(kind): decoder for kind, decoder in _DECODERS.items()}
"""By kind, the function that decodes the frame between two offsets, or raises one of ``REFUSALS``."""

LENGTH_MIN = {kind: (PUBLICATION if Kind(kind).is_publication else HEADER).size - LENGTH_BYTES for kind in DECODERS}
"""By kind, the length of a frame with an empty body."""
