"""The format of frames: the only module that knows the order and the widths of their fields.

Theory of operation
-------------------

The traffic of a connection is a sequence of frames. A frame is a header of fixed width and a body; all numbers of the
header are little endian. The first five bytes are the length and the kind, so a reader knows at once whether it accepts
the frame, and can skip to the next one without looking further.

================  =======  ==========================================================================================
offset            width    every frame
================  =======  ==========================================================================================
0                 u32      length: the number of bytes that follow this field
4                 u8       kind (``Kind``)
5                 u8       clusters: the width of the publication_civ, 1 to 64; 0 if there is none; plus 128 if ordered
6                 i16      traffic class: bits in the publication_civ, or the lane of a Detour; -1 for control
8                 u64      sequence: the sequence number on the link
================  =======  ==========================================================================================

All fields except length and kind are 0 in frames that are not a session ``Frame``. The body of an Ack has a fixed
layout:

================  =======  ==========================================================================================
offset            width    acknowledgements only
================  =======  ==========================================================================================
16                u64      accepted: the number of the last accepted frame
24                u64      number of the grant
32                u64      window: the bytes of each class that may be sent in addition to the placed ones
40                f64      held_ms: the time from the arrival of the last frame to this acknowledgement
48                u8       1 if the sender asks for an acknowledgement, else 0
49                u8       number of classes that follow, in order, each once
50                u8       class
51                u64      bytes of this class that were placed
..                ..       the next class
================  =======  ==========================================================================================

The body of any other such frame, and of a control message, is one msgpack object. A publication continues with the
fields that may change from hop to hop:

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
..                bytes    extra part, msgpack: a Detour, or the handles of a Deliver, or that of another routing scheme
..                bytes    attributes: a msgpack map of names to values, each name once
..                bytes    payload: the rest of the frame
================  =======  ==========================================================================================

A Detour is the array [lane, ilinks, origin, [[region, bits], ...]] without trailing defaults. Its origin is nil for
``Origin.HOST``, true for ``Origin.LOCAL``, or a region. Copies without a Detour have no extra part.

Attributes and payload are the publisher's own bytes. Each broker checks them once, decodes them only if a filter must
be evaluated, and never encodes them. A publication keeps the bytes of its attributes
(``Publication.encoded_attributes``). It is forwarded by packing a header and joining it with the received bytes. So the
bytes travel unchanged from publisher to subscriber over any number of links, and the publisher encodes them once, even
if they wait in many queues.

The body of an Opening starts with a magic word and the protocol version, which keep their place in all versions.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from typing import Final


class Kind(enum.IntEnum):
    """The kinds of frame; the numbers are part of the wire format and never change."""

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
        """True if a frame of this kind has the longer header."""
        return Kind.PUBLISH <= self <= Kind.OTHER_COPY


VERSION: Final = 3
"""The protocol version, in every Opening."""

MAGIC: Final = b"OCTO"

START = struct.Struct("<IB")
HEADER = struct.Struct("<IBBhQ")
PUBLICATION = struct.Struct("<IBBhQQQQdIHHII")
GREETING = struct.Struct("<4sH")
ACK = struct.Struct("<QQQdBB")
PLACED = struct.Struct("<BQ")

LENGTH_BYTES: Final = 4
"""The size of the length field, which the length itself does not include."""

CIV_WIDTH_MAX: Final = 64

ORDERED: Final = 0x80
"""The bit of the ``clusters`` byte that marks an ordered publication; no width needs it."""

ILINKS_MAX: Final = 255
"""The maximum number of iLinks that a detour may have crossed in a region; routing stops far below it."""

REGION_BYTES_MAX: Final = 255
"""The maximum length of a region's name; names are cached, so they must be bounded."""

ATTRIBUTES_BYTES_MAX: Final = 256 * 1024
"""The maximum length of encoded attributes; equal on all links, so a received publication fits the next link."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The maximum length of frames, without the length field.

    The control messages of brokers may need more than the default: a digest at link up names every subscription behind
    the link.
    """

    publication_bytes_max: int = (1024 + 512) * 1024
    control_bytes_max: int = 1024 * 1024
