"""The state shared by every kind of broker: queues, clients, ids and trace.

``OctopiaBroker`` and ``TidBroker`` differ in their tables and in the handling of messages. Everything else is here, so
clients and drivers cannot distinguish them.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from octopia.broker.interface import (
    Counters,
    DeliveryPlan,
    Detail,
    Effects,
    Event,
    Fact,
    ForClients,
    Loss,
    Routed,
    Told,
)
from octopia.broker.numbered import Kept
from octopia.broker.plans import plan_delivery
from octopia.broker.queues import OutputQueue
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.markers import Derived, Fixed, History
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.protocol import Cause, MessageKind
from octopia.protocol.duties import Duties
from octopia.protocol.messages import (
    ClientReply,
    Copy,
    Deliver,
    Message,
    NeighbourMessage,
)
from octopia.settings import UNLIMITED, Algorithm, ResourceLimits, RoutingSettings

_RECENT_INPUTS = 32

_SHARED = tuple((handle,) for handle in range(256))
"""The tuples of single handles that all clients share, so that they can share a delivery, too."""

_ON_THE_WAY = (Cause.LINK_DOWN, Cause.UNACKNOWLEDGED)
"""The causes by which publications for a link are lost."""

# Looking up an enum member costs more than the rest of the check of the trace level.
_DELIVERIES, _HOPS, _ALL = Detail.DELIVERIES, Detail.HOPS, Detail.ALL


class Task(enum.StrEnum):
    """The kinds of work that a broker divides into slices."""

    ANSWER = "send the entries that a neighbour fetched"
    CLEAR = "clear bits that no subscription needs"
    DIGEST = "name subscriptions or advertisements to a neighbour"
    LEAVE = "withdraw what a client issued that has left"
    REMOVE = "remove entries that a neighbour no longer knows"
    SETTLE = "confirm subscriptions that may have nothing left to wait for"


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of a broker, apart from its neighbourhood.

    ``hop_limit`` guards against loops caused by a faulty neighbour; a driver that knows the overlay sets it to the
    longest possible path. ``queue_capacity`` and ``queue_capacity_bytes`` limit the publications of one class that wait
    for a neighbour (0: no limit). ``down_limit_bytes`` and ``down_limit_ms`` limit the publications that wait for a
    link that is down (D10). After ``grace_ms`` a recovering broker continues without silent neighbours; this must
    exceed the time that it takes to detect one. A neighbour may hold back an acknowledgement for ``ack_ms``. ``limits``
    bound what one client may issue. ``slice_max`` is the number of entries of long work that one input handles.
    """

    routing: RoutingSettings = dataclasses.field(default_factory=RoutingSettings)
    hop_limit: int = 255
    queue_capacity: int = 0
    queue_capacity_bytes: int = 0
    down_limit_bytes: int = 64 * 1024 * 1024
    down_limit_ms: float = 60_000.0
    grace_ms: float = 5_000.0
    ack_ms: float = 0.0
    limits: ResourceLimits = UNLIMITED
    slice_max: int = 500
    detail: Detail = Detail.OFF


@dataclasses.dataclass(slots=True)
class Client:
    """The advertisements and subscriptions of a client of this broker, by handle."""

    advertisements: dict[int, AdvertisementId] = dataclasses.field(default_factory=dict)
    subscriptions: dict[int, SubscriptionId] = dataclasses.field(default_factory=dict)


class Subscriber(msgspec.Struct, frozen=True, gc=False):
    """The local client that has a subscription, and its handle; ``stop`` is both as part of a plan."""

    client: ClientId
    handle: int
    stop: tuple[ClientId, tuple[int, ...]]

    @classmethod
    def of(cls, client: ClientId, handle: int) -> Subscriber:
        """Return the subscriber for a subscription of a client."""
        return cls(client, handle, (client, _SHARED[handle] if 0 <= handle < len(_SHARED) else (handle,)))


@dataclasses.dataclass(slots=True)
class CommonState:
    """The state that every kind of broker has.

    ``queues`` are the queues to neighbours. ``subscribers`` maps each subscription of a local client to that client and
    its handle. ``for_clients`` holds the entries for local clients that the driver has not taken yet. ``plans`` caches
    delivery plans by set of subscriptions. ``backlog`` is work that was too long for the inputs that caused it, by kind
    and by the peer that it concerns. ``algorithm`` is the one that routes now (``switching``).
    """

    neighbourhood: Fixed[Neighbourhood]
    settings: Fixed[BrokerSettings]
    incarnation: int
    queues: dict[BrokerId, OutputQueue] = dataclasses.field(default_factory=dict)
    clients: dict[ClientId, Client] = dataclasses.field(default_factory=dict)
    subscribers: dict[SubscriptionId, Subscriber] = dataclasses.field(default_factory=dict)
    for_clients: list[ForClients] = dataclasses.field(default_factory=list)
    plans: Derived[Kept[tuple[SubscriptionId, ...], DeliveryPlan]] = dataclasses.field(default_factory=Kept)
    counters: History[Counters] = dataclasses.field(default_factory=Counters)
    now_ms: float = 0.0
    effects: History[Effects] = dataclasses.field(default_factory=Effects)
    facts: History[list[Fact | Routed]] = dataclasses.field(default_factory=list)
    recent: History[deque[tuple[float, Peer, Sequence[Message]]]] = dataclasses.field(
        default_factory=lambda: deque(maxlen=_RECENT_INPUTS)
    )
    backlog: dict[tuple[Task, Peer], dict[SubscriptionId | AdvertisementId, None]] = dataclasses.field(
        default_factory=dict
    )
    next_advertisement: int = 0
    next_subscription: int = 0
    next_publication: int = 0
    algorithm: Algorithm = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.algorithm = self.settings.routing.algorithm
        for neighbour in self.neighbourhood.neighbours:
            settings, routing = self.settings, self.settings.routing
            self.queues[neighbour] = OutputQueue(
                routing, settings.queue_capacity, settings.queue_capacity_bytes, settings.ack_ms
            )

    @property
    def id(self) -> BrokerId:
        """The id of this broker."""
        return self.neighbourhood.broker

    @property
    def subscriptions_searched(self) -> int:
        """The number of entries against which a publication is matched."""
        raise NotImplementedError

    @property
    def recent_inputs(self) -> list[str]:
        """The last inputs, oldest first, one line per input."""
        return [f"{now_ms:g} ms, from {peer}: {list(batch)!r}" for now_ms, peer, batch in self.recent]

    def kind_of(self, peer: Peer) -> LinkKind:
        """Return the kind of the link to ``peer``."""
        return self.neighbourhood.kind_of(peer)

    # Inputs that are the same for every kind of broker.

    def begin(self, now_ms: float) -> Effects:
        """Start an input, and return the object that collects its effects."""
        self.now_ms = now_ms
        self.effects = Effects()
        return self.effects

    def attach(self, client: ClientId) -> None:
        """Add a client."""
        if client in self.clients or (Task.LEAVE, client) in self.backlog:
            self.effects.violation = ProtocolViolation(f"client {client} is already attached to broker {self.id}")
            return
        self.clients[client] = Client()

    def take(self, peer: BrokerId, now_ms: float, classes: int) -> NeighbourMessage | None:
        """Remove and return the next message for a neighbour; count and trace it."""
        self.now_ms = now_ms
        detail = self.settings.detail
        if detail >= _ALL:
            self.trace_window(peer)
        message = self.queues[peer].take(now_ms, classes)
        if message is not None:
            self.counters.sent[message.kind] += 1
            if detail >= _HOPS:
                self.facts.append(self.fact_about(Event.SEND, peer, message))
        return message

    def take_all(self, peer: BrokerId, now_ms: float, classes: int) -> list[NeighbourMessage]:
        """Remove and return everything that may go to a neighbour now."""
        batch: list[NeighbourMessage] = []
        queue = self.queues[peer]
        while (message := self.take(peer, now_ms, classes)) is not None:
            batch.append(message)
            if queue.is_empty:
                break
        return batch

    # Long work.

    def put_off(self, task: Task, peer: Peer, entries: Iterable[SubscriptionId | AdvertisementId]) -> None:
        """Add to the backlog; its first slice is handled at the end of this input."""
        self.backlog.setdefault((task, peer), {}).update(dict.fromkeys(entries))

    def next_slice(self, most: int) -> tuple[Task, Peer, list[SubscriptionId | AdvertisementId]]:
        """Remove and return up to ``most`` entries of the backlog, all of one task and peer."""
        key = min(self.backlog, key=lambda key: (key[0], str(key[1])))
        entries = self.backlog[key]
        taken = list(itertools.islice(entries, most))
        if len(taken) == len(entries):
            del self.backlog[key]
        else:
            for each in taken:
                del entries[each]
        return (*key, taken)

    # Ids.

    def mint_advertisement(self) -> AdvertisementId:
        """Return a new id for an advertisement of a local publisher."""
        self.next_advertisement += 1
        return AdvertisementId(self.id, self.incarnation, self.next_advertisement - 1)

    def mint_subscription(self) -> SubscriptionId:
        """Return a new id for a subscription of a local subscriber."""
        self.next_subscription += 1
        return SubscriptionId(self.id, self.incarnation, self.next_subscription - 1)

    def mint_publication(self) -> PublicationId:
        """Return a new id for a publication of a local publisher."""
        self.next_publication += 1
        return PublicationId(self.id, self.incarnation, self.next_publication - 1)

    # Output.

    def send(self, peer: BrokerId, message: NeighbourMessage) -> None:
        """Queue a control message for a neighbour; dropped if the link is down, since the exchange replaces it."""
        self.queues[peer].put_control(message)
        self.effects.ready[peer] = None

    def forward(self, peer: BrokerId, publication: Copy, traffic_class: int, duties: Duties | None = None) -> None:
        """Queue a copy of a publication for a neighbour, under adaptive routing with its duties."""
        traces_all = self.settings.detail >= _ALL
        if traces_all:
            self.trace_window(peer)
        self.queues[peer].put_data(publication, traffic_class, self.now_ms, duties)
        self.effects.ready[peer] = None
        if traces_all:
            self.facts.append(self.fact_about(Event.ENQUEUE, peer, publication))

    def tell(self, client: ClientId, reply: ClientReply) -> None:
        """Send a reply or a notice to a client, unless it has left."""
        if client in self.clients:
            self.for_clients.append(Told(client, reply))

    def plan_delivery(self, subscriptions: Sequence[SubscriptionId]) -> DeliveryPlan:
        """Return the clients with these subscriptions, by name, each with its handles in order of subscription id."""
        return plan_delivery(subscriptions, self.subscribers)

    def count_loss(self, cause: Cause, count: int, peer: Peer | None) -> None:
        """Enter a loss into the ledger; a count of 0 is unknown."""
        self.counters.count_loss(cause, count)
        if cause in _ON_THE_WAY and isinstance(peer, BrokerId):
            self.queues[peer].dropped += count
        self.effects.losses += (Loss(cause, count, peer),)

    # Facts.

    def fact_about(self, event: Event, peer: BrokerId, message: NeighbourMessage) -> Fact:
        """Return the fact that describes a message between brokers."""
        fact = Fact(event, message.kind, peer=peer, link=self.kind_of(peer), queue_length=len(self.queues[peer]))
        # CIV updates and digests name many things at once and have no id of their own.
        fact.message_id = getattr(message, "id", None)
        if message.kind is MessageKind.PUBLICATION:
            copy = cast("Copy", message)
            fact.publication_civ = copy.publication_civ
            fact.detour = getattr(copy, "detour", None)
            fact.hop = copy.hop
            fact.published_ms = copy.published_ms
            fact.searched = self.subscriptions_searched if event is Event.RECEIVE else None
        return fact

    def trace_receive(self, sender: BrokerId, message: NeighbourMessage) -> None:
        """Record a message received from a neighbour."""
        if self.settings.detail >= _HOPS:
            self.facts.append(self.fact_about(Event.RECEIVE, sender, message))

    def trace_request(
        self,
        client: ClientId,
        kind: MessageKind,
        named: AdvertisementId | SubscriptionId | PublicationId,
        number: int,
        published_ms: float | None = None,
    ) -> None:
        """Record a client's request: the id it got here, and the client's own handle or sequence number."""
        if self.settings.detail >= _DELIVERIES:
            fact = Fact(Event.RECEIVE, kind, named, client, LinkKind.CLIENT, hop=0, value=number)
            fact.published_ms = published_ms
            fact.searched = self.subscriptions_searched if kind is MessageKind.PUBLICATION else None
            self.facts.append(fact)

    def trace_drop(self, dropped: Copy | Deliver, peer: Peer | None, count: int, reason: str) -> None:
        """Record that a publication was dropped, or not sent to ``peer``."""
        if self.settings.detail >= _DELIVERIES:
            fact = Fact(Event.DROP, MessageKind.PUBLICATION, dropped.id, peer, hop=dropped.hop, value=count)
            fact.link = None if peer is None else self.kind_of(peer)
            fact.published_ms = dropped.published_ms
            fact.reason = reason
            self.facts.append(fact)

    def trace_table(self, name: str, size: int) -> None:
        """Record the size of a table."""
        if self.settings.detail >= _ALL:
            self.facts.append(Fact(Event.TABLE, value=size, reason=name))

    def trace_window(self, peer: BrokerId) -> None:
        """Record the ratio of Eq. 3 when a window has closed."""
        queue = self.queues[peer]
        queue.window.roll(self.now_ms, len(queue))
        if queue.window.is_news:
            queue.window.is_news = False
            ratio = (1 + queue.window.closed_entered) / (1 + queue.window.closed_left)
            self.facts.append(
                Fact(Event.WINDOW, peer=peer, link=self.kind_of(peer), queue_length=len(queue), value=ratio)
            )
