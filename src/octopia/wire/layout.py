"""How frames are laid out: the one place that knows the order and the widths of their fields.

Theory of operation
-------------------

What two ends of a connection say to each other is a sequence of frames. A frame is a header of fixed width and a body;
all numbers of the header are little endian. The first five bytes say how long the frame is and what it is, so that a
reader knows at once whether it can be taken, and needs to look no further to skip to the next one.

================  =======  ==========================================================================================
offset            width    every frame
================  =======  ==========================================================================================
0                 u32      length: the number of bytes that follow this field
4                 u8       kind (``Kind``)
5                 u8       clusters: the width of the publication_civ, 1 to 64; 0 if there is none
6                 i16      traffic class: the number of bits in the publication_civ, -1 for control
8                 u64      sequence: the place in the sequence of the link
================  =======  ==========================================================================================

All but length and kind are 0 where a frame is no session ``Frame``. The body of such a frame, and of a control message,
is one msgpack object. A publication goes on with what may differ from hop to hop:

================  =======  ==========================================================================================
offset            width    publications only
================  =======  ==========================================================================================
16                u64      the bits of the publication_civ, cluster 0 lowest
24                u64      incarnation of the host broker; 0 in a request
32                u64      number of the publication; in a request, the publisher's own number for it
40                f64      published_ms
48                u32      hop
52                u16      cluster of the host broker; 0 in a request
54                u16      length of the region of the host broker; 0 in a request
56                u32      length of the extra part
60                u32      length of the attributes
64                bytes    region of the host broker, in ASCII
..                bytes    extra part, msgpack: the handles of a Deliver; for another routing scheme, its own
..                bytes    attributes: a msgpack map of names to values, each name once
..                bytes    payload: the rest of the frame
================  =======  ==========================================================================================

Attributes and payload are what the publisher wrote. They are checked and decoded once a broker, and no broker encodes
them: a publication remembers the bytes of its attributes (``Publication.encoded_attributes``), and is forwarded by
packing a header and joining it with the bytes that came. So they travel unchanged from publisher to subscriber, over as
many links as it takes, and are encoded once by the publisher even if they stand in many queues.

An Opening begins its body with a magic word and the version of the protocol, which keep their place in all versions.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from typing import Final


class Kind(enum.IntEnum):
    """What a frame is; the numbers go over the wire and stay as they are."""

    OPENING = 1
    CLOSING = 2
    HELLO = 3
    ACK = 4
    CONTROL = 5
    PUBLISH = 6
    PUBLISH_REQUEST = 7
    DELIVER = 8
    OTHER_COPY = 9
    COMMAND = 10
    ANSWER = 11

    @property
    def is_publication(self) -> bool:
        """Whether a frame of this kind has the longer header."""
        return Kind.PUBLISH <= self <= Kind.OTHER_COPY


VERSION: Final = 1
"""The version of the protocol, in every Opening."""

MAGIC: Final = b"OCTO"

START = struct.Struct("<IB")
HEADER = struct.Struct("<IBBhQ")
PUBLICATION = struct.Struct("<IBBhQQQQdIHHII")
GREETING = struct.Struct("<4sH")

LENGTH_BYTES: Final = 4
"""The length field itself, which does not count."""

CIV_WIDTH_MAX: Final = 64

REGION_BYTES_MAX: Final = 255
"""Length of the name of a region; names are remembered, and must not fill the memory."""

ATTRIBUTES_BYTES_MAX: Final = 256 * 1024
"""Length of a publication's attributes when encoded; the same for all links: what came over one fits the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How long frames may be, without the length field.

    The control messages of brokers may need more than the default: the digest of a link that comes up names every
    subscription behind it.
    """

    publication_bytes_max: int = (1024 + 512) * 1024
    control_bytes_max: int = 1024 * 1024
