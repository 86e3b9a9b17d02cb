"""The message types that a frame can carry, by their encoding.

Control messages are encoded as tagged msgpack. Another routing scheme has one more kind of data message. It registers
that and its control messages on import, so the wire format need not know them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

from octopia.content import Publication
from octopia.ids import PublicationId
from octopia.protocol.messages import BrokerMessage, ClientReply, ClientRequest, Deliver, Publish, PublishRequest

DATA_TYPES: tuple[type, ...] = (Publish, PublishRequest, Deliver)
"""The data messages that the wire format encodes itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class OtherCopies:
    """The data message of another routing scheme; its extra part holds the fields that OctopiA's copies do not have.

    ``to_extra`` encodes that part; ``make`` builds a message from id, content, extra part, hop and time.
    """

    message: type
    to_extra: Callable[[Any], bytes]
    make: Callable[[PublicationId, Publication, bytes, int, float], Any]


class Registry:
    """All message types of this process."""

    def __init__(self) -> None:
        messages = (*get_args(BrokerMessage), *get_args(ClientRequest), *get_args(ClientReply))
        self.control_types: tuple[type, ...] = tuple(each for each in messages if each not in DATA_TYPES)
        self.other_copies: OtherCopies | None = None

    @property
    def message_types(self) -> tuple[type, ...]:
        """Every type of message that a frame can carry."""
        others = (self.other_copies.message,) if self.other_copies is not None else ()
        return (*self.control_types, *DATA_TYPES, *others)

    def register(self, control_types: tuple[type, ...], copies: OtherCopies) -> None:
        """Add the messages of another routing scheme."""
        self.control_types = (*self.control_types, *control_types)
        self.other_copies = copies


REGISTRY = Registry()
