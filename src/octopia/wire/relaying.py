"""Frames of publications, read from bytes and written to bytes without a Python object per field.

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
from octopia.protocol.traffic import HEADER_BYTES
from octopia.protocol.transit import Deliver, Frame, Publish, PublishRequest
from octopia.wire import checks, words
from octopia.wire.encoding import prepare
from octopia.wire.format import ATTRIBUTES_BYTES_MAX, CIV_WIDTH_MAX, LENGTH_BYTES, ORDERED, PUBLICATION, Kind

IS_COMPILED = not __file__.endswith(".py")
"""True if this module is compiled, and so to be used."""

_PUBLISH = int(Kind.PUBLISH)
_PUBLISH_REQUEST = int(Kind.PUBLISH_REQUEST)
_DELIVER = int(Kind.DELIVER)
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

_PLACES = 256
_hosts: list[Any] = [None] * _PLACES
_regions: list[Any] = [b""] * _PLACES
_clusters = array("q", bytes(8 * _PLACES))
_singles = [(handle,) for handle in range(128)]
"""The handles of deliveries to one subscription."""


def read(data: bytes, at: int, length_max: int, items: list[Any]) -> int:
    """Append the frames of publications from an offset on, and return the offset of the first other frame.

    That is one that is not complete, not a publication, or one for the reference to judge.
    """
    size = len(data)
    start = data
    while size - at >= _HEADER:
        length = words.u32(start, at)
        end = at + _LENGTH + length
        if end > size or length < _REST or length > length_max:
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


def _message(data: bytes, at: int, end: int) -> Any:
    """Return the message of a frame, or None if the reference must judge it."""
    start = data
    kind = start[at + 4]
    region_bytes = words.u16(start, at + 54)
    extra_bytes = words.u32(start, at + 56)
    attributes_bytes = words.u32(start, at + 60)
    extra_at = at + _HEADER + region_bytes
    attributes_at = extra_at + extra_bytes
    payload_at = attributes_at + attributes_bytes
    published_ms = words.f64(start, at + 40)
    if payload_at > end or attributes_bytes > _ATTRIBUTES_MAX or end - payload_at > _PAYLOAD_MAX:
        return None
    if not -_INFINITY < published_ms < _INFINITY:
        return None
    if kind == _PUBLISH_REQUEST:
        return _request(data, at, attributes_at, payload_at, end, published_ms)
    cluster = words.u16(start, at + 52)
    place = _host_place(data, at + _HEADER, region_bytes, cluster)
    if place < 0:
        return None
    if kind == _PUBLISH and not extra_bytes:
        return _publish(data, at, attributes_at, payload_at, end, published_ms, place)
    if kind == _DELIVER:
        return _deliver(data, at, extra_at, attributes_at, payload_at, end, published_ms, place)
    return None


def _publish(
    data: bytes, at: int, attributes_at: int, payload_at: int, end: int, published_ms: float, place: int
) -> Any:
    start = data
    clusters = start[at + 5]
    ordered = clusters >= _ORDERED
    if ordered:
        clusters -= _ORDERED
    bits = words.u64(start, at + 16)
    traffic_class = words.ones(bits)
    if words.u16(start, at + 6) != traffic_class or clusters > _CLUSTERS_MAX:
        return None
    if clusters < _CLUSTERS_MAX and bits >> clusters:
        return None
    publication = scanned(data[attributes_at:payload_at], data[payload_at:end])
    if publication is None:
        return None
    message = Publish.__new__(Publish)
    message.publication = publication
    message.published_ms = published_ms
    message.traffic_class = traffic_class
    message.size_bytes = _HEADER_SIZE + publication._size
    message.host_broker = _hosts[place]
    message.cluster = _clusters[place]
    message.region = _regions[place]
    message.incarnation = words.u64(start, at + 24)
    message.number = words.u64(start, at + 32)
    message.clusters = clusters
    message.bits = bits
    message.hop = words.u32(start, at + 48)
    message.detour = None
    message.ordered = ordered
    return message


def _request(data: bytes, at: int, attributes_at: int, payload_at: int, end: int, published_ms: float) -> Any:
    start = data
    # Everything that a request does not have is zero: width and class, CIV and incarnation, hop, cluster, parts.
    if words.u16(start, at + 5) or start[at + 7] or words.u64(start, at + 16) or words.u64(start, at + 24):
        return None
    if words.u64(start, at + 48) or words.u32(start, at + 56):
        return None
    publication = scanned(data[attributes_at:payload_at], data[payload_at:end])
    if publication is None:
        return None
    message = PublishRequest.__new__(PublishRequest)
    message.publication = publication
    message.published_ms = published_ms
    message.traffic_class = 0
    message.size_bytes = _HEADER_SIZE + publication._size
    message.sequence = words.u64(start, at + 32)
    return message


def _deliver(
    data: bytes,
    at: int,
    extra_at: int,
    attributes_at: int,
    payload_at: int,
    end: int,
    published_ms: float,
    place: int,
) -> Any:
    start = data
    if start[at + 5] or words.u16(start, at + 6) != _CONTROL or words.u64(start, at + 16):
        return None
    count = attributes_at - extra_at - 1
    if not 1 <= count <= 15 or start[extra_at] != 0x90 + count:
        return None
    if count == 1 and start[extra_at + 1] <= 0x7F:
        handles: tuple[int, ...] = _singles[start[extra_at + 1]]
    else:
        numbers = []
        for index in range(extra_at + 1, attributes_at):
            if start[index] > 0x7F:
                return None
            numbers.append(start[index])
        handles = tuple(numbers)
    publication = scanned(data[attributes_at:payload_at], data[payload_at:end])
    if publication is None:
        return None
    message = Deliver.__new__(Deliver)
    message.publication = publication
    message.published_ms = published_ms
    message.traffic_class = -1
    message.size_bytes = _HEADER_SIZE + publication._size
    message.host_broker = _hosts[place]
    message.cluster = _clusters[place]
    message.region = _regions[place]
    message.incarnation = words.u64(start, at + 24)
    message.number = words.u64(start, at + 32)
    message.handles = handles
    message.hop = words.u32(start, at + 48)
    return message


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
    """Return the frames of items, one after the other; ``encode`` encodes those that are not plain publications."""
    others: list[bytes] = []
    total = 0
    for item in items:
        length = _length_of(item)
        if length < 0:
            encoded = encode(item)
            others.append(encoded)
            length = len(encoded)
        total += length
    buffer = bytearray(total)
    start = buffer
    at = 0
    index = 0
    for item in items:
        length = _put_frame(start, at, item)
        if length < 0:
            encoded = others[index]
            index += 1
            length = len(encoded)
            words.put(start, at, encoded, length)
        at += length
    return buffer


def _length_of(item: Any) -> int:
    """Return the length of the frame of a publication, or -1 if this module does not write it."""
    if type(item) is not Frame:
        return -1
    frame = item
    message = frame.message
    if type(message) is Publish:
        return _length_of_publish(message)
    if type(message) is PublishRequest:
        return _HEADER + _length_of_content(message.publication)
    return _length_of_deliver(message) if type(message) is Deliver else -1


def _length_of_publish(message: Publish) -> int:
    if message.detour is not None:
        return -1
    if not message.region:
        message.region = message.host_broker.region.encode()
    return _HEADER + len(message.region) + _length_of_content(message.publication)


def _length_of_deliver(message: Deliver) -> int:
    count = len(message.handles)
    if count > 15:
        return -1
    for handle in message.handles:
        if handle > 0x7F:
            return -1
    if not message.region:
        message.region = message.host_broker.region.encode()
    return _HEADER + len(message.region) + 1 + count + _length_of_content(message.publication)


def _length_of_content(publication: Publication) -> int:
    if not publication._encoded_attributes:
        prepare(publication)
    return len(publication._encoded_attributes) + len(publication._payload)


def _put_frame(start: bytearray, at: int, item: Any) -> int:
    """Write the frame of a publication, and return its length, or -1 if this module does not write it."""
    length = _length_of(item)
    if length < 0:
        return length
    frame = item
    message = frame.message
    if type(message) is Publish:
        _put_publish(start, at, length, frame.sequence, message)
    elif type(message) is PublishRequest:
        _put_request(start, at, length, frame.sequence, message)
    else:
        _put_deliver(start, at, length, frame.sequence, message)
    return length


def _put_publish(start: bytearray, at: int, length: int, sequence: int, message: Publish) -> None:
    start[at + 4] = _PUBLISH
    start[at + 5] = message.clusters | _ORDERED if message.ordered else message.clusters
    words.put_u16(start, at + 6, message.traffic_class)
    words.put_u64(start, at + 8, sequence)
    words.put_u64(start, at + 16, message.bits)
    words.put_u64(start, at + 24, message.incarnation)
    words.put_u64(start, at + 32, message.number)
    words.put_f64(start, at + 40, message.published_ms)
    words.put_u32(start, at + 48, message.hop)
    words.put_u16(start, at + 52, message.cluster)
    region = message.region
    words.put_u16(start, at + 54, len(region))
    words.put(start, at + _HEADER, region, len(region))
    _put_content(start, at, length, at + _HEADER + len(region), message.publication)


def _put_request(start: bytearray, at: int, length: int, sequence: int, message: PublishRequest) -> None:
    start[at + 4] = _PUBLISH_REQUEST
    words.put_u64(start, at + 8, sequence)
    words.put_u64(start, at + 32, message.sequence)
    words.put_f64(start, at + 40, message.published_ms)
    _put_content(start, at, length, at + _HEADER, message.publication)


def _put_deliver(start: bytearray, at: int, length: int, sequence: int, message: Deliver) -> None:
    start[at + 4] = _DELIVER
    words.put_u16(start, at + 6, _CONTROL)
    words.put_u64(start, at + 8, sequence)
    words.put_u64(start, at + 24, message.incarnation)
    words.put_u64(start, at + 32, message.number)
    words.put_f64(start, at + 40, message.published_ms)
    words.put_u32(start, at + 48, message.hop)
    words.put_u16(start, at + 52, message.cluster)
    region = message.region
    words.put_u16(start, at + 54, len(region))
    words.put_u32(start, at + 56, 1 + len(message.handles))
    words.put(start, at + _HEADER, region, len(region))
    place = at + _HEADER + len(region)
    start[place] = 0x90 + len(message.handles)
    for handle in message.handles:
        place += 1
        start[place] = handle
    _put_content(start, at, length, place + 1, message.publication)


def _put_content(start: bytearray, at: int, length: int, place: int, publication: Publication) -> None:
    encoded = publication._encoded_attributes
    payload = publication._payload
    words.put_u32(start, at, length - _LENGTH)
    words.put_u32(start, at + 60, len(encoded))
    words.put(start, place, encoded, len(encoded))
    words.put(start, place + len(encoded), payload, len(payload))
