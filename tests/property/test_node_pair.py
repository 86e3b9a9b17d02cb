"""Whatever connections do, two nodes deliver every publication exactly once, and return all credit.

Two nodes share one link, and each has two clients that publish and subscribe. Connections break at any time and lose
what is on its way; an end notices, or goes on writing to nobody. Queues hold one publication, windows are smaller than
two. Items arrive in batches of any size, and a node may get several inputs before its work is carried out. Clients die,
and return under their name: with their session, or as another client.

The oracle is simple. A publication must reach each subscriber that had a matching confirmed subscription when it was
sent, once, if both clients live until the end. Nothing reaches anybody twice, or unasked, and the publications of one
client arrive in the order in which it sent them.
"""

from __future__ import annotations

import dataclasses
from collections import deque

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octopia.broker import BrokerSettings, OctopiaBroker
from octopia.content import Publication, parse_filter
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings, Session
from octopia.matching import SCAN
from octopia.node import Node, NodeSettings, introduce
from octopia.overlay import Scot, parse_tree
from octopia.protocol import ALL_CLASSES, Hello, Item, Overflow
from octopia.protocol.messages import (
    AdvertiseRequest,
    Confirmed,
    Deliver,
    Message,
    PublishRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from octopia.settings import PAPER_ROUTING, Algorithm, RoutingSettings

NEVER_MS = 1e12
LINKS = LinkSettings(window_bytes=60, heartbeat_ms=NEVER_MS, suspicion_ms=NEVER_MS, fences=True)
CLIENT_LINKS = LinkSettings(window_bytes=90, heartbeat_ms=NEVER_MS, suspicion_ms=NEVER_MS)
NAMES = ("A1", "A2", "B1", "B2")
LEVELS = 3
"""Publications have a level from 0 to 2; a subscription wants a level and all above."""

names = st.sampled_from(NAMES)
sides = st.sampled_from([0, 1])
levels = st.integers(0, LEVELS - 1)


class Connection:
    """The items on their way to both ends of a connection, until it breaks."""

    def __init__(self) -> None:
        self.is_whole = True
        self.to_node: deque[Item] = deque()
        self.to_other: deque[Item] = deque()

    def take(self, way: deque[Item], count: int) -> list[Item]:
        """Remove and return the next items that arrive together."""
        return [way.popleft() for _ in range(min(count, len(way)))] if self.is_whole else []


@dataclasses.dataclass(slots=True)
class Life:
    """A client from its first greeting to its death; ``got`` are the publications that it received."""

    name: str
    side: int
    incarnation: int
    session: Session
    id: ClientId | None = None
    connection: Connection | None = None
    is_alive: bool = True
    handles: int = 0
    wanted: dict[int, int] = dataclasses.field(default_factory=dict)
    ever_wanted: dict[int, int] = dataclasses.field(default_factory=dict)
    confirmed: dict[int, None] = dataclasses.field(default_factory=dict)
    got: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Sent:
    """A publication, its publisher, and the lives that must receive it, by name and incarnation."""

    level: int
    publisher: tuple[str, int]
    due: dict[tuple[str, int], None]


class Pair(RuleBasedStateMachine):
    """Two nodes, their clients, and everything in between."""

    tree, clusters, routing = "a-b", 1, PAPER_ROUTING

    def __init__(self) -> None:
        super().__init__()
        scot = Scot(parse_tree(self.tree), self.clusters)
        brokers = [
            OctopiaBroker(scot.neighbourhood(each), BrokerSettings(self.routing, queue_capacity=1), matchers=SCAN)
            for each in scot.brokers
        ]
        self.nodes = [
            Node(broker, broker.state.neighbourhood.neighbours, 1, NodeSettings(LINKS, CLIENT_LINKS))
            for broker in brokers
        ]
        self.ids = [broker.id for broker in brokers]
        introduce(*self.nodes)
        self.links: list[Connection | None] = [None, None]
        self.sent: list[Sent] = []
        self.lives: dict[str, Life] = {}
        self.past: list[Life] = []
        self.connect_link()

    @initialize(wishes=st.lists(levels, min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, wishes: list[int]) -> None:
        """Let all clients come and subscribe, and all subscriptions be confirmed."""
        for name, level in zip(NAMES, wishes, strict=True):
            self.be_born(name, 1, [level])
        self.let_everything_arrive()
        assert all(life.confirmed for life in self.lives.values())

    # What clients do.

    @rule(name=names, chosen=st.lists(levels, min_size=1, max_size=4), arrives=st.booleans())
    def publish(self, name: str, chosen: list[int], arrives: bool) -> None:
        """Publish as much as there is credit for; it may arrive at once."""
        for level in chosen:
            self.publish_one(self.lives[name], level)
            if arrives:
                self.arrive_from_client(name, 10, carries=True)

    @rule(side=sides, chosen=st.lists(levels, min_size=2, max_size=6))
    def publish_from_all_of_a_side(self, side: int, chosen: list[int]) -> None:
        """Let the clients of one node publish in turns, so that its queue fills."""
        for number, level in enumerate(chosen):
            self.publish(NAMES[2 * side + number % 2], [level], arrives=True)

    def publish_one(self, life: Life, level: int) -> None:
        """Send a publication if there is credit, and note to whom it is due."""
        if not life.session.is_up or not life.session.classes & 1:
            return
        due = {
            (each.name, each.incarnation): None
            for each in self.lives.values()
            if each.is_alive and any(each.wanted.get(handle, LEVELS) <= level for handle in each.confirmed)
        }
        number = len(self.sent)
        self.sent.append(Sent(level, (life.name, life.incarnation), due))
        self.say(life, PublishRequest(number, Publication({"level": level}, str(number).encode()), 0.0))

    @rule(name=names, level=levels)
    def subscribe(self, name: str, level: int) -> None:
        """Subscribe to a level and all above."""
        life = self.lives[name]
        if life.session.is_up and len(life.wanted) < 3:
            handle, life.handles = life.handles, life.handles + 1
            life.wanted[handle] = life.ever_wanted[handle] = level
            self.say(life, SubscribeRequest(handle, parse_filter(f"level >= {level}")))

    @rule(name=names)
    def unsubscribe(self, name: str) -> None:
        """Withdraw the oldest subscription; what is under way may or may not arrive."""
        life = self.lives[name]
        if life.session.is_up and life.wanted:
            handle = min(life.wanted)
            level = life.wanted.pop(handle)
            life.confirmed.pop(handle, None)
            for each in self.sent:
                if level <= each.level:
                    each.due.pop((name, life.incarnation), None)
            self.say(life, UnsubscribeRequest(handle))

    def say(self, life: Life, message: Message) -> None:
        """Send a message of a client."""
        life.session.send(message, 0.0)
        self.write(life)

    def write(self, life: Life) -> None:
        """Put what a client has to write on its way."""
        items = life.session.drain(0.0)
        if life.connection is not None:
            life.connection.to_node.extend(items)

    # What happens to clients.

    @rule(name=names, notices=st.booleans())
    def lose_client(self, name: str, notices: bool) -> None:
        """Break the connection of a client; its node notices, or not."""
        life = self.lives[name]
        if life.connection is not None:
            life.connection.is_whole = False
            life.connection = None
            life.session.disconnected()
        if notices and life.id is not None:
            self.nodes[life.side].disconnect(life.id, 0.0)
            self.carry(life.side)

    @rule(name=names)
    def come_back(self, name: str) -> None:
        """Let a client that lives greet over a new connection; it goes on where it was."""
        life, before = self.lives[name], self.lives[name].id
        self.greet(life)
        assert life.id == before, "its session was not remembered"

    @rule(name=names, notices=st.booleans(), luck=st.integers(0, 2))
    def die(self, name: str, notices: bool, luck: int) -> None:
        """Let a client without luck die and start again under its name at once, without memory."""
        life = self.lives[name]
        if luck:
            return
        self.forget(life)
        self.lose_client(name, notices)
        life.is_alive = False
        self.past.append(life)
        self.be_born(name, life.incarnation + 1, list(life.wanted.values()))

    def forget(self, life: Life) -> None:
        """Release the debts to a client, and those of publications of it that no node has placed for sure."""
        me = (life.name, life.incarnation)
        assert life.id is not None
        near = self.nodes[life.side].clients[life.id].session
        assert near is not None
        all_placed = not near.owes_credit and near.accepted == life.session.last_sequence
        for each in self.sent:
            each.due.pop(me, None)
            if each.publisher == me and not all_placed:
                each.due.clear()

    def be_born(self, name: str, incarnation: int, wishes: list[int]) -> None:
        """Let a new client come, advertise and subscribe."""
        life = Life(name, NAMES.index(name) // 2, incarnation, Session(incarnation, CLIENT_LINKS))
        self.lives[name] = life
        self.greet(life)
        self.finish_greeting(life)
        self.say(life, AdvertiseRequest(0, parse_filter("level >= 0")))
        for level in wishes:
            self.subscribe(name, level)

    def greet(self, life: Life) -> None:
        """Let a client greet; a name is taken until the node notices that its owner is gone."""
        node = self.nodes[life.side]
        if life.connection is not None:
            life.connection.is_whole = False
        life.session.disconnected()
        life.session.connected(0.0)
        (hello,) = life.session.drain(0.0)
        assert isinstance(hello, Hello)
        life.connection = Connection()
        client = node.admit(life.name, Overflow.DISCONNECT, hello, 0.0)
        if client is None:
            owner = node.client_named(life.name)
            assert owner is not None
            node.disconnect(owner, 0.0)
            client = node.admit(life.name, Overflow.DISCONNECT, hello, 0.0)
        assert client is not None
        life.id = client
        self.carry(life.side)

    def finish_greeting(self, life: Life) -> None:
        """Let a client hear the greeting of its node."""
        assert life.connection is not None
        self.hear(life, life.connection.take(life.connection.to_other, 1))
        assert life.session.is_up

    # What happens to the link.

    @rule(noticing=st.sampled_from([(), (0,), (1,), (0, 1)]))
    def lose_link(self, noticing: tuple[int, ...]) -> None:
        """Break the connection of the nodes; ends that do not notice write to nobody."""
        for connection in self.links:
            if connection is not None:
                connection.is_whole = False
        for side in noticing:
            self.links[side] = None
            self.nodes[side].disconnect(self.ids[1 - side], 0.0)
            self.carry(side)

    @rule()
    def connect_link(self) -> None:
        """Open a new connection between the nodes."""
        self.lose_link(())
        connection = Connection()
        self.links = [connection, connection]
        for side in (0, 1):
            self.nodes[side].connect(self.ids[1 - side], 0.0)
        for side in (0, 1):
            self.carry(side)

    @rule(side=sides, name=st.sampled_from(["", *NAMES]), pauses=st.booleans())
    def change_capacity(self, side: int, name: str, pauses: bool) -> None:
        """Let a connection have no more capacity, or have it again."""
        life = self.lives[name] if name else None
        side = life.side if life is not None else side
        peer: Peer | None = life.id if life is not None else self.ids[1 - side]
        assert peer is not None
        if pauses:
            self.nodes[side].pause(peer)
        else:
            self.nodes[side].resume(peer)
            self.carry(side)

    # What arrives.

    @rule(side=sides, count=st.integers(1, 6), carries=st.booleans())
    def arrive_over_link(self, side: int, count: int, carries: bool) -> None:
        """Let items arrive at a node from the other."""
        connection = self.links[side]
        if connection is not None:
            way = connection.to_node if side == 0 else connection.to_other
            items = connection.take(way, count)
            if items:
                self.nodes[side].receive(self.ids[1 - side], items, 0.0)
            if carries:
                self.carry(side)

    @rule(name=names, count=st.integers(1, 6), carries=st.booleans())
    def arrive_from_client(self, name: str, count: int, carries: bool) -> None:
        """Let items of a client arrive at its node."""
        life = self.lives[name]
        if life.connection is not None and life.id is not None:
            items = life.connection.take(life.connection.to_node, count)
            if items:
                self.nodes[life.side].receive(life.id, items, 0.0)
            if carries:
                self.carry(life.side)

    @rule(name=names, count=st.integers(1, 6))
    def arrive_at_client(self, name: str, count: int) -> None:
        """Let items arrive at a client."""
        life = self.lives[name]
        if life.connection is not None:
            self.hear(life, life.connection.take(life.connection.to_other, count))

    def hear(self, life: Life, items: list[Item]) -> None:
        """Hold what a client receives against what it may receive."""
        for message in life.session.receive(items, 0.0).messages:
            if isinstance(message, Deliver):
                self.on_delivery(life, message)
            else:
                assert isinstance(message, Confirmed), message
                if message.request == "subscription" and message.number in life.wanted:
                    life.confirmed[message.number] = None
        self.write(life)

    def on_delivery(self, life: Life, delivery: Deliver) -> None:
        """Check a delivery, and strike it off."""
        number = int(delivery.publication.payload)
        sent = self.sent[number]
        assert number not in life.got, f"{number} reached {life.name} twice"
        assert all(life.ever_wanted[handle] <= sent.level for handle in delivery.handles), "nobody asked for it"
        earlier = [each for each in life.got if self.sent[each].publisher == sent.publisher and self.keeps_order]
        assert all(each < number for each in earlier), f"{number} reached {life.name} after a later one"
        life.got.append(number)
        sent.due.pop((life.name, life.incarnation), None)

    @property
    def keeps_order(self) -> bool:
        """True if the publications of one publisher stay in order: adaptive routing keeps it only where it is asked."""
        return self.routing.algorithm is not Algorithm.ADAPTIVE

    def carry(self, side: int) -> None:
        """Carry out the work that a node asks for."""
        node = self.nodes[side]
        while True:
            ready = node.ready(0.0)
            for failure in ready.failures:
                raise failure.error
            assert not ready.closes, ready.closes
            assert not ready.silent
            for peer, items in ready.writes:
                if isinstance(peer, BrokerId):
                    connection = self.links[side]
                    if connection is not None:
                        (connection.to_other if side == 0 else connection.to_node).extend(items)  # type: ignore[arg-type]
                    continue
                life = self.lives.get(peer.name)
                if life is not None and life.connection is not None and life.id in (None, peer):
                    life.connection.to_other.extend(items)  # type: ignore[arg-type]
            if not node.has_work:
                return

    # What must hold.

    @invariant()
    def nodes_are_sound(self) -> None:
        """Hold brokers and their nodes to what must always be true."""
        for side, node in enumerate(self.nodes):
            node.broker.check()
            expected = {life.name for life in self.lives.values() if life.side == side}
            assert {client.name for client in node.clients} == expected
            assert {client.name for client in node.clients} == set(node._names)

    @rule()
    def let_everything_arrive(self) -> None:
        """Let everything arrive over whole connections, until nothing is under way."""
        while True:
            before = self.progress()
            for side in (0, 1):
                self.arrive_over_link(side, 1000, carries=True)
            for name in NAMES:
                self.arrive_from_client(name, 1000, carries=True)
                self.arrive_at_client(name, 1000)
            if self.progress() == before and not self.is_anything_under_way():
                return

    def progress(self) -> int:
        """Count the publications that were received."""
        return sum(len(life.got) for life in self.lives.values())

    def is_anything_under_way(self) -> bool:
        """Return whether items are on their way."""
        connections = [*self.links, *(life.connection for life in self.lives.values())]
        return any(each is not None and each.is_whole and (each.to_node or each.to_other) for each in connections)

    def teardown(self) -> None:
        """Mend what is broken: all debts are paid, all credit is returned, and nothing was dropped."""
        if not self.lives:
            return
        if any(connection is None or not connection.is_whole for connection in self.links):
            self.connect_link()
        for side in (0, 1):
            self.change_capacity(side, "", pauses=False)
        for name, life in self.lives.items():
            if life.connection is None:
                self.come_back(name)
            self.change_capacity(life.side, name, pauses=False)
        self.let_everything_arrive()
        for side in (0, 1):
            self.publish_from_all_of_a_side(side, [2, 2, 1, 1, 0, 0])  # More than queues hold.
        self.let_everything_arrive()
        missing = {number: list(sent.due) for number, sent in enumerate(self.sent) if sent.due}
        assert not missing, f"these were never delivered: {missing}"
        for side, node in enumerate(self.nodes):
            assert node.is_at_rest
            assert node.left_behind == 0
            assert node.lost_by_slow_clients == 0
            assert isinstance(node.broker, OctopiaBroker)
            assert not node.broker.state.inputs
            session = node.links[self.ids[1 - side]].session
            assert session is not None
            assert session.classes == ALL_CLASSES
            assert is_all_credit_returned(session), "credit was not returned to a node"
            assert not session.owes_credit
            assert session.dropped_unacknowledged == 0
        for life in self.lives.values():
            assert life.session.classes == ALL_CLASSES
            assert is_all_credit_returned(life.session), f"credit was not returned to {life.name}"
            assert life.session.dropped_unacknowledged == 0


def is_all_credit_returned(session: Session) -> bool:
    """Return whether an end knows that everything it ever sent was placed."""
    return {key: count for key, count in session._sender.sent_bytes.items() if count} == session._sender.granted_bytes


class PairOverILink(Pair):
    """The same over an iLink: clusters are reached by their bits, and publications have classes."""

    tree, clusters = "a", 2


class AdaptivePair(Pair):
    """The same under adaptive routing: copies for a link that goes down are taken back and wait."""

    routing = RoutingSettings(Algorithm.ADAPTIVE)


class AdaptivePairOverILink(AdaptivePair):
    """Adaptive routing over an iLink."""

    tree, clusters = "a", 2


def test_the_oracle_notices_a_delivery_that_is_missing() -> None:
    pair = Pair()
    pair.begin([2, 2, 0, 2])
    pair.publish("A1", [1], arrives=False)
    assert pair.sent[0].due == {("B1", 1): None}
    pair.let_everything_arrive()
    assert pair.lives["B1"].got == [0]
    pair.teardown()
    pair.sent[0].due["B1", 1] = None
    with pytest.raises(AssertionError, match=r"these were never delivered: \{0: \[\('B1', 1\)\]\}"):
        pair.teardown()


TestPair = Pair.TestCase
TestPair.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
TestPairOverILink = PairOverILink.TestCase
TestPairOverILink.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
TestAdaptivePair = AdaptivePair.TestCase
TestAdaptivePair.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
TestAdaptivePairOverILink = AdaptivePairOverILink.TestCase
TestAdaptivePairOverILink.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
