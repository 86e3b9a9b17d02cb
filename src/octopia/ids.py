"""Identifiers of brokers, clients, advertisements, subscriptions and publications.

Identifiers are immutable, hashable, ordered and picklable. A broker is identified by its region and its cluster; the
paper's B(b,3) is ``b.3``. Advertisements, subscriptions and publications are identified by their host broker, its
incarnation and a number, so that no id is ever used twice, not even by a broker that restarts without memory. There are
very many of them and they are never part of a cycle, so the garbage collector ignores them (``gc=False``).
"""

from __future__ import annotations

import enum
import re
from typing import TypeAlias

import msgspec

from octopia.errors import UnknownBroker

_BROKER = re.compile(r"([A-Za-z][A-Za-z0-9_]*)\.(0|[1-9][0-9]{0,5})\Z")


class BrokerId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """A broker: the intersection of a region (column) and a cluster (row) of the overlay.

    Brokers are ordered by region (code points), then by cluster (as a number).
    """

    region: str
    cluster: int

    @classmethod
    def parse(cls, text: str) -> BrokerId:
        """Parse the text form, ``b.3``."""
        found = _BROKER.match(text)
        if not found:
            raise UnknownBroker(f"expected a broker as region.cluster, such as b.3, got {text!r}")
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.region}.{self.cluster}"


class ClientId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False, tag="client"):
    """A client of a broker, for as long as one session lasts.

    The name is unique at its broker at any time. ``session`` tells a client from an earlier one of the same name, so
    nothing that was meant for the one ever reaches the other.
    """

    name: str
    session: int = 0

    def __str__(self) -> str:
        return self.name


Peer: TypeAlias = BrokerId | ClientId
"""The other end of a link, as a broker sees it. A broker has at most one link to a peer, so the peer names the link."""


class LinkKind(enum.StrEnum):
    """The kind of a link: between brokers of a cluster, between brokers of a region, or to a client."""

    ALINK = "alink"
    ILINK = "ilink"
    CLIENT = "client"


class AdvertisementId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """An advertisement, numbered by the host broker of its publisher."""

    host_broker: BrokerId
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.host_broker}/{self.incarnation}/{self.number}"


class SubscriptionId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """A subscription, numbered by the host broker of its subscriber."""

    host_broker: BrokerId
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.host_broker}/{self.incarnation}/{self.number}"


class PublicationId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """A publication, numbered by the host broker of its publisher."""

    host_broker: BrokerId
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.host_broker}/{self.incarnation}/{self.number}"
