"""Publications in transit: the messages that carry one, and the frame that numbers a message on its link.

Plain Python that Cython compiles (``transit.pxd`` has the C types), since one of each is made per publication and hop.
They are values: nobody changes one after it was made, so one copy may wait in several queues.

The id of a publication and its CIV are kept as numbers. Their objects are made when somebody reads them, which brokers
on the way do not. ``region`` caches the name of the host broker's region as bytes, empty if it is not known yet.
"""

from __future__ import annotations

from typing import Any, ClassVar

from octopia.content import Publication
from octopia.ids import BrokerId, PublicationId
from octopia.protocol.civ import ClusterIndexVector
from octopia.protocol.detours import Detour
from octopia.protocol.kinds import MessageKind
from octopia.protocol.traffic import CONTROL, HEADER_BYTES

_HEADER = HEADER_BYTES
_CONTROL = CONTROL


class Data:
    """A message that carries a publication: its traffic class and its approximate size on a link."""

    __slots__ = ("publication", "published_ms", "size_bytes", "traffic_class")
    __match_args__: ClassVar[tuple[str, ...]] = ()

    publication: Publication
    published_ms: float
    traffic_class: int
    size_bytes: int

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._fields()

    def _fields(self) -> tuple[Any, ...]:
        """Return the arguments of the constructor."""
        return tuple([getattr(self, name) for name in self.__match_args__])


class Numbered(Data):
    """A publication that its host broker has numbered; ``hop`` counts the links between brokers that it has crossed."""

    __slots__ = ("cluster", "hop", "host_broker", "incarnation", "number", "region")

    host_broker: BrokerId
    cluster: int
    incarnation: int
    number: int
    hop: int
    region: bytes

    def take_name(self, host_broker: BrokerId, incarnation: int, number: int) -> None:
        """Set the parts of the id."""
        self.host_broker = host_broker
        self.cluster = host_broker.cluster
        self.region = b""
        self.incarnation = incarnation
        self.number = number

    @property
    def id(self) -> PublicationId:
        """The id that the host broker gave the publication."""
        return PublicationId(self.host_broker, self.incarnation, self.number)


def _carry_on(other: Numbered, copy: Numbered) -> None:
    """Give a message the publication of another, with all that stays the same on its way."""
    other.host_broker = copy.host_broker
    other.cluster = copy.cluster
    other.region = copy.region
    other.incarnation = copy.incarnation
    other.number = copy.number
    other.hop = copy.hop
    other.publication = copy.publication
    other.published_ms = copy.published_ms
    other.size_bytes = copy.size_bytes


class Publish(Numbered):
    """A copy of a publication on its way between brokers.

    ``publication_civ`` names the clusters that this copy must still reach; a plain copy carries none. Under adaptive
    routing it names those to enter in the receiver's region, and a copy that is not plain has a ``detour``. Copies that
    are ``ordered`` take static paths.

    The traffic class is the number of clusters left to reach, or the lane of an adaptive copy. It orders queues so that
    they cannot wait for each other in a cycle.
    """

    __slots__ = ("bits", "clusters", "detour", "ordered")
    __match_args__ = ("id", "publication", "publication_civ", "hop", "published_ms", "detour", "ordered")

    kind: ClassVar[MessageKind] = MessageKind.PUBLICATION

    clusters: int
    bits: int
    detour: Detour | None
    ordered: bool

    def __init__(
        self,
        id: PublicationId,  # noqa: A002 (its name on every message)
        publication: Publication,
        publication_civ: ClusterIndexVector | None,
        hop: int,
        published_ms: float,
        detour: Detour | None = None,
        ordered: bool = False,
    ):
        self.take_name(id.host_broker, id.incarnation, id.number)
        self.publication = publication
        self.hop = hop
        self.published_ms = published_ms
        self.ordered = ordered
        self.size_bytes = _HEADER + publication.size
        self.direct(publication_civ, detour)

    def direct(self, publication_civ: ClusterIndexVector | None, detour: Detour | None) -> None:
        """Set the part of the header that says where a new copy goes."""
        self.detour = detour
        self.clusters = 0
        self.bits = 0
        self.traffic_class = 0
        if publication_civ is not None:
            self.clusters = publication_civ.clusters
            self.bits = publication_civ.bits
            self.traffic_class = publication_civ.bits.bit_count()
        if detour is not None:
            self.traffic_class = detour.lane

    @property
    def publication_civ(self) -> ClusterIndexVector | None:
        """The clusters that this copy must still reach, or None."""
        return ClusterIndexVector(self.bits, self.clusters) if self.clusters else None

    def copy(self, publication_civ: ClusterIndexVector | None, detour: Detour | None, hops: int) -> Publish:
        """Return a copy of this one with another header, ``hops`` hops further on."""
        other = further(self, hops)
        other.direct(publication_civ, detour)
        return other


def further(copy: Publish, hops: int) -> Publish:
    """Return a plain copy of a publication, ``hops`` hops further on."""
    other = Publish.__new__(Publish)
    _carry_on(other, copy)
    other.hop += hops
    other.ordered = copy.ordered
    other.direct(None, None)
    return other


class PublishRequest(Data):
    """A publisher's request to publish; ``sequence`` is its own number for the publication."""

    __slots__ = ("sequence",)
    __match_args__ = ("sequence", "publication", "published_ms")

    sequence: int

    def __init__(self, sequence: int, publication: Publication, published_ms: float):
        self.sequence = sequence
        self.publication = publication
        self.published_ms = published_ms
        self.traffic_class = 0
        self.size_bytes = _HEADER + publication.size


class Deliver(Numbered):
    """A publication for a client, naming all of its matching subscriptions by handle.

    Clients grant no credit: the queue of a slow one is bounded. So this is data that travels in the control class.

    Clients with the same handles may share a delivery. It then keeps its ``encoded`` frame, once there is one.
    """

    __slots__ = ("encoded", "handles", "is_shared")
    __match_args__ = ("id", "publication", "handles", "hop", "published_ms")

    encoded: bytes
    handles: tuple[int, ...]
    is_shared: bool

    def __init__(
        self,
        id: PublicationId,  # noqa: A002 (its name on every message)
        publication: Publication,
        handles: tuple[int, ...],
        hop: int,
        published_ms: float,
    ):
        self.take_name(id.host_broker, id.incarnation, id.number)
        self.publication = publication
        self.encoded = b""
        self.handles = handles
        self.is_shared = False
        self.hop = hop
        self.published_ms = published_ms
        self.traffic_class = _CONTROL
        self.size_bytes = _HEADER + publication.size


def request_of(sequence: int, publication: Publication, published_ms: float) -> PublishRequest:
    """Return a publisher's request."""
    request = PublishRequest.__new__(PublishRequest)
    request.sequence = sequence
    request.publication = publication
    request.published_ms = published_ms
    request.traffic_class = 0
    request.size_bytes = _HEADER + publication.size
    return request


def first_copy(request: PublishRequest, host_broker: BrokerId, incarnation: int, number: int) -> Publish:
    """Return the publication that a client has requested, with the number that its host broker gives it."""
    copy = Publish.__new__(Publish)
    copy.take_name(host_broker, incarnation, number)
    copy.publication = request.publication
    copy.hop = 0
    copy.published_ms = request.published_ms
    copy.size_bytes = request.size_bytes
    copy.ordered = False
    copy.direct(None, None)
    return copy


def delivery_of(copy: Publish, handles: tuple[int, ...]) -> Deliver:
    """Return the delivery of a copy to the subscriptions with these handles."""
    delivery = Deliver.__new__(Deliver)
    _carry_on(delivery, copy)
    delivery.encoded = b""
    delivery.handles = handles
    delivery.is_shared = False
    delivery.traffic_class = _CONTROL
    return delivery


class Frame:
    """A message with its sequence number."""

    __slots__ = ("message", "sequence")
    __match_args__ = ("sequence", "message")

    sequence: int
    message: Any

    def __init__(self, sequence: int, message: Any):
        self.sequence = sequence
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.sequence == other.sequence and self.message == other.message

    def __hash__(self) -> int:
        return hash((self.sequence, self.message))

    def __repr__(self) -> str:
        return f"Frame({self.sequence}, {self.message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Frame, (self.sequence, self.message)
