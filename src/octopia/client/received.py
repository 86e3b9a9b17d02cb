"""Publications as a subscriber receives them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from octopia.content import Publication, Value
from octopia.ids import PublicationId
from octopia.protocol.messages import Deliver


class Received(msgspec.Struct, frozen=True, gc=False):
    """A received publication. ``received["price"]`` is short for ``received.attributes["price"]``.

    Times are in ms since 1970, ``published_ms`` by the publisher's clock and ``received_ms`` by this machine's.
    """

    _delivery: Deliver
    received_ms: float

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

    def __repr__(self) -> str:
        return f"Received({dict(self.attributes)!r}, id={self.id}, payload={len(self.payload)} bytes)"
