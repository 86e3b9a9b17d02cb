"""Publications as a subscriber receives them.

Plain Python that Cython compiles (``received.pxd``), since one is made per receipt. Attributes are decoded when the
program first reads one.
"""

from __future__ import annotations

from collections.abc import Mapping

from octopia.content import Publication, Value
from octopia.ids import PublicationId
from octopia.protocol.transit import Deliver


class Received:
    """A received publication. ``received["price"]`` is short for ``received.attributes["price"]``.

    Times are in ms since 1970, ``published_ms`` by the publisher's clock and ``received_ms`` by this machine's.
    ``number`` grows with each message from the broker; it does not count publications.
    """

    __slots__ = ("_delivery", "_received_ms", "number")

    def __init__(self, delivery: Deliver, received_ms: float, number: int = 0):
        self._delivery = delivery
        self._received_ms = received_ms
        self.number = number

    @property
    def publication(self) -> Publication:
        """The publication: attributes and payload."""
        return self._delivery.publication

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The values by name."""
        return self._delivery.publication.attributes

    @property
    def payload(self) -> bytes:
        """The bytes that were published with the attributes."""
        return self._delivery.publication.payload

    @property
    def id(self) -> PublicationId:
        """The id that the publisher's host broker assigned."""
        return self._delivery.id

    @property
    def published_ms(self) -> float:
        """The time at which the publisher sent it."""
        return self._delivery.published_ms

    @property
    def received_ms(self) -> float:
        """The time at which this client received it."""
        return self._received_ms

    @property
    def hops(self) -> int:
        """The number of links between brokers that it crossed."""
        return self._delivery.hop

    def __getitem__(self, name: str) -> Value:
        return self._delivery.publication.attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._delivery.publication.attributes

    def get(self, name: str, default: Value | None = None) -> Value | None:
        """Return the value of an attribute, or the default if it is missing."""
        return self._delivery.publication.attributes.get(name, default)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Received):
            return NotImplemented
        return self._received_ms == other._received_ms and self._delivery == other._delivery

    def __hash__(self) -> int:
        return hash((self._delivery, self._received_ms))

    def __reduce__(self) -> tuple[object, ...]:
        return Received, (self._delivery, self._received_ms, self.number)

    def __repr__(self) -> str:
        return f"Received({dict(self.attributes)!r}, id={self.id}, payload={len(self.payload)} bytes)"


def received_of(delivery: Deliver, received_ms: float, number: int) -> Received:
    """Return a delivery as a program sees it."""
    received = Received.__new__(Received)
    received._delivery = delivery
    received._received_ms = received_ms
    received.number = number
    return received
