"""Whole nodes behind readers and writers: bytes in, and after every input bytes out, state, counters and facts.

The node is b.0 of three regions and three clusters. Its neighbours and clients are sessions. Bytes arrive in pieces of
any size, connections break and lose what is on its way, far ends return their credit late, and some bytes are wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from encoded_attributes import FLOATS, NUMBERS, TEXTS

from octopia.algorithms import hop_limit_of, make_broker
from octopia.broker import BrokerSettings, Detail, Verdict
from octopia.content import Publication, parse_filter
from octopia.errors import BadFrame, InvariantBroken
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, PublicationId, SubscriptionId
from octopia.link import LinkSettings, Session
from octopia.node import Node, NodeSettings
from octopia.overlay import Scot, parse_tree
from octopia.protocol import CONTROL, Ack, ClusterIndexVector, Grant, Hello, Item, Overflow
from octopia.protocol.duties import Lane
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    Detour,
    Message,
    Publish,
    PublishRequest,
    Subscribe,
    SubscribeRequest,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from octopia.settings import Algorithm, ResourceLimits, RoutingSettings
from octopia.simulator.search.canonical import digest
from octopia.tid.messages import TidAdvertise, TidPublish, TidSubscribe, TidUnsubscribe
from octopia.wire import Reader, encode_all
from wire_samples import MESSAGES

STEPS = 60
SCOT = Scot(parse_tree("a-b, b-c"), 3)
HERE = BrokerId("b", 0)
NEIGHBOURS = ("a.0", "c.0", "b.1", "b.2")
CLIENTS = ("P", "Q", "R")
FILTERS = (
    "x > 2",
    "x < 4",
    "x BETWEEN 1 AND 3",
    "y = 'IBM'",
    "x > 0 OR y LIKE 't%'",
    "x >= 9007199254740993",
    "x <> 5 AND y IS NOT NULL",
    "z IN (1, 5, 'x')",
    "y LIKE '%y'",
    "x = 9223372036854775807",
    "NOT x > 0",
)
OFFERS = ("x >= 0", "x > 2 AND y IS NOT NULL", "x IS NOT NULL AND y IS NOT NULL AND z IS NOT NULL", "y = 'IBM'")
ACTIONS = (
    ("publish", 6), ("relay", 8), ("change", 4), ("issue", 3), ("cut", 3), ("stick", 2), ("rest", 3), ("flow", 8),
    ("spoil", 1), ("grant", 1), ("pause", 2), ("force", 1), ("stray", 1),
)  # fmt: skip


class Connection:
    """The bytes on their way to both ends, and the readers there."""

    def __init__(self) -> None:
        self.to_node, self.to_far = bytearray(), bytearray()
        self.node_reader, self.far_reader = Reader(), Reader()


class World:
    """A node and the far ends of its links."""

    def __init__(self, seed: int):
        chance = self.chance = random.Random(seed)
        algorithm = list(Algorithm)[seed % len(Algorithm)]
        self.is_tid = algorithm.is_tid
        self.is_adaptive = algorithm is Algorithm.ADAPTIVE
        self.hop_limit = hop_limit_of(SCOT, algorithm)
        self.is_uniform = chance.random() < 0.3
        """True if all publications have 50 bytes, so that windows are used up exactly."""
        self.window_ms = chance.choice((7.0, 50.0))
        routing = RoutingSettings(algorithm, chance.choice((0.5, 3.0, 1e9)), self.window_ms, chance.random() < 0.5)
        limits = ResourceLimits(publications_per_second_per_client=chance.choice((0.0, 0.0, 20.0)))
        settings = BrokerSettings(
            routing,
            hop_limit=self.hop_limit,
            queue_capacity=chance.choice((0, 1, 3)),
            slice_max=chance.choice((2, 500)),
            detail=chance.choice(list(Detail)),
        )
        window_bytes = chance.choice((1, 300, 2_000, 100_000))
        links = LinkSettings(window_bytes, 100.0, 400.0, fences=True)
        self.links = LinkSettings(chance.choice((1, 300, 2_000, 2**63 - 1)), 100.0, 1e9, chance.choice((0.0, 150.0)))
        self.node = Node(
            make_broker(SCOT.neighbourhood(HERE), settings),
            SCOT.neighbourhood(HERE).neighbours,
            1,
            NodeSettings(
                links,
                LinkSettings(window_bytes, 100.0, 400.0),
                client_queue_limit=chance.choice((2, 1000)),
                memory_bytes=chance.choice((0, 0, 4_000)),
                limits=limits,
                detail=settings.detail,
            ),
        )
        self.now_ms = 0.0
        self.number = 0
        self.incarnations = dict.fromkeys((*NEIGHBOURS, *CLIENTS), 1)
        self.ends = {name: Session(1, self.links) for name in (*NEIGHBOURS, *CLIENTS)}
        self.connections: dict[str, Connection] = {}
        self.ids: dict[str, ClientId] = {}
        self.stuck: dict[str, list[int]] = {}
        self.known: list[Subscribe | TidSubscribe] = []
        self.offers: list[AdvertisementId] = [AdvertisementId(BrokerId("a", 0), 1, 0)]
        self.story: list[str] = []

    # What happens.

    def play(self) -> Iterator[str]:
        """Connect everybody, then let random things happen."""
        for name in (*NEIGHBOURS, *CLIENTS):
            self.connect(name)
            self.carry_everything()
            yield from self.told(f"connect {name}")
        for name in ("P", "Q"):
            self.send(name, AdvertiseRequest(self.next(), parse_filter(OFFERS[0])))
            self.send(name, SubscribeRequest(self.next(), parse_filter(FILTERS[0])))
        self.carry_everything()
        yield from self.told("first requests")
        names, weights = zip(*ACTIONS, strict=True)
        for _ in range(STEPS):
            action = self.chance.choices(names, weights)[0]
            getattr(self, f"_{action}")()
            self.carry_out()
            yield from self.told(action)
        for name in NEIGHBOURS:
            if name not in self.connections:
                self.connect(name)
        self.stuck.clear()
        self.carry_everything()
        yield from self.told("everything")

    def told(self, action: str) -> Iterator[str]:
        """Yield what an input has caused."""
        node, broker = self.node, self.node.broker
        yield f"{action} at {self.now_ms}"
        yield from self.story
        self.story = []
        # The search has no TID brokers, so these have no canonical form.
        state = [node.links, node.clients] if self.is_tid else node
        yield f"{broker.fingerprint()} {digest(state).hex()}"
        yield f"{broker.counters} {broker.bytes_waiting} {broker.unplaced_in_all} {node.held_bytes} {node.left_behind}"
        yield f"{node.next_deadline_ms} {node.is_at_rest} {broker.table_sizes()}"
        yield f"{broker.link_status_table(self.now_ms)}"
        for fact in node.drain_facts():
            yield repr(fact)
        try:
            broker.check()
        except InvariantBroken as error:  # Messages that no broker sends may break one.
            yield str(error)

    def next(self) -> int:
        self.number += 1
        return self.number

    def content(self) -> Publication:
        chance = self.chance
        made: dict[str, Any] = {"x": chance.choice((0, 1, 2, 3, 4, 5, *NUMBERS, *FLOATS))}
        if self.is_uniform:
            return Publication(made)
        if chance.random() < 0.6:
            made["y"] = chance.choice((*TEXTS, "t" * 8192, True, 5))
        if chance.random() < 0.3:
            made["z"] = chance.choice((1, 5.0, "x", False))
        if chance.random() < 0.1:
            made.update({f"n{number}": number for number in range(60)})
        return Publication(made, chance.randbytes(chance.choice((0, 5, 400))))

    def _publish(self) -> None:
        name = self.chance.choice(CLIENTS)
        for _ in range(self.chance.choice((1, 2, 6))):
            end = self.ends[name]
            if end.classes & 1 or self.chance.random() < 0.02:
                end.send(PublishRequest(self.next(), self.content(), self.now_ms), self.now_ms)
        self.flush(name)

    def _relay(self) -> None:
        name, chance = self.chance.choice(NEIGHBOURS), self.chance
        for _ in range(chance.choice((1, 2, 6))):
            message = self._copy(BrokerId.parse(name))
            if self.ends[name].classes >> message.traffic_class & 1 or chance.random() < 0.02:
                self.ends[name].send(message, self.now_ms)
        self.flush(name)

    def _copy(self, host: BrokerId) -> Publish | TidPublish:
        chance = self.chance
        name = PublicationId(host, chance.choice((1, 2**64 - 1)), self.next())
        hop = chance.choice((1, 1, 2, 3, self.hop_limit - 1, self.hop_limit, 200))
        if self.is_tid:
            return TidPublish(name, self.content(), chance.choice(self.offers), hop, self.now_ms)
        civ = detour = None
        if chance.random() < 0.3:
            civ = ClusterIndexVector(chance.choice((0b000, 0b001, 0b010, 0b111)), 3)
            if self.is_adaptive:
                detour = Detour(chance.choice(list(Lane)), chance.choice((0, 1, 3)), chance.choice(("a", "b", "c")))
        return Publish(name, self.content(), civ, hop, self.now_ms, detour, ordered=chance.random() < 0.1)

    def _change(self) -> None:
        """Let a neighbour subscribe, unsubscribe or advertise."""
        chance = self.chance
        if self.known and chance.random() < 0.4:
            gone = self.known.pop(chance.randrange(len(self.known)))
            leave = TidUnsubscribe(gone.id) if isinstance(gone, TidSubscribe) else Unsubscribe(gone.id)
            self.send(str(gone.id.host_broker), leave)
            return
        host = BrokerId.parse(chance.choice(("a.0", "c.0")))
        wanted = parse_filter(chance.choice(FILTERS))
        if chance.random() < 0.3:
            offer = AdvertisementId(host, 1, self.next())
            self.offers.append(offer)
            self.send(str(host), TidAdvertise(offer, wanted, True) if self.is_tid else Advertise(offer, wanted))
            return
        name = SubscriptionId(host, 1, self.next())
        made = TidSubscribe(name, wanted, chance.choice(self.offers)) if self.is_tid else Subscribe(name, wanted)
        self.known.append(made)
        self.send(str(host), made)

    def _issue(self) -> None:
        """Let a client ask for something."""
        chance, filters = self.chance, [*FILTERS, *OFFERS]
        handle = chance.choice((self.next(), 127 + self.next(), chance.randrange(1, 20), 2**33 + self.next()))
        request = chance.choice(
            (
                SubscribeRequest(handle, parse_filter(chance.choice(filters))),
                SubscribeRequest(handle, parse_filter(chance.choice(filters)), 20.0),
                AdvertiseRequest(handle, parse_filter(chance.choice(OFFERS)), chance.random() < 0.3),
                UnsubscribeRequest(handle),
                UnadvertiseRequest(handle),
            )
        )
        self.send(chance.choice(CLIENTS), request)

    def _stray(self) -> None:
        """Send a message that may not belong here."""
        self.send(self.chance.choice((*NEIGHBOURS, *CLIENTS)), self.chance.choice(MESSAGES))

    def _cut(self) -> None:
        name = self.chance.choice((*NEIGHBOURS, *CLIENTS))
        if name not in self.connections:
            if self.chance.random() < 0.2:
                self.incarnations[name] += 1
                self.ends[name] = Session(self.incarnations[name], self.links)
            self.connect(name)
            return
        self.lose(name, notices=True)
        if self.chance.random() < 0.5:
            self.connect(name)

    def _stick(self) -> None:
        """Let a far end return no credit for a while."""
        name = self.chance.choice((*NEIGHBOURS, *CLIENTS))
        if name not in self.stuck:
            self.stuck[name] = []
            return
        for traffic_class in self.stuck.pop(name):
            self.place(name, traffic_class)
        self.flush(name)

    def _rest(self) -> None:
        self.now_ms += self.chance.choice((0.25, 10.0, 50.0, 250.0, self.window_ms - self.now_ms % self.window_ms))
        self.node.wake(self.now_ms)
        for name in self.connections:
            self.ends[name].wake(self.now_ms)
            self.flush(name)

    def _flow(self) -> None:
        """Let some bytes arrive, and carry out what they cause."""
        for name in list(self.connections):
            self.arrive(name, self.chance.choice((1, 50, 400, 10**9, 10**9)))
            self.carry_out()
            self.arrive_far(name, self.chance.choice((1, 50, 400, 10**9, 10**9)))

    def _spoil(self) -> None:
        """Change a byte that is on its way to the node."""
        waiting = [each.to_node for each in self.connections.values() if each.to_node]
        if waiting:
            data = self.chance.choice(waiting)
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)

    def _grant(self) -> None:
        """Grant credit at the border of 64 bits, or none."""
        name = self.chance.choice(list(self.connections) or [NEIGHBOURS[0]])
        numbers = (0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1)
        grant = Grant(
            self.chance.choice((0, 2**20, 2**64 - 1)), self.chance.choice(numbers), ((0, self.chance.choice(numbers)),)
        )
        if name in self.connections:
            self.connections[name].to_node += encode_all([Ack(self.chance.choice((0, 1, 2**64 - 1)), grant)])

    def _pause(self) -> None:
        name = self.chance.choice((*NEIGHBOURS, *CLIENTS))
        (self.node.pause if self.chance.random() < 0.5 else self.node.resume)(self.peer(name))

    def _force(self) -> None:
        peer = BrokerId.parse(self.chance.choice(NEIGHBOURS))
        length = self.chance.choice((None, 0, 20, 2**63 - 1))
        self.node.broker.force(peer, self.chance.choice(list(Verdict)), length, self.now_ms)

    # Connections.

    def peer(self, name: str) -> Peer:
        return BrokerId.parse(name) if "." in name else self.ids.get(name, ClientId(name))

    def connect(self, name: str) -> None:
        """Open a connection; what was on its way over an old one is lost."""
        end = self.ends[name]
        end.disconnected()
        end.connected(self.now_ms)
        self.connections[name] = Connection()
        if "." in name:
            self.node.connect(BrokerId.parse(name), self.now_ms)
            self.flush(name)
            return
        (hello,) = end.drain(self.now_ms)
        assert isinstance(hello, Hello)
        overflow = Overflow.DROP_OLDEST if name == "R" else Overflow.DISCONNECT
        admitted = self.node.admit(name, overflow, hello, self.now_ms)
        self.story.append(f"admitted {admitted}")
        if admitted is None:
            self.lose(name, notices=False)
        else:
            self.ids[name] = admitted

    def lose(self, name: str, *, notices: bool) -> None:
        """Break a connection."""
        if self.connections.pop(name, None) is not None:
            self.ends[name].disconnected()
        if notices:
            self.node.disconnect(self.peer(name), self.now_ms)

    def send(self, name: str, message: Message) -> None:
        self.ends[name].send(message, self.now_ms)
        self.flush(name)

    def flush(self, name: str) -> None:
        """Write what a far end has to write."""
        items = self.ends[name].drain(self.now_ms)
        if name in self.connections:
            self.connections[name].to_node += encode_all(items)

    def arrive(self, name: str, count: int) -> bool:
        """Let bytes arrive at the node, and return whether there were any."""
        connection = self.connections.get(name)
        if connection is None or not connection.to_node:
            return False
        data, connection.to_node = bytes(connection.to_node[:count]), connection.to_node[count:]
        items: list[Item] = []
        try:
            items.extend(connection.node_reader.feed(data))  # type: ignore[arg-type]
        except BadFrame as error:
            self.story.append(f"{name} sent a bad frame: {error}")
        if items:
            self.node.receive(self.peer(name), items, self.now_ms)
        if connection.node_reader._failure is not None:
            self.carry_out()
            self.lose(name, notices=True)
        return True

    def arrive_far(self, name: str, count: int) -> bool:
        """Let bytes arrive at a far end, and return whether there were any."""
        connection = self.connections.get(name)
        if connection is None or not connection.to_far:
            return False
        data, connection.to_far = bytes(connection.to_far[:count]), connection.to_far[count:]
        end = self.ends[name]
        outcome = end.receive(list(connection.far_reader.feed(data)), self.now_ms)  # type: ignore[arg-type]
        self.story.append(f"{name} got {outcome}")
        for message in outcome.messages:
            if message.traffic_class != CONTROL:
                if name in self.stuck:
                    self.stuck[name].append(message.traffic_class)
                else:
                    self.place(name, message.traffic_class)
        self.flush(name)
        return True

    def place(self, name: str, traffic_class: int) -> None:
        """Return the credit of a frame, unless the session that accepted it is gone."""
        end = self.ends[name]
        if end._receiver.unplaced.get(traffic_class) or end._outlived.get(traffic_class):
            end.placed(traffic_class, 1)

    def carry_out(self) -> None:
        """Do the work that the node asks for."""
        while True:
            ready = self.node.ready(self.now_ms)
            for failure in ready.failures:
                self.story.append(f"failure: {failure.peer} {type(failure.error).__name__}: {failure.error}")
            for peer, items in ready.writes:
                data = bytes(encode_all(items))  # type: ignore[arg-type]
                self.story.append(f"to {peer}: {data.hex()}")
                name = peer.name if isinstance(peer, ClientId) else str(peer)
                if name in self.connections:
                    self.connections[name].to_far += data
            self.story.append(f"{ready.closes} {ready.silent} {ready.limits_reached} {ready.losses}")
            for peer in (*(each.peer for each in ready.closes), *ready.silent):
                self.lose(peer.name if isinstance(peer, ClientId) else str(peer), notices=True)
            if self.node.is_behind:
                self.node.wake(self.now_ms)
            elif not self.node.has_work:
                return

    def carry_everything(self) -> None:
        """Let everything arrive, for as long as there is anything."""
        for _ in range(100):
            self.carry_out()
            moved = [self.arrive(name, 10**9) for name in list(self.connections)]
            self.carry_out()
            moved += [self.arrive_far(name, 10**9) for name in list(self.connections)]
            if not any(moved):
                return


def lines(seed: int) -> Iterator[str]:
    """Yield what a node does."""
    yield from World(seed).play()
