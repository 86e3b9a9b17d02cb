"""Publications: named attributes, which filters see, and a payload, which only clients read.

Plain Python that Cython compiles (``publications.pxd``). A publication holds the bytes of its attributes, which are
decoded when somebody first reads them. Uncompiled, one that was made by a program holds a dict instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from octopia.content.encoded import IS_COMPILED, check
from octopia.content.limits import (
    NUMBER_BYTES,
    PUBLICATION_ATTRIBUTES_MAX,
    PUBLICATION_PAYLOAD_BYTES_MAX,
    STRING_LENGTH_MAX,
)
from octopia.content.packing import Packer
from octopia.content.values import Value, check_name, check_value, same_value, shorten
from octopia.errors import InvalidPublication

_decode = msgspec.msgpack.Decoder(dict[str, int | float | str | bool]).decode
_packer = Packer()
_PACKS = IS_COMPILED


class Publication:
    """An immutable set of attributes with values, at least one, and an opaque payload.

    Two publications are equal if their payloads are equal and their attributes have equal values of the same Python
    types, in any order.
    """

    __slots__ = ("_attributes", "_encoded_attributes", "_payload", "_size")

    def __init__(self, attributes: Mapping[str, Value], payload: bytes = b""):
        encoded = _packer.pack(attributes) if _PACKS and type(attributes) is dict else b""
        size = _packer.size
        self._attributes: Mapping[str, Value] | None = None if encoded else _checked_attributes(attributes)
        if type(payload) is not bytes or len(payload) > PUBLICATION_PAYLOAD_BYTES_MAX:
            raise _wrong_payload(payload)
        self._payload = payload
        self._encoded_attributes = encoded
        self._size = size + len(payload) if encoded else 0

    @staticmethod
    def trusted(attributes: Mapping[str, Value], payload: bytes = b"") -> Publication:
        """Return a publication of data that was checked before; the mapping is kept, not copied."""
        return _make(attributes, b"", payload, 0)

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The values by name; do not change them."""
        if self._attributes is None:
            self._attributes = _decode(self._encoded_attributes)
        return self._attributes

    @property
    def payload(self) -> bytes:
        """The payload, which brokers do not read."""
        return self._payload

    @property
    def size(self) -> int:
        """The approximate size of names, values and payload on the wire, in bytes."""
        if not self._size:
            size = len(self._payload)
            for name, value in self.attributes.items():
                size += len(name) + (len(value) if type(value) is str else NUMBER_BYTES)
            self._size = size
        return self._size

    @property
    def encoded_attributes(self) -> bytes:
        """The attributes in wire format, or empty if they are not known yet.

        They come from ``octopia.wire``, so that a publication is forwarded as the bytes that were received, and are
        neither compared nor pickled.
        """
        return self._encoded_attributes

    @encoded_attributes.setter
    def encoded_attributes(self, encoded: bytes) -> None:
        self._encoded_attributes = encoded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Publication):
            return NotImplemented
        mine, theirs = self.attributes, other.attributes
        return (
            self.payload == other.payload
            and len(mine) == len(theirs)
            and all(name in theirs and same_value(value, theirs[name]) for name, value in mine.items())
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.attributes.items()), self.payload))

    def __repr__(self) -> str:
        payload = f", payload={shorten(self.payload)}" if self.payload else ""
        return f"Publication({dict(self.attributes)!r}{payload})"

    def __reduce__(self) -> tuple[object, ...]:
        return Publication.trusted, (dict(self.attributes), self.payload)


def scanned(encoded: bytes, payload: bytes) -> Publication | None:
    """Return a publication of received bytes, or None if the scan does not know whether its attributes are right.

    The length of the payload is not checked.
    """
    size = check(encoded)
    return None if size < 0 else _make(None, encoded, payload, size + len(payload))


def _make(attributes: Mapping[str, Value] | None, encoded: bytes, payload: bytes, size: int) -> Publication:
    publication = Publication.__new__(Publication)
    publication._attributes = attributes
    publication._encoded_attributes = encoded
    publication._payload = payload
    publication._size = size
    return publication


def _checked_attributes(attributes: Mapping[str, Value]) -> dict[str, Value]:
    if not isinstance(attributes, Mapping):
        raise InvalidPublication(f"expected a mapping of attributes, got {type(attributes).__qualname__}")
    if not 1 <= len(attributes) <= PUBLICATION_ATTRIBUTES_MAX:
        raise InvalidPublication(
            f"expected 1 to {PUBLICATION_ATTRIBUTES_MAX} attributes in a publication, got {len(attributes)}"
        )
    copied = dict(attributes)
    for name, value in copied.items():
        check_name(name, "in a publication", InvalidPublication)
        check_value(value, f"for the attribute {name}", InvalidPublication)
        if type(value) is str and len(value) > STRING_LENGTH_MAX:
            raise InvalidPublication(
                f"expected a string of at most {STRING_LENGTH_MAX} characters for the attribute {name}, "
                f"got {len(value)}: longer texts belong in the payload"
            )
    return copied


def _wrong_payload(payload: object) -> InvalidPublication:
    if type(payload) is not bytes:
        return InvalidPublication(f"expected a payload of bytes, got {type(payload).__qualname__}")
    return InvalidPublication(
        f"expected a payload of at most {PUBLICATION_PAYLOAD_BYTES_MAX} bytes, got {len(payload)}"
    )
