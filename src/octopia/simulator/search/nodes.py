"""One broker with its sessions, stepped by one input at a time.

A *node* is what a machine would run: a broker, and a session for each of its neighbours. Its next state depends on its
state and on one input, and on nothing else. So nodes are kept once per canonical form, are never changed, and each step
is taken once, however many states of the whole overlay contain it: that is what makes the search fast, with the very
brokers and sessions that the network runs.

Every step ends with ``check()`` of the broker. An error of any kind is not raised but is what came of the step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

import msgspec

from octopia.broker import BrokerSettings, Effects
from octopia.broker.core import OctopiaBroker
from octopia.ids import BrokerId, ClientId
from octopia.link import LinkSettings, Session, Status
from octopia.matching import SCAN
from octopia.overlay import Scot
from octopia.protocol import Item, Overflow
from octopia.protocol.messages import ClientRequest, Message
from octopia.simulator.search.canonical import clone, digest

RETRANSMIT_MS = 100.0
LINK_SETTINGS = LinkSettings(retransmit_ms=RETRANSMIT_MS)


class Arrive(msgspec.Struct, frozen=True, tag=True):
    """An item, given by its number, came from a neighbour."""

    peer: BrokerId
    item: int


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A client asks something."""

    client: ClientId
    request: ClientRequest


class Attach(msgspec.Struct, frozen=True, tag=True):
    """A client comes, or comes back, and issues all that it had issued before."""

    client: ClientId
    requests: tuple[ClientRequest, ...]


class Connect(msgspec.Struct, frozen=True, tag=True):
    """There is a new connection with a neighbour; an older one is over."""

    peer: BrokerId


class Notice(msgspec.Struct, frozen=True, tag=True):
    """The connection with a neighbour is noticed to be broken."""

    peer: BrokerId


class Crash(msgspec.Struct, frozen=True, tag=True):
    """The broker dies with all that it knows."""


class Restart(msgspec.Struct, frozen=True, tag=True):
    """The broker begins anew, without memory."""


class Resend(msgspec.Struct, frozen=True, tag=True):
    """What a neighbour has not acknowledged is written again."""

    peer: BrokerId


class PassGrace(msgspec.Struct, frozen=True, tag=True):
    """The grace period of a recovering broker is over."""


_Fed: TypeAlias = Ask | Attach | Connect | Notice | Resend | PassGrace
Input: TypeAlias = Arrive | Crash | Restart | _Fed

_Drained: TypeAlias = list[tuple[BrokerId, list[Item]]]
_Replies: TypeAlias = list[tuple[ClientId, Message]]


@dataclasses.dataclass(slots=True)
class Node:
    """A broker (None while it is crashed) and its sessions by neighbour."""

    id: BrokerId
    incarnation: int
    broker: OctopiaBroker | None
    sessions: dict[BrokerId, Session]
    now_ms: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What came of an input: the node afterwards, the items it wrote, what it told clients, and what is wrong."""

    node: int
    written: tuple[tuple[BrokerId, tuple[int, ...]], ...] = ()
    replies: tuple[tuple[ClientId, Message], ...] = ()
    failure: str = ""


class Nodes:
    """All nodes and items that were met, by number, and the steps between nodes."""

    def __init__(self, scot: Scot, settings: BrokerSettings):
        self._scot = scot
        self._settings = settings
        self.items: list[Item] = []
        self._item_numbers: dict[Item, int] = {}
        self._known: list[Node] = []
        self._numbers: dict[bytes, int] = {}
        self._steps: dict[tuple[int, Input], Step] = {}
        self._parts: dict[bytes, Any] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> Node:
        """Return a node, to be looked at and not to be changed."""
        return self._known[number]

    def begin(self) -> dict[BrokerId, int]:
        """Return the nodes of a whole overlay on which nothing has happened yet."""
        nodes = {broker: self._make(broker, 1, restarted=False) for broker in self._scot.brokers}
        for low, high in (*self._scot.alinks, *self._scot.ilinks):
            _introduce(nodes[low].sessions[high], nodes[high].sessions[low])
        return {broker: self._intern(node) for broker, node in nodes.items()}

    def step(self, number: int, given: Input) -> Step:
        """Return what comes of an input to a node."""
        key = (number, given)
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._take_step(number, given)
        return known

    def _take_step(self, number: int, given: Input) -> Step:
        node: Node = clone(self._known[number])
        try:
            drained, replies = self._apply(node, given)
            if node.broker is not None:
                node.broker.check()
        except Exception as error:  # Whatever a broker raises is a finding of the search.
            return Step(number, failure=f"{node.id} failed: {type(error).__name__}: {_first_line(error)}")
        written = tuple((peer, tuple(map(self._number_of, items))) for peer, items in drained if items)
        return Step(self._intern(node), written, tuple(replies))

    def _apply(self, node: Node, given: Input) -> tuple[_Drained, _Replies]:
        match given:
            case Crash():
                node.broker, node.sessions = None, {}
                return [], []
            case Restart():
                anew = self._make(node.id, node.incarnation + 1, restarted=True)
                node.broker, node.sessions, node.incarnation = anew.broker, anew.sessions, anew.incarnation
            case Arrive():
                _receive(node, given.peer, self.items[given.item])
            case _:
                _feed(node, given, self._settings.grace_ms)
        _flow(node)
        return _collect(node)

    def _make(self, broker: BrokerId, incarnation: int, *, restarted: bool) -> Node:
        neighbourhood = self._scot.neighbourhood(broker)
        restarted_at_ms = 0.0 if restarted else None
        made = OctopiaBroker(neighbourhood, self._settings, incarnation, SCAN, restarted_at_ms=restarted_at_ms)
        sessions = {each: Session(incarnation, LINK_SETTINGS) for each in neighbourhood.neighbours}
        return Node(broker, incarnation, made, sessions)

    def _number_of(self, item: Item) -> int:
        number = self._item_numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number

    def _intern(self, node: Node) -> int:
        form = digest(_essence(node))
        number = self._numbers.setdefault(form, len(self._known))
        if number == len(self._known):
            self._share_parts(node)
            self._known.append(node)
        return number

    def _share_parts(self, node: Node) -> None:
        """Let nodes have equal sessions and queues in common, which most are; known nodes never change."""
        for peer, session in node.sessions.items():
            node.sessions[peer] = self._parts.setdefault(digest(["session", session]), session)
        if node.broker is not None:
            queues = node.broker.state.queues
            for each, queue in queues.items():
                queues[each] = self._parts.setdefault(digest(["neighbour", queue]), queue)


def _essence(node: Node) -> list[Any]:
    broker = node.broker.state if node.broker is not None else None
    return [node.id, node.incarnation, broker, node.sessions]


def _feed(node: Node, given: _Fed, grace_ms: float) -> None:
    assert node.broker is not None
    broker, now_ms = node.broker, node.now_ms
    match given:
        case Ask():
            _carry_out(node, broker.receive(given.client, [given.request], now_ms))
        case Attach():
            _carry_out(node, broker.attach(given.client, Overflow.DISCONNECT, now_ms))
            for request in given.requests:
                _carry_out(node, broker.receive(given.client, [request], now_ms))
        case Connect():
            _disconnect(node, broker, given.peer)
            node.sessions[given.peer].connected(now_ms)
        case Notice():
            _disconnect(node, broker, given.peer)
        case Resend():
            node.sessions[given.peer].wake(RETRANSMIT_MS)
        case PassGrace():
            node.now_ms = grace_ms
            _carry_out(node, broker.wake(grace_ms))
        case _:
            assert_never(given)


def _receive(node: Node, peer: BrokerId, item: Item) -> None:
    assert node.broker is not None
    outcome = node.sessions[peer].receive([item], node.now_ms)
    if outcome.came_up:
        _carry_out(node, node.broker.link_up(peer, node.now_ms))
    if outcome.messages:
        _carry_out(node, node.broker.receive(peer, outcome.messages, node.now_ms))


def _disconnect(node: Node, broker: OctopiaBroker, peer: BrokerId) -> None:
    if node.sessions[peer].disconnected():
        _carry_out(node, broker.link_down(peer, node.now_ms))


def _carry_out(node: Node, effects: Effects) -> None:
    if effects.violation is not None:
        raise effects.violation
    for placed in effects.placed:
        if isinstance(placed.peer, BrokerId):
            node.sessions[placed.peer].placed(placed.traffic_class, placed.frames)


def _flow(node: Node) -> None:
    """Let every session take all that it can carry."""
    assert node.broker is not None
    unblocked: Effects | None = Effects()
    while unblocked is not None:
        for peer, session in node.sessions.items():
            session.accept_data(node.broker.accepts_data)
            while session.is_up and (message := node.broker.take(peer, node.now_ms, session.classes)) is not None:
                session.send(message, node.now_ms)
        unblocked = node.broker.drain_effects()
        if unblocked is not None:
            _carry_out(node, unblocked)


def _collect(node: Node) -> tuple[_Drained, _Replies]:
    """Gather what the sessions want written, and what clients are told."""
    assert node.broker is not None
    drained: _Drained = [(peer, session.drain(node.now_ms)) for peer, session in node.sessions.items()]
    replies: _Replies = []
    for client in node.broker.state.clients:
        while (reply := node.broker.take(client, node.now_ms)) is not None:
            replies.append((client, reply))
    return drained, replies


def _introduce(one: Session, other: Session) -> None:
    """Connect two sessions before time begins: an overlay starts whole, with nothing to exchange."""
    greetings: list[Sequence[Item]] = []
    for session in (one, other):
        session.connected(0.0)
        greetings.append(session.drain(0.0))
    one.receive(greetings[1], 0.0)
    other.receive(greetings[0], 0.0)
    assert one.status is other.status is Status.UP


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
