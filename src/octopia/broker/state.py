"""The state of one OctopiA broker, and the ways in which its parts may send.

The algorithms of the paper live in modules of their own (``advertising``, ``subscribing``, ``publishing``); they are
functions over this state. Whatever they send is put into output queues and noted in the effects of the current input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from octopia.broker.civ import ClusterIndexVector
from octopia.broker.interface import Counters, Detail, Effects, Event, Fact, Overflow, Routed
from octopia.broker.messages import (
    BrokerMessage,
    CivSet,
    CivUnset,
    CutOff,
    Deliver,
    MessageKind,
    Publish,
    Refused,
    Version,
)
from octopia.broker.queues import OutputQueue
from octopia.broker.tables import Clt, CltEntry, Prt
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.settings import RoutingSettings


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a broker is told at construction, beside its neighbourhood.

    ``hop_limit`` guards against loops that a faulty neighbour might cause; a driver that knows the overlay sets it to
    the bound that the overlay promises. ``client_queue_limit`` bounds the deliveries that wait for one client.
    """

    routing: RoutingSettings = dataclasses.field(default_factory=RoutingSettings)
    hop_limit: int = 255
    client_queue_limit: int = 10_000
    detail: Detail = Detail.OFF


@dataclasses.dataclass(slots=True)
class Client:
    """A client of this broker and what it issued, by handle."""

    overflow: Overflow
    advertisements: dict[int, AdvertisementId] = dataclasses.field(default_factory=dict)
    subscriptions: dict[int, SubscriptionId] = dataclasses.field(default_factory=dict)
    handles: dict[SubscriptionId, int] = dataclasses.field(default_factory=dict)
    lost: int = 0
    is_cut_off: bool = False


@dataclasses.dataclass(slots=True)
class State:
    """Everything that a broker remembers."""

    neighbourhood: Neighbourhood
    settings: BrokerSettings
    incarnation: int
    clt: Clt
    prt: Prt
    queues: dict[Peer, OutputQueue]
    clients: dict[ClientId, Client] = dataclasses.field(default_factory=dict)
    counters: Counters = dataclasses.field(default_factory=Counters)
    now_ms: float = 0.0
    effects: Effects = dataclasses.field(default_factory=Effects)
    facts: list[Fact | Routed] = dataclasses.field(default_factory=list)
    next_advertisement: int = 0
    next_subscription: int = 0
    next_publication: int = 0
    next_version: int = 0

    @property
    def id(self) -> BrokerId:
        """Which broker this is."""
        return self.neighbourhood.broker

    @property
    def cluster(self) -> int:
        """The index of this broker's cluster, and of its bit in every CIV."""
        return self.neighbourhood.broker.cluster

    def civ_of(self, *clusters: int) -> ClusterIndexVector:
        """Make a CIV with the bits of ``clusters`` set."""
        return ClusterIndexVector.of(clusters, self.neighbourhood.clusters)

    # What this broker names.

    def mint_advertisement(self) -> AdvertisementId:
        """Name an advertisement of a local publisher."""
        self.next_advertisement += 1
        return AdvertisementId(self.id, self.incarnation, self.next_advertisement - 1)

    def mint_subscription(self) -> SubscriptionId:
        """Name a subscription of a local subscriber."""
        self.next_subscription += 1
        return SubscriptionId(self.id, self.incarnation, self.next_subscription - 1)

    def mint_publication(self) -> PublicationId:
        """Name a publication of a local publisher."""
        self.next_publication += 1
        return PublicationId(self.id, self.incarnation, self.next_publication - 1)

    def mint_version(self) -> Version:
        """Date a CIV update: later than every update that this broker sent before (D4)."""
        self.next_version += 1
        return Version(self.incarnation, self.next_version)

    # What this broker sends.

    def send(self, peer: BrokerId, message: BrokerMessage) -> None:
        """Put a control message into the queue to a neighbour."""
        self.queues[peer].put_control(message)
        self.effects.ready[peer] = None

    def send_civ_updates(self, update: type[CivSet] | type[CivUnset], entries: Iterable[CltEntry]) -> None:
        """Send one update per iLink that names all the given advertisements received over it (D3)."""
        per_ilink: dict[BrokerId, list[AdvertisementId]] = {}
        for entry in entries:
            assert isinstance(entry.last_hop, BrokerId)
            per_ilink.setdefault(entry.last_hop, []).append(entry.id)
        for host_broker in sorted(per_ilink):
            self.send(host_broker, update(tuple(sorted(per_ilink[host_broker])), self.mint_version()))

    def forward(self, peer: BrokerId, publication: Publish) -> None:
        """Put a copy of a publication into the queue to a neighbour."""
        if self.settings.detail >= Detail.ALL:
            self.trace_window(peer)
        self.queues[peer].put_data(publication, publication.traffic_class, self.now_ms)
        self.effects.ready[peer] = None
        if self.settings.detail >= Detail.ALL:
            self.facts.append(self.fact_about(Event.ENQUEUE, peer, publication))

    def tell(self, client: ClientId, reply: Refused | CutOff) -> None:
        """Answer a client out of turn, ahead of its deliveries."""
        self.queues[client].put_control(reply)
        self.effects.ready[client] = None

    def deliver(self, client: ClientId, delivery: Deliver) -> None:
        """Put a delivery into the queue to a client."""
        self.queues[client].put_data(delivery, 0, self.now_ms)
        self.effects.ready[client] = None

    # What this broker tells of itself.

    def fact_about(self, event: Event, peer: Peer, message: BrokerMessage) -> Fact:
        """Describe a message between brokers for the trace."""
        fact = Fact(event, message.kind, peer=peer, link=self.kind_of(peer), queue_length=len(self.queues[peer]))
        if isinstance(message, Publish):
            fact.message_id = message.id
            fact.publication_civ = message.publication_civ
            fact.hop = message.hop
            fact.published_ms = message.published_ms
            fact.searched = len(self.prt) if event is Event.RECEIVE else None
        elif not isinstance(message, CivSet | CivUnset):
            fact.message_id = message.id
        return fact

    def trace_request(
        self,
        client: ClientId,
        kind: MessageKind,
        named: AdvertisementId | SubscriptionId | PublicationId,
        number: int,
        published_ms: float | None = None,
    ) -> None:
        """Note that a client's request was taken: the id it got here, beside the client's own handle or sequence."""
        if self.settings.detail >= Detail.DELIVERIES:
            fact = Fact(Event.RECEIVE, kind, named, client, LinkKind.CLIENT, hop=0, value=number)
            fact.published_ms = published_ms
            fact.searched = len(self.prt) if kind is MessageKind.PUBLICATION else None
            self.facts.append(fact)

    def trace_window(self, peer: BrokerId) -> None:
        """Note the ratio of Eq. 3 whenever a window has closed."""
        queue = self.queues[peer]
        queue.window.roll(self.now_ms)
        if queue.window.is_news:
            queue.window.is_news = False
            ratio = (1 + queue.window.closed_entered) / (1 + queue.window.closed_left)
            self.facts.append(
                Fact(Event.WINDOW, peer=peer, link=self.kind_of(peer), queue_length=len(queue), value=ratio)
            )

    def kind_of(self, peer: Peer) -> LinkKind:
        """Return what the link to ``peer`` joins."""
        return self.neighbourhood.kind_of(peer)
