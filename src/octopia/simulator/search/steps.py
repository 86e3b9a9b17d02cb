"""Steps of nodes, one input at a time.

The next state of a node depends on its state and on one input, and on nothing else. So nodes are kept once per
canonical form and never changed, and each step is taken once, however many states of the whole overlay contain it. That
makes the search fast, with the same nodes that the network runs.

Every step ends with ``check()`` of the broker. An error of any kind is not raised; it is the result of the step.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias, assert_never, cast

import msgspec

from octopia.broker import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.ids import BrokerId
from octopia.link import LinkSettings
from octopia.matching import SCAN
from octopia.node import Node, NodeSettings, Ready, introduce
from octopia.overlay import Scot
from octopia.protocol import Ack, CloseCode, Frame, Grant, Hello, Item, Overflow
from octopia.protocol.messages import ClientReply, ClientRequest
from octopia.simulator.search.canonical import clone, digest

RETRANSMIT_MS = 100.0
RESTART_STEP = 2
"""Restarted brokers skip an incarnation, which an impostor may have used."""

_AMPLE = Grant(1, 1 << 30, ())


class Arrive(msgspec.Struct, frozen=True, tag=True):
    """An item, given by its number, arrived from a neighbour."""

    peer: BrokerId
    item: int


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A client sends a request."""

    client: str
    request: ClientRequest


class Attach(msgspec.Struct, frozen=True, tag=True):
    """A client comes, or comes back, and issues everything again that it had issued before."""

    client: str
    requests: tuple[ClientRequest, ...]


class Kill(msgspec.Struct, frozen=True, tag=True):
    """A client dies, and does not come back within its grace period."""

    client: str


class Connect(msgspec.Struct, frozen=True, tag=True):
    """There is a new connection with a neighbour; an older one is over."""

    peer: BrokerId


class Notice(msgspec.Struct, frozen=True, tag=True):
    """The connection with a neighbour is noticed to be broken."""

    peer: BrokerId


class Impersonate(msgspec.Struct, frozen=True, tag=True):
    """For a moment, another broker uses a neighbour's name, under this incarnation."""

    peer: BrokerId
    incarnation: int


class Crash(msgspec.Struct, frozen=True, tag=True):
    """The broker dies with all that it knows."""


class Restart(msgspec.Struct, frozen=True, tag=True):
    """The broker starts again, without memory."""


class Resend(msgspec.Struct, frozen=True, tag=True):
    """Everything that a neighbour has not acknowledged is written again."""

    peer: BrokerId


class PassGrace(msgspec.Struct, frozen=True, tag=True):
    """The grace period of a recovering broker is over."""


_Fed: TypeAlias = Arrive | Ask | Attach | Kill | Connect | Notice | Impersonate | Resend | PassGrace
Input: TypeAlias = Crash | Restart | _Fed

_Written: TypeAlias = list[tuple[BrokerId, list[Item]]]
_Replies: TypeAlias = list[tuple[str, ClientReply]]


@dataclasses.dataclass(slots=True)
class Station:
    """A node, or None while its broker is crashed."""

    id: BrokerId
    incarnation: int
    node: Node | None
    now_ms: float = 0.0

    @property
    def broker(self) -> OctopiaBroker | None:
        """The broker, or None while it is crashed."""
        if self.node is None:
            return None
        assert isinstance(self.node.broker, OctopiaBroker)
        return self.node.broker


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The result of an input: the station afterwards, the items it wrote, its replies to clients, and any failure.

    ``fenced`` are the neighbours that it refused, since a newer broker had used their name.
    """

    station: int
    written: tuple[tuple[BrokerId, tuple[int, ...]], ...] = ()
    replies: tuple[tuple[str, ClientReply], ...] = ()
    fenced: tuple[BrokerId, ...] = ()
    failure: str = ""


class Stations:
    """All stations and items that were met, by number, and the steps between stations."""

    def __init__(self, scot: Scot, settings: BrokerSettings, window_bytes: int = 0, *, client_sessions: bool = False):
        self._scot = scot
        self._settings = settings
        links = LinkSettings(retransmit_ms=RETRANSMIT_MS, fences=True)
        if window_bytes:
            links = dataclasses.replace(links, window_bytes=window_bytes)
        self._node_settings = NodeSettings(links, links if client_sessions else None)
        self.items: list[Item] = []
        self._item_numbers: dict[Item, int] = {}
        self._known: list[Station] = []
        self._numbers: dict[bytes, int] = {}
        self._steps: dict[tuple[int, Input], Step] = {}
        self._parts: dict[bytes, Any] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> Station:
        """Return a station, to be looked at and not to be changed."""
        return self._known[number]

    def begin(self) -> dict[BrokerId, int]:
        """Return the stations of a whole overlay on which nothing has happened yet."""
        nodes = {broker: self._make(broker, 1, restarted=False) for broker in self._scot.brokers}
        for low, high in (*self._scot.alinks, *self._scot.ilinks):
            introduce(nodes[low], nodes[high])
        return {broker: self._intern(Station(broker, 1, node)) for broker, node in nodes.items()}

    def step(self, number: int, given: Input) -> Step:
        """Return the result of an input to a station."""
        key = (number, given)
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._take_step(number, given)
        return known

    def _take_step(self, number: int, given: Input) -> Step:
        station: Station = clone(self._known[number])
        try:
            written, replies, fenced = self._apply(station, given)
            if station.node is not None:
                station.node.broker.check()
        except Exception as error:  # Everything that a node raises is a finding of the search.
            return Step(number, failure=f"{station.id} failed: {type(error).__name__}: {_first_line(error)}")
        items = tuple((peer, tuple(map(self._number_of, each))) for peer, each in written)
        return Step(self._intern(station), items, tuple(replies), tuple(fenced))

    def _apply(self, station: Station, given: Input) -> tuple[_Written, _Replies, list[BrokerId]]:
        match given:
            case Crash():
                station.node = None
                return [], [], []
            case Restart():
                station.incarnation += RESTART_STEP
                station.node = self._make(station.id, station.incarnation, restarted=True)
                return [], [], []
        assert station.node is not None
        self._feed(station, station.node, given)
        return _collect(station.node, station.now_ms)

    def _feed(self, station: Station, node: Node, given: _Fed) -> None:
        now_ms = station.now_ms
        match given:
            case Arrive():
                node.receive(given.peer, [self.items[given.item]], now_ms)
            case Ask():
                _ask(node, given.client, given.request, now_ms)
            case Attach():
                if self._node_settings.client_links is None:
                    node.attach(given.client, Overflow.DISCONNECT, now_ms)
                else:
                    incarnation = node._client_sessions + 1  # A client that comes back is another one.
                    node.admit(given.client, Overflow.DISCONNECT, Hello(incarnation, 0, 0, _AMPLE), now_ms)
                for request in given.requests:
                    _ask(node, given.client, request, now_ms)
            case Kill():
                client = node.client_named(given.client)
                assert client is not None
                node.disconnect(client, now_ms)
                node.detach(client, now_ms)
            case Connect():
                node.connect(given.peer, now_ms)
            case Notice():
                node.disconnect(given.peer, now_ms)
            case Impersonate():
                node.connect(given.peer, now_ms)
                node.receive(given.peer, [Hello(given.incarnation, 0, 0, _AMPLE)], now_ms)
                node.disconnect(given.peer, now_ms)
            case Resend():
                session = node.links[given.peer].session
                assert session is not None
                session.wake(RETRANSMIT_MS)
                node.resume(given.peer)
            case PassGrace():
                station.now_ms = self._settings.grace_ms
                node.wake_broker(station.now_ms)
            case _:
                assert_never(given)

    def _make(self, broker: BrokerId, incarnation: int, *, restarted: bool) -> Node:
        neighbourhood = self._scot.neighbourhood(broker)
        restarted_at_ms = 0.0 if restarted else None
        made = OctopiaBroker(neighbourhood, self._settings, incarnation, SCAN, restarted_at_ms=restarted_at_ms)
        return Node(made, neighbourhood.neighbours, incarnation, self._node_settings)

    def _number_of(self, item: Item) -> int:
        number = self._item_numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number

    def _intern(self, station: Station) -> int:
        form = digest([station.id, station.incarnation, station.node])
        number = self._numbers.setdefault(form, len(self._known))
        if number == len(self._known):
            self._share_parts(station)
            self._known.append(station)
        return number

    def _share_parts(self, station: Station) -> None:
        """Let stations have equal links and queues in common, which most are; known stations never change."""
        if station.node is None or station.broker is None:
            return
        for part in (station.node.links, station.broker.state.queues):
            for peer, value in part.items():
                part[peer] = self._parts.setdefault(digest([type(value).__name__, value]), value)


def _ask(node: Node, name: str, request: ClientRequest, now_ms: float) -> None:
    client = node.client_named(name)
    assert client is not None
    session = node.clients[client].session
    items = [request] if session is None else [Frame(session.accepted + 1, request)]
    node.receive(client, items, now_ms)


def _collect(node: Node, now_ms: float) -> tuple[_Written, _Replies, list[BrokerId]]:
    """Gather what a node wants written, its replies, and the neighbours that it fences; clients acknowledge at once."""
    written: _Written = []
    replies: _Replies = []
    fenced: list[BrokerId] = []
    while True:
        ready = node.ready(now_ms)
        for failure in ready.failures:
            raise failure.error
        for peer, items in ready.writes:
            if isinstance(peer, BrokerId):
                written.append((peer, cast("list[Item]", items)))
                continue
            for item in items:
                if isinstance(item, Frame):
                    replies.append((peer.name, cast("ClientReply", item.message)))
                    node.receive(peer, [Ack(item.sequence, _AMPLE)], now_ms)
                elif not isinstance(item, Hello | Ack):
                    replies.append((peer.name, cast("ClientReply", item)))
        fenced += _fenced(ready)
        if not node.has_work and not node.is_behind:
            return written, replies, fenced
        node.wake_broker(now_ms)


def _fenced(ready: Ready) -> list[BrokerId]:
    for close in ready.closes:
        if close.code is not CloseCode.FENCED:
            raise AssertionError(f"the link to {close.peer} was closed: {close.reason}")
    return [close.peer for close in ready.closes if isinstance(close.peer, BrokerId)]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
