"""What every kind of broker has: links with their queues, clients, names to give, and facts to tell.

``OctopiaBroker`` and ``TidBroker`` differ in their tables and in what they make of messages. All else is here, so that
clients and drivers cannot tell them apart.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import cast

from octopia.broker.interface import Counters, Detail, Effects, Event, Fact, ForClient, LinkStatus, Routed, Verdict
from octopia.broker.queues import ClientQueue, OutputQueue
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.protocol import MessageKind, Overflow
from octopia.protocol.messages import (
    ClientReply,
    Copy,
    Deliver,
    Message,
    NeighbourMessage,
)
from octopia.settings import RoutingSettings

_RECENT_INPUTS = 32

# Looking up a member of an enum takes longer than all the rest of asking how much is traced.
_DELIVERIES, _HOPS, _ALL = Detail.DELIVERIES, Detail.HOPS, Detail.ALL


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a broker is told at construction, beside its neighbourhood.

    ``hop_limit`` guards against loops that a faulty neighbour might cause; a driver that knows the overlay sets it to
    the bound that the overlay promises. ``client_queue_limit`` bounds the deliveries that wait for one client,
    ``queue_capacity`` the publications of one class that wait for a neighbour (0: no bound), ``down_limit_…`` what
    waits for a link that is down (D10). After ``grace_ms`` a recovering broker goes on without neighbours that stay
    silent; the grace is longer than the time in which a silent neighbour is noticed. With ``delivers_together``, what a
    publication brings to local clients is one effect and waits in no queue: for drivers whose clients are never slow.
    """

    routing: RoutingSettings = dataclasses.field(default_factory=RoutingSettings)
    hop_limit: int = 255
    client_queue_limit: int = 10_000
    queue_capacity: int = 0
    down_limit_bytes: int = 64 * 1024 * 1024
    down_limit_ms: float = 60_000.0
    grace_ms: float = 5_000.0
    delivers_together: bool = False
    detail: Detail = Detail.OFF


@dataclasses.dataclass(slots=True)
class Client:
    """A client of this broker and what it issued, by handle; ``lost`` counts what it lost by being cut off."""

    overflow: Overflow
    advertisements: dict[int, AdvertisementId] = dataclasses.field(default_factory=dict)
    subscriptions: dict[int, SubscriptionId] = dataclasses.field(default_factory=dict)
    lost: int = 0
    is_cut_off: bool = False
    was_told: bool = False


@dataclasses.dataclass(slots=True)
class CommonState:
    """What a broker of any kind remembers.

    ``queues`` are those of neighbours, ``waiting`` those of clients. The latter exist only while something waits: there
    may be very many clients, and those that get something now are few. ``subscribers`` says for each subscription of a
    local client whose it is, and its handle there.
    """

    neighbourhood: Neighbourhood
    settings: BrokerSettings
    incarnation: int
    queues: dict[BrokerId, OutputQueue] = dataclasses.field(default_factory=dict)
    clients: dict[ClientId, Client] = dataclasses.field(default_factory=dict)
    waiting: dict[ClientId, ClientQueue] = dataclasses.field(default_factory=dict)
    subscribers: dict[SubscriptionId, tuple[ClientId, int]] = dataclasses.field(default_factory=dict)
    counters: Counters = dataclasses.field(default_factory=Counters)
    now_ms: float = 0.0
    effects: Effects = dataclasses.field(default_factory=Effects)
    facts: list[Fact | Routed] = dataclasses.field(default_factory=list)
    recent: deque[tuple[float, Peer, Sequence[Message]]] = dataclasses.field(
        default_factory=lambda: deque(maxlen=_RECENT_INPUTS)
    )
    next_advertisement: int = 0
    next_subscription: int = 0
    next_publication: int = 0

    def __post_init__(self) -> None:
        for neighbour in self.neighbourhood.neighbours:
            routing, capacity = self.settings.routing, self.settings.queue_capacity
            self.queues[neighbour] = OutputQueue(routing.tau, routing.window_ms, capacity)

    @property
    def id(self) -> BrokerId:
        """Which broker this is."""
        return self.neighbourhood.broker

    @property
    def subscriptions_searched(self) -> int:
        """The number of entries against which a publication is matched."""
        raise NotImplementedError

    @property
    def recent_inputs(self) -> list[str]:
        """The last inputs, oldest first, as one line each."""
        return [f"{now_ms:g} ms, from {peer}: {list(batch)!r}" for now_ms, peer, batch in self.recent]

    def kind_of(self, peer: Peer) -> LinkKind:
        """Return what the link to ``peer`` joins."""
        return self.neighbourhood.kind_of(peer)

    def link_status_table(self, now_ms: float) -> dict[BrokerId, LinkStatus]:
        """Return the Link Status Table."""
        return {peer: queue.status(now_ms) for peer, queue in self.queues.items()}

    # Inputs that are alike everywhere.

    def begin(self, now_ms: float) -> Effects:
        """Start an input: its effects are gathered from here on."""
        self.now_ms = now_ms
        self.effects = Effects()
        return self.effects

    def attach(self, client: ClientId, overflow: Overflow) -> None:
        """Take note of a new client."""
        if client in self.clients:
            self.effects.violation = ProtocolViolation(f"client {client} is already attached to broker {self.id}")
            return
        self.clients[client] = Client(overflow)

    def forget_client(self, client: ClientId) -> None:
        """Forget a client that has withdrawn everything; what waited for it is lost."""
        del self.clients[client]
        self.waiting.pop(client, None)

    def force(self, peer: BrokerId, verdict: Verdict, queue_length: int | None) -> None:
        """Decide by hand whether a link is congested, and which queue length stands in for the real one."""
        self.queues[peer].verdict = verdict
        self.queues[peer].forced_length = queue_length

    def take(self, peer: Peer, now_ms: float, classes: int) -> Message | None:
        """Take the next message for a link, count it and note it."""
        self.now_ms = now_ms
        if isinstance(peer, ClientId):
            return self._take_for_client(peer, classes)
        detail = self.settings.detail
        if detail >= _ALL:
            self.trace_window(peer)
        message = self.queues[peer].take(now_ms, classes)
        if message is not None:
            self.counters.sent[message.kind] += 1
            if detail >= _HOPS:
                self.facts.append(self.fact_about(Event.SEND, peer, message))
        return message

    def take_all(self, peer: Peer, now_ms: float, classes: int) -> Sequence[Message]:
        """Take all that may go over a link now."""
        self.now_ms = now_ms
        if isinstance(peer, ClientId):
            return self._take_all_for_client(peer, classes)
        batch: list[Message] = []
        queue = self.queues[peer]
        while (message := self.take(peer, now_ms, classes)) is not None:
            batch.append(message)
            if queue.is_empty:
                break
        return batch

    def take_for_clients(self, clients: Sequence[ClientId], now_ms: float) -> list[ForClient]:
        """Take all that waits for some clients, in their order; those for whom nothing waits are left out."""
        self.now_ms = now_ms
        taken: list[ForClient] = []
        for client in clients:
            queue = self.waiting.pop(client, None)
            if queue is not None:
                taken.append((client, queue.take_all()))
        return taken

    def waits_for(self, peer: Peer) -> int:
        """Count the publications that wait for a link."""
        if isinstance(peer, ClientId):
            return len(self.waiting[peer]) if peer in self.waiting else 0
        return len(self.queues[peer])

    def drain_facts(self) -> list[Fact | Routed]:
        """Hand over the facts since the last call."""
        facts, self.facts = self.facts, []
        return facts

    # Names.

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

    # What this broker sends.

    def send(self, peer: BrokerId, message: NeighbourMessage) -> None:
        """Put a control message into the queue to a neighbour; over a link that is down, the exchange will tell."""
        self.queues[peer].put_control(message)
        self.effects.ready[peer] = None

    def forward(self, peer: BrokerId, publication: Copy) -> None:
        """Put a copy of a publication into the queue to a neighbour."""
        traces_all = self.settings.detail >= _ALL
        if traces_all:
            self.trace_window(peer)
        self.queues[peer].put_data(publication, publication.traffic_class, self.now_ms)
        self.effects.ready[peer] = None
        if traces_all:
            self.facts.append(self.fact_about(Event.ENQUEUE, peer, publication))

    def tell(self, client: ClientId, reply: ClientReply) -> None:
        """Answer a client out of turn, ahead of its deliveries."""
        self.queue_of(client).answers.append(reply)
        self.effects.ready[client] = None

    def queue_of(self, client: ClientId) -> ClientQueue:
        """Return the queue of a client, to put something there."""
        queue = self.waiting.get(client)
        if queue is None:
            queue = self.waiting[client] = ClientQueue()
        return queue

    # Facts.

    def fact_about(self, event: Event, peer: BrokerId, message: NeighbourMessage) -> Fact:
        """Describe a message between brokers for the trace."""
        fact = Fact(event, message.kind, peer=peer, link=self.kind_of(peer), queue_length=len(self.queues[peer]))
        # Updates of bits and digests speak of many things at once and have no id.
        fact.message_id = getattr(message, "id", None)
        if message.kind is MessageKind.PUBLICATION:
            copy = cast("Copy", message)
            fact.publication_civ = copy.publication_civ
            fact.hop = copy.hop
            fact.published_ms = copy.published_ms
            fact.searched = self.subscriptions_searched if event is Event.RECEIVE else None
        return fact

    def trace_receive(self, sender: BrokerId, message: NeighbourMessage) -> None:
        """Note that a message came from a neighbour."""
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
        """Note that a client's request was taken: the id it got here, beside the client's own handle or sequence."""
        if self.settings.detail >= _DELIVERIES:
            fact = Fact(Event.RECEIVE, kind, named, client, LinkKind.CLIENT, hop=0, value=number)
            fact.published_ms = published_ms
            fact.searched = self.subscriptions_searched if kind is MessageKind.PUBLICATION else None
            self.facts.append(fact)

    def trace_drop(self, dropped: Copy | Deliver, peer: Peer | None, count: int, reason: str) -> None:
        """Note that a publication goes no further from here, or not to ``peer``."""
        if self.settings.detail >= _DELIVERIES:
            fact = Fact(Event.DROP, MessageKind.PUBLICATION, dropped.id, peer, hop=dropped.hop, value=count)
            fact.link = None if peer is None else self.kind_of(peer)
            fact.published_ms = dropped.published_ms
            fact.reason = reason
            self.facts.append(fact)

    def trace_table(self, name: str, size: int) -> None:
        """Note the size of a table."""
        if self.settings.detail >= _ALL:
            self.facts.append(Fact(Event.TABLE, value=size, reason=name))

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

    def _take_for_client(self, client: ClientId, classes: int) -> ClientReply | None:
        queue = self.waiting.get(client)
        if queue is None:
            return None
        reply = queue.take(classes)
        if queue.is_empty:
            del self.waiting[client]
        return reply

    def _take_all_for_client(self, client: ClientId, classes: int) -> list[ClientReply]:
        if classes & 1:
            queue = self.waiting.pop(client, None)
            return queue.take_all() if queue is not None else []
        batch: list[ClientReply] = []
        while (reply := self._take_for_client(client, classes)) is not None:
            batch.append(reply)
        return batch
