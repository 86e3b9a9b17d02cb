"""A node whose links end in sessions that a test drives by hand.

The node is usually b.0 of three regions in a row and three clusters: primary neighbours a.0 and c.0, secondary
neighbours b.1 and b.2. Names with a dot are neighbours, all others are clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from octopia.broker import OctopiaBroker
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings, Session
from octopia.node import Close, Node, NodeSettings, Ready
from octopia.overlay import Scot, parse_tree
from octopia.protocol import CONTROL, Ack, CloseCode, Frame, Hello, Item, Overflow
from octopia.protocol.messages import ClientRequest, Deliver, Message, Publish
from support import at, make_broker, make_settings, publish, subscribe

LINKS = LinkSettings(window_bytes=1000, heartbeat_ms=100.0, suspicion_ms=400.0, fences=True)
CLIENT_LINKS = LinkSettings(window_bytes=1000, heartbeat_ms=100.0, suspicion_ms=400.0)
SESSIONS = NodeSettings(LINKS, CLIENT_LINKS)
ONE_BYTE = dataclasses.replace(LINKS, window_bytes=1)
"""A window that a single publication exhausts."""


def make_node(name: str = "b.0", settings: NodeSettings = SESSIONS, **broker_settings: Any) -> Node:
    """Make a node that has met nobody."""
    broker = make_broker(name, **broker_settings)
    return Node(broker, broker.state.neighbourhood.neighbours, 1, settings)


def make_restarted(name: str = "b.0", settings: NodeSettings = SESSIONS, now_ms: float = 0.0) -> Node:
    """Make a node whose broker has lost its memory and accepts no publications yet."""
    neighbourhood = Scot(parse_tree("a-b, b-c"), 3).neighbourhood(at(name))
    broker = OctopiaBroker(neighbourhood, make_settings(), 2, restarted_at_ms=now_ms)
    return Node(broker, neighbourhood.neighbours, 2, settings)


def messages_in(items: Sequence[Item] | Sequence[Message]) -> list[Message]:
    """Return the messages among items; without a session the items are the messages."""
    return [each.message if isinstance(each, Frame) else each for each in items if not isinstance(each, Hello | Ack)]


def written_to(ready: Ready, peer: Peer) -> list[Message]:
    """Return the messages that are to be written to a peer."""
    return [message for each, items in ready.writes if each == peer for message in messages_in(items)]


def numbers(messages: Sequence[Message]) -> list[int]:
    """Return the numbers of publications and deliveries, in order."""
    return [each.id.number for each in messages if isinstance(each, Publish | Deliver)]


def codes(closes: Sequence[Close]) -> list[tuple[str, CloseCode]]:
    """Return whose connections are to be closed, and why."""
    return [(str(each.peer), each.code) for each in closes]


def plain(number: int, **attributes: int) -> Publish:
    """Make a publication on its way; without attributes it is for c.0."""
    return publish("a.0", number, **(attributes or {"x": 1}))


class Rig:
    """A node with the sessions at the far ends of its links.

    Far ends return the credit of publications at once, unless they are ``stuck``.
    """

    def __init__(self, node: Node | None = None, far_links: LinkSettings = LINKS, **broker_settings: Any):
        self.node = node or make_node(**broker_settings)
        self.far_links = far_links
        self.now_ms = 0.0
        self.ends: dict[str, Session] = {}
        self.ids: dict[str, ClientId] = {}
        self.heard: dict[str, list[Message]] = {}
        self.stuck: dict[str, None] = {}
        self.closes: list[Close] = []

    @property
    def broker(self) -> OctopiaBroker:
        """The broker of the node."""
        assert isinstance(self.node.broker, OctopiaBroker)
        return self.node.broker

    def peer(self, name: str) -> Peer:
        """Return the peer of a name."""
        return at(name) if "." in name else self.ids[name]

    def session(self, name: str) -> Session:
        """Return the session at the near end of a link."""
        peer = self.peer(name)
        link = self.node.links[peer] if isinstance(peer, BrokerId) else self.node.clients[peer]
        assert link.session is not None
        return link.session

    # Connections.

    def meet(self, *names: str, incarnation: int = 1) -> None:
        """Connect neighbours that are new, and let both ends greet."""
        for name in names:
            self.ends[name] = Session(incarnation, self.far_links)
            self.heard.setdefault(name, [])
            self.connect(name)
        self.settle()

    def connect(self, name: str) -> None:
        """Open a new connection with a neighbour; what was on its way over the old one is lost."""
        self.ends[name].disconnected()
        self.ends[name].connected(self.now_ms)
        self.node.connect(at(name), self.now_ms)

    def cut(self, name: str) -> None:
        """Let both ends notice that their connection is gone."""
        self.ends[name].disconnected()
        self.node.disconnect(self.peer(name), self.now_ms)

    def greet(self, name: str, overflow: Overflow = Overflow.DISCONNECT) -> ClientId | None:
        """Let a client greet over a new connection, and return its id or None."""
        end = self.ends[name]
        end.disconnected()
        end.connected(self.now_ms)
        (hello,) = end.drain(self.now_ms)
        assert isinstance(hello, Hello)
        admitted = self.node.admit(name, overflow, hello, self.now_ms)
        if admitted is not None:
            self.ids[name] = admitted
        return admitted

    def join(
        self, name: str, *requests: ClientRequest, incarnation: int = 1, overflow: Overflow = Overflow.DISCONNECT
    ) -> ClientId:
        """Let a new client come and issue requests."""
        self.ends[name] = Session(incarnation, CLIENT_LINKS)
        self.heard[name] = []
        admitted = self.greet(name, overflow)
        assert admitted is not None
        self.settle()
        self.tell(name, *requests)
        self.settle()
        return admitted

    # Items.

    def tell(self, name: str, *messages: Message) -> None:
        """Let a far end send messages, which arrive together."""
        for message in messages:
            self.ends[name].send(message, self.now_ms)
        self.hand_over(name)

    def hand_over(self, name: str) -> bool:
        """Bring what a far end has to write to the node, and return whether there was anything."""
        items = self.ends[name].drain(self.now_ms)
        if items:
            self.node.receive(self.peer(name), items, self.now_ms)
        return bool(items)

    def carry(self) -> Ready:
        """Carry out one ``Ready``: its writes reach the far ends."""
        ready = self.node.ready(self.now_ms)
        for failure in ready.failures:
            raise failure.error
        for peer, items in ready.writes:
            self.reach(str(peer), items)  # type: ignore[arg-type]
        self.closes += ready.closes
        return ready

    def reach(self, name: str, items: Sequence[Item]) -> None:
        """Let items arrive at a far end."""
        end = self.ends[name]
        for message in end.receive(items, self.now_ms).messages:
            self.heard[name].append(message)
            if message.traffic_class != CONTROL and name not in self.stuck:
                end.placed(message.traffic_class, 1)

    def unstick(self, name: str) -> None:
        """Let a far end place everything that it has, and place at once from here on."""
        del self.stuck[name]
        for message in self.heard[name]:
            if message.traffic_class != CONTROL:
                self.ends[name].placed(message.traffic_class, 1)

    def settle(self) -> None:
        """Carry back and forth until nothing is left to carry."""
        while True:
            ready = self.carry()
            moved = [self.hand_over(name) for name in list(self.ends) if self.is_known(name)]
            if not ready.writes and not any(moved):
                return

    def is_known(self, name: str) -> bool:
        """Return whether the node has a link of this name."""
        return "." in name or self.ids.get(name) in self.node.clients

    def told(self, name: str) -> list[Message]:
        """Take what a far end has heard since the last call."""
        heard, self.heard[name] = self.heard[name], []
        return heard


def full(**options: Any) -> Rig:
    """Return a rig in which all room towards c.0 is taken, and P may publish for it.

    Queues hold one publication. c.0 grants one byte and places nothing: publication 0 of a.0 used its credit,
    publication 1 fills the queue.
    """
    rig = Rig(far_links=ONE_BYTE, queue_capacity=1, **options)
    rig.stuck["c.0"] = None
    rig.meet("a.0", "c.0", "b.1", "b.2")
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.settle()
    rig.tell("a.0", plain(0))
    rig.settle()
    rig.tell("a.0", plain(1))
    rig.settle()
    assert numbers(rig.told("c.0")) == [0]
    rig.heard["c.0"] = [plain(0)]  # It is still to be placed.
    return rig
