"""The encoder: from items to bytes (``octopia.wire.format`` documents the format).

Items are made by this process, so they are not checked again. The attributes of a publication are encoded when they are
first needed, and the bytes are kept with the publication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from octopia.content import Publication
from octopia.errors import InvalidPublication
from octopia.ids import PublicationId
from octopia.protocol import Ack, Answer, Closing, Command, Frame, Hello, Opening, WireItem
from octopia.protocol.handshake import REASON_LENGTH_MAX
from octopia.protocol.messages import Copy, Deliver, Message, Publish, PublishRequest
from octopia.protocol.registry import REGISTRY
from octopia.protocol.traffic import CONTROL
from octopia.wire.extras import encoded_detour, encoded_handles
from octopia.wire.format import (
    ACK,
    ATTRIBUTES_BYTES_MAX,
    GREETING,
    HEADER,
    LENGTH_BYTES,
    MAGIC,
    ORDERED,
    PLACED,
    PUBLICATION,
    VERSION,
    Kind,
)

_to_msgpack = msgspec.msgpack.Encoder().encode
_pack_publication = PUBLICATION.pack

# Looking up an enum member takes longer than packing it.
_PUBLISH = int(Kind.PUBLISH)
_DELIVER = int(Kind.DELIVER)
_OTHER_COPY = int(Kind.OTHER_COPY)
_PUBLICATION_REST = PUBLICATION.size - LENGTH_BYTES


def encode(item: WireItem) -> bytes:
    """Return the frame of an item."""
    if type(item) is Frame:
        message = item.message
        write = _PUBLICATIONS.get(type(message))
        if write is not None:
            return write(item, message)
        return _other_copy(item, message) if message.size_bytes else _control(item, message)
    return _OTHERS[type(item)](item)


def prepare(publication: Publication) -> bytes:
    """Return the encoded attributes, or raise InvalidPublication if no frame can carry them.

    Publishers call this before they give a publication to a session, which cannot refuse it.
    """
    encoded = publication.encoded_attributes
    if not encoded:
        encoded = _to_msgpack(dict(publication.attributes))
        if len(encoded) > ATTRIBUTES_BYTES_MAX:
            raise InvalidPublication(
                f"expected attributes of at most {ATTRIBUTES_BYTES_MAX} bytes when encoded, got {len(encoded)}"
            )
        publication.encoded_attributes = encoded
    return encoded


# Publications.


def _publish(frame: Frame, message: Publish) -> bytes:
    civ, detour = message.publication_civ, message.detour
    extra = b"" if detour is None else encoded_detour(detour)
    clusters, bits = (0, 0) if civ is None else (civ.clusters, civ.bits)
    return _join(frame, _PUBLISH, message, message.id, extra, clusters | ORDERED if message.ordered else clusters, bits)


def _deliver(frame: Frame, message: Deliver) -> bytes:
    return _join(frame, _DELIVER, message, message.id, encoded_handles(message.handles))


def _other_copy(frame: Frame, message: Any) -> bytes:
    copies = REGISTRY.other_copies
    assert copies is not None
    return _join(frame, _OTHER_COPY, message, message.id, copies.to_extra(message))


def _join(
    frame: Frame,
    kind: int,
    message: Copy | Deliver,
    name: PublicationId,
    extra: bytes = b"",
    clusters: int = 0,
    bits: int = 0,
) -> bytes:
    publication = message.publication
    attributes = publication.encoded_attributes or prepare(publication)
    payload = publication.payload
    host = name.host_broker
    region = host.region.encode()
    header = _pack_publication(
        _PUBLICATION_REST + len(region) + len(extra) + len(attributes) + len(payload),
        kind,
        clusters,
        message.traffic_class,
        frame.sequence,
        bits,
        name.incarnation,
        name.number,
        message.published_ms,
        message.hop,
        host.cluster,
        len(region),
        len(extra),
        len(attributes),
    )
    return b"".join((header, region, extra, attributes, payload))


def _publish_request(frame: Frame, message: PublishRequest) -> bytes:
    attributes = prepare(message.publication)
    payload = message.publication.payload
    header = _pack_publication(
        _PUBLICATION_REST + len(attributes) + len(payload),
        Kind.PUBLISH_REQUEST,
        0,
        message.traffic_class,
        frame.sequence,
        0,
        0,
        message.sequence,
        message.published_ms,
        0,
        0,
        0,
        0,
        len(attributes),
    )
    return b"".join((header, attributes, payload))


# Other items.


def _control(frame: Frame, message: Message) -> bytes:
    return _framed(Kind.CONTROL, _to_msgpack(message), CONTROL, frame.sequence)


def _opening(item: Opening) -> bytes:
    return _framed(Kind.OPENING, GREETING.pack(MAGIC, VERSION) + _to_msgpack(item))


def _closing(item: Closing) -> bytes:
    return _framed(Kind.CLOSING, _to_msgpack(msgspec.structs.replace(item, reason=item.reason[:REASON_LENGTH_MAX])))


def _hello(item: Hello) -> bytes:
    return _framed(Kind.HELLO, _to_msgpack(item))


def _ack(item: Ack) -> bytes:
    grant = item.grant
    placed = b"".join([PLACED.pack(*each) for each in grant.placed_bytes])
    fixed = ACK.pack(item.accepted, grant.number, grant.window_bytes, item.held_ms, item.asks, len(grant.placed_bytes))
    return _framed(Kind.ACK, fixed + placed)


def _command(item: Command) -> bytes:
    return _framed(Kind.COMMAND, _to_msgpack(item))


def _answer(item: Answer) -> bytes:
    return _framed(Kind.ANSWER, _to_msgpack(item))


def _framed(kind: Kind, body: bytes, traffic_class: int = 0, sequence: int = 0) -> bytes:
    return HEADER.pack(HEADER.size - LENGTH_BYTES + len(body), kind, 0, traffic_class, sequence) + body


_PUBLICATIONS: dict[type, Callable[[Frame, Any], bytes]] = {
    Publish: _publish,
    PublishRequest: _publish_request,
    Deliver: _deliver,
}

_OTHERS: dict[type, Callable[[Any], bytes]] = {
    Opening: _opening,
    Closing: _closing,
    Hello: _hello,
    Ack: _ack,
    Command: _command,
    Answer: _answer,
}
