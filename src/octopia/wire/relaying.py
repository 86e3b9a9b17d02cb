"""Frames of publications and acknowledgements, read from and written to bytes without a Python object per field.

Plain Python that Cython compiles (``relaying.pxd`` has the C types). ``decoding`` and ``encoding`` are the reference:
they handle every frame, and give the error of a malformed one. This module reads the frames that it knows to be valid,
and leaves everything else to them. A publication is relayed as the bytes that were received, behind a new header.

Only the compiled module is used; as plain Python it would be slower than the reference.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from octopia.content.limits import PUBLICATION_PAYLOAD_BYTES_MAX
from octopia.content.publications import Publication, scanned
from octopia.errors import OctopiaError
from octopia.protocol.frames import Ack, Grant
from octopia.protocol.traffic import HEADER_BYTES
from octopia.protocol.transit import Data, Deliver, Frame, Numbered, Publish, PublishRequest
from octopia.wire import checks, words
from octopia.wire.decoding import REFUSALS
from octopia.wire.encoding import prepare
from octopia.wire.extras import detour_of, encoded_detour, encoded_handles, handles_of
from octopia.wire.format import (
    ACK,
    ATTRIBUTES_BYTES_MAX,
    CIV_WIDTH_MAX,
    HEADER,
    LENGTH_BYTES,
    ORDERED,
    PLACED,
    PUBLICATION,
    Kind,
)

IS_COMPILED = not __file__.endswith(".py")
"""True if this module is compiled, and so to be used."""

_PUBLISH = int(Kind.PUBLISH)
_PUBLISH_REQUEST = int(Kind.PUBLISH_REQUEST)
_DELIVER = int(Kind.DELIVER)
_ACK = int(Kind.ACK)
_ACK_BYTES = HEADER.size + ACK.size
_PLACED_BYTES = PLACED.size
_HEADER = PUBLICATION.size
_REST = PUBLICATION.size - LENGTH_BYTES
_LENGTH = LENGTH_BYTES
_ORDERED = ORDERED
_CLUSTERS_MAX = CIV_WIDTH_MAX
_ATTRIBUTES_MAX = ATTRIBUTES_BYTES_MAX
_PAYLOAD_MAX = PUBLICATION_PAYLOAD_BYTES_MAX
_CONTROL = 0xFFFF
_HEADER_SIZE = HEADER_BYTES
_INFINITY = float("inf")
_REMEMBERED_MAX = 1024

_PLACES = 256
_hosts: list[Any] = [None] * _PLACES
_regions: list[Any] = [b""] * _PLACES
_clusters = array("q", bytes(8 * _PLACES))
_last_host: Any = None
_last_region = b""
_handles: list[Any] = [None] * _PLACES
_encoded_handles: list[Any] = [b""] * _PLACES


def read(data: bytes, at: int, publication_max: int, control_max: int, items: list[Any]) -> int:
    """Append publications and acknowledgements from an offset on, and return the offset of the first other frame.

    That is one that is not complete, of another kind, or one for the reference to judge.
    """
    size = len(data)
    start = data
    while size - at >= _ACK_BYTES:
        length = words.u32(start, at)
        end = at + _LENGTH + length
        if end > size:
            break
        if start[at + 4] == _ACK:
            ack = _acknowledgement(data, at, end) if length <= control_max else None
            if ack is None:
                break
            items.append(ack)
            at = end
            continue
        if length < _REST or length > publication_max:
            break
        message = _message(data, at, end)
        if message is None:
            break
        frame = Frame.__new__(Frame)
        frame.sequence = words.u64(start, at + 8)
        frame.message = message
        items.append(frame)
        at = end
    return at


def _acknowledgement(data: bytes, at: int, end: int) -> Any:
    """Return the acknowledgement of a frame, or None if the reference must judge it."""
    start = data
    if end - at < _ACK_BYTES or start[at + 5] or words.u16(start, at + 6) or words.u64(start, at + 8):
        return None
    held_ms = words.f64(start, at + 40)
    asks = start[at + 48]
    place = at + _ACK_BYTES
    if end != place + _PLACED_BYTES * start[at + 49] or asks > 1 or not 0.0 <= held_ms < _INFINITY:
        return None
    placed: list[tuple[int, int]] = []
    before = -1
    while place < end:
        traffic_class = start[place]
        if traffic_class <= before or traffic_class > _CLUSTERS_MAX:
            return None
        placed.append((traffic_class, words.u64(start, place + 1)))
        before = traffic_class
        place += _PLACED_BYTES
    grant = Grant(words.u64(start, at + 24), words.u64(start, at + 32), tuple(placed))
    return Ack(words.u64(start, at + 16), grant, held_ms, asks == 1)


def _message(data: bytes, at: int, end: int) -> Any:
    """Return the message of a frame, or None if the reference must judge it."""
    start = data
    kind = start[at + 4]
    region_bytes = words.u16(start, at + 54)
    extra_at = at + _HEADER + region_bytes
    attributes_at = extra_at + words.u32(start, at + 56)
    attributes_bytes = words.u32(start, at + 60)
    payload_at = attributes_at + attributes_bytes
    published_ms = words.f64(start, at + 40)
    if payload_at > end or attributes_bytes > _ATTRIBUTES_MAX or end - payload_at > _PAYLOAD_MAX:
        return None
    if not -_INFINITY < published_ms < _INFINITY:
        return None
    message: Any
    if kind == _PUBLISH:
        message = _publish(data, at, extra_at, attributes_at)
    elif kind == _DELIVER:
        message = _deliver(data, at, extra_at, attributes_at)
    elif kind == _PUBLISH_REQUEST:
        message = _request(data, at)
    else:
        return None
    if message is None:
        return None
    if kind != _PUBLISH_REQUEST and not _name(message, data, at, region_bytes):
        return None
    publication = scanned(words.cut(start, attributes_at, payload_at), words.cut(start, payload_at, end))
    if publication is None:
        return None
    message.publication = publication
    message.size_bytes = _HEADER_SIZE + publication._size
    message.published_ms = published_ms
    return message


def _publish(data: bytes, at: int, extra_at: int, attributes_at: int) -> Publish | None:
    start = data
    clusters = start[at + 5]
    ordered = clusters >= _ORDERED
    if ordered:
        clusters -= _ORDERED
    bits = words.u64(start, at + 16)
    if clusters > _CLUSTERS_MAX or (clusters < _CLUSTERS_MAX and bits >> clusters):
        return None
    traffic_class = words.ones(bits)
    detour = None
    if extra_at < attributes_at:
        try:
            detour = detour_of(words.cut(start, extra_at, attributes_at))
        except REFUSALS:
            return None
        traffic_class = detour.lane
    if words.u16(start, at + 6) != traffic_class:
        return None
    message = Publish.__new__(Publish)
    message.traffic_class = traffic_class
    message.clusters = clusters
    message.bits = bits
    message.detour = detour
    message.ordered = ordered
    return message


def _deliver(data: bytes, at: int, extra_at: int, attributes_at: int) -> Deliver | None:
    start = data
    if start[at + 5] or words.u16(start, at + 6) != _CONTROL or words.u64(start, at + 16):
        return None
    message = Deliver.__new__(Deliver)
    message.encoded = b""
    message.is_shared = False
    try:
        message.handles = handles_of(words.cut(start, extra_at, attributes_at))
    except REFUSALS:
        return None
    message.traffic_class = -1
    return message


def _request(data: bytes, at: int) -> PublishRequest | None:
    start = data
    # Everything that a request does not have is zero: width and class, CIV and incarnation, hop, cluster, parts.
    if words.u16(start, at + 5) or start[at + 7] or words.u64(start, at + 16) or words.u64(start, at + 24):
        return None
    if words.u64(start, at + 48) or words.u32(start, at + 56):
        return None
    message = PublishRequest.__new__(PublishRequest)
    message.traffic_class = 0
    message.sequence = words.u64(start, at + 32)
    return message


def _name(message: Numbered, data: bytes, at: int, region_bytes: int) -> bool:
    """Set the id and the hop of a publication; return False if no host broker can have this name."""
    start = data
    place = _host_place(data, at + _HEADER, region_bytes, words.u16(start, at + 52))
    if place < 0:
        return False
    message.host_broker = _hosts[place]
    message.cluster = _clusters[place]
    message.region = _regions[place]
    message.incarnation = words.u64(start, at + 24)
    message.number = words.u64(start, at + 32)
    message.hop = words.u32(start, at + 48)
    return True


def _host_place(data: bytes, at: int, length: int, cluster: int) -> int:
    """Return the place of a host broker in the table of recent ones, or -1 if there can be none of this name."""
    if not length:
        return -1
    start = data
    place = (start[at] + 7 * start[at + length - 1] + 31 * cluster + length) & (_PLACES - 1)
    region = _regions[place]
    if len(region) == length and _clusters[place] == cluster and words.same(start, at, region, length):
        return place
    region = data[at : at + length]
    try:
        host = checks.host_broker(region, cluster)
    except (OctopiaError, UnicodeError):
        return -1
    _hosts[place] = host
    _regions[place] = region
    _clusters[place] = cluster
    return place


# Writing.


def write(items: list[Any], encode: Callable[[Any], bytes]) -> bytearray:
    """Return the frames of items, one after the other; ``encode`` encodes those that do not carry a publication."""
    parts: list[bytes] = []
    total = 0
    for item in items:
        total += _prepare(item, parts, encode)
    buffer = bytearray(total)
    start = buffer
    at = 0
    for index in range(len(items)):
        at = _put_frame(start, at, items[index], parts[index])
    return buffer


def _prepare(item: Any, parts: list[bytes], encode: Callable[[Any], bytes]) -> int:
    """Append the extra part of a publication, or a whole frame of another kind; return the length of the frame."""
    if type(item) is Frame:
        frame = item
        message = frame.message
        if type(message) is Publish:
            publish = message
            return _prepare_numbered(publish, b"" if publish.detour is None else encoded_detour(publish.detour), parts)
        if type(message) is Deliver:
            delivery = message
            if delivery.is_shared:
                if not delivery.encoded:
                    _encode_shared(delivery)
                parts.append(delivery.encoded)
                return len(delivery.encoded)
            return _prepare_numbered(delivery, _encode_handles(delivery.handles), parts)
        if type(message) is PublishRequest:
            request = message
            parts.append(b"")
            return _HEADER + _length_of_content(request.publication)
    encoded = _encoded_ack(item) if type(item) is Ack else encode(item)
    parts.append(encoded)
    return len(encoded)


def _encoded_ack(ack: Any) -> bytes:
    """Return the frame of an acknowledgement."""
    grant = ack.grant
    placed = grant.placed_bytes
    end = _ACK_BYTES + _PLACED_BYTES * len(placed)
    buffer = bytearray(end)
    start = buffer
    words.put_u32(start, 0, end - _LENGTH)
    start[4] = _ACK
    words.put_u64(start, 16, ack.accepted)
    words.put_u64(start, 24, grant.number)
    words.put_u64(start, 32, grant.window_bytes)
    words.put_f64(start, 40, ack.held_ms)
    start[48] = ack.asks
    start[49] = len(placed)
    at = _ACK_BYTES
    for traffic_class, placed_bytes in placed:
        start[at] = traffic_class
        words.put_u64(start, at + 1, placed_bytes)
        at += _PLACED_BYTES
    return bytes(buffer)


def _encode_shared(delivery: Deliver) -> None:
    """Keep the frame of a delivery with the number 0; every client gets it with its own."""
    parts: list[bytes] = []
    buffer = bytearray(_prepare_numbered(delivery, _encode_handles(delivery.handles), parts))
    start = buffer
    start[4] = _DELIVER
    _put_numbered(start, 0, 0, delivery, parts[0])
    delivery.encoded = bytes(buffer)


def _encode_handles(handles: tuple[int, ...]) -> bytes:
    """Return the bytes of handles; those of the same delivery plan are found by their identity."""
    place = words.place_of(handles)
    if _handles[place] is handles:
        return _encoded_handles[place]  # type: ignore[no-any-return]
    encoded = encoded_handles(handles)
    if len(encoded) <= _REMEMBERED_MAX:
        _handles[place] = handles
        _encoded_handles[place] = encoded
    return encoded


def _prepare_numbered(message: Numbered, extra: bytes, parts: list[bytes]) -> int:
    parts.append(extra)
    if not message.region:
        message.region = _region_of(message.host_broker)
    return _HEADER + len(message.region) + len(extra) + _length_of_content(message.publication)


def _region_of(host_broker: Any) -> bytes:
    """Return the region of a host broker in bytes; new publications have the same one all the time."""
    global _last_host, _last_region
    if host_broker is not _last_host:
        _last_region = host_broker.region.encode()
        _last_host = host_broker
    return _last_region


def _length_of_content(publication: Publication) -> int:
    if not publication._encoded_attributes:
        prepare(publication)
    return len(publication._encoded_attributes) + len(publication._payload)


def _put_frame(start: bytearray, at: int, item: Any, part: bytes) -> int:
    """Write a frame, and return the offset behind it."""
    if type(item) is Frame:
        frame = item
        message = frame.message
        if type(message) is Publish:
            publish = message
            start[at + 4] = _PUBLISH
            start[at + 5] = publish.clusters | _ORDERED if publish.ordered else publish.clusters
            words.put_u64(start, at + 16, publish.bits)
            return _put_numbered(start, at, frame.sequence, publish, part)
        if type(message) is Deliver:
            delivery = message
            if delivery.is_shared:
                words.put(start, at, part, len(part))
                words.put_u64(start, at + 8, frame.sequence)
                return at + len(part)
            start[at + 4] = _DELIVER
            return _put_numbered(start, at, frame.sequence, delivery, part)
        if type(message) is PublishRequest:
            request = message
            start[at + 4] = _PUBLISH_REQUEST
            words.put_u64(start, at + 32, request.sequence)
            return _put_content(start, at, frame.sequence, request, at + _HEADER)
    words.put(start, at, part, len(part))
    return at + len(part)


def _put_numbered(start: bytearray, at: int, sequence: int, message: Numbered, extra: bytes) -> int:
    region = message.region
    extra_at = at + _HEADER + len(region)
    words.put_u16(start, at + 6, message.traffic_class)
    words.put_u64(start, at + 24, message.incarnation)
    words.put_u64(start, at + 32, message.number)
    words.put_u32(start, at + 48, message.hop)
    words.put_u16(start, at + 52, message.cluster)
    words.put_u16(start, at + 54, len(region))
    words.put_u32(start, at + 56, len(extra))
    words.put(start, at + _HEADER, region, len(region))
    words.put(start, extra_at, extra, len(extra))
    return _put_content(start, at, sequence, message, extra_at + len(extra))


def _put_content(start: bytearray, at: int, sequence: int, message: Data, place: int) -> int:
    publication = message.publication
    encoded = publication._encoded_attributes
    payload = publication._payload
    payload_at = place + len(encoded)
    end = payload_at + len(payload)
    words.put_u32(start, at, end - at - _LENGTH)
    words.put_u64(start, at + 8, sequence)
    words.put_f64(start, at + 40, message.published_ms)
    words.put_u32(start, at + 60, len(encoded))
    words.put(start, place, encoded, len(encoded))
    words.put(start, payload_at, payload, len(payload))
    return end
