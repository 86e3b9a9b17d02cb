"""The protocol: everything that both ends of a link must agree on.

Messages and their kinds, cluster index vectors, traffic classes and sizes, the items of a session, and the handshake.
Brokers, sessions, the wire format and clients all build on this package. It holds values only.

Other routing schemes add their own messages with ``registry.register``; nothing here knows them.
"""

from octopia.protocol.causes import Cause
from octopia.protocol.civ import ClusterIndexVector
from octopia.protocol.frames import Ack, Frame, Grant, Hello, Item
from octopia.protocol.handshake import CloseCode, Closing, Opening, Overflow, Role
from octopia.protocol.kinds import MessageKind
from octopia.protocol.operations import Answer, Command, Verb
from octopia.protocol.traffic import ALL_CLASSES, CONTROL, CONTROL_ONLY

__all__ = [
    "ALL_CLASSES",
    "CONTROL",
    "CONTROL_ONLY",
    "Ack",
    "Answer",
    "Cause",
    "CloseCode",
    "Closing",
    "ClusterIndexVector",
    "Command",
    "Frame",
    "Grant",
    "Hello",
    "Item",
    "MessageKind",
    "Opening",
    "Overflow",
    "Role",
    "Verb",
    "WireItem",
]

WireItem = Opening | Closing | Command | Answer | Item
"""Everything that travels over a connection."""
