"""Helpers for tests of links: short names for brokers and messages, and an overlay whose links a test moves.

The usual broker is b.0 of three regions in a row and three clusters: primary neighbours a.0 and c.0, secondary
neighbours b.1 and b.2.
"""

from __future__ import annotations

from typing import Any

from octopia.broker import BrokerSettings, Effects, OctopiaBroker
from octopia.broker.tables import CltEntry
from octopia.content import Publication, Value, parse_filter
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, PublicationId, SubscriptionId
from octopia.overlay import Scot, parse_tree
from octopia.protocol import ALL_CLASSES, ClusterIndexVector
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    ClientRequest,
    Message,
    Publish,
    PublishRequest,
    Subscribe,
    SubscribeRequest,
    Version,
)
from octopia.settings import Algorithm, RoutingSettings
from support import mail_of

at = BrokerId.parse

PATH = "a-b, b-c"


def v(number: int, incarnation: int = 1) -> Version:
    """Return the version of a CIV update."""
    return Version(incarnation, number)


def advertisement(host: str, number: int = 0, text: str = "x >= 0", incarnation: int = 1) -> Advertise:
    """Return an advertisement as its host broker sends it."""
    return Advertise(AdvertisementId(at(host), incarnation, number), parse_filter(text))


def subscription(host: str, number: int = 0, text: str = "x > 5", incarnation: int = 1) -> Subscribe:
    """Return a subscription as it travels through its cluster."""
    return Subscribe(SubscriptionId(at(host), incarnation, number), parse_filter(text))


def publication(number: int, *civ: int, host: str = "a.0", clusters: int = 3, **attributes: Value) -> Publish:
    """Return a publication on its way, with the clusters that it must still reach."""
    carried = ClusterIndexVector.of(civ, clusters) if civ else None
    content = Publication(attributes or {"x": 9})
    return Publish(PublicationId(at(host), 1, number), content, carried, 1, 0.0)


def offer(handle: int = 0, text: str = "x >= 0", timeout_ms: float = 0.0) -> AdvertiseRequest:
    """Return a publisher's request to advertise."""
    return AdvertiseRequest(handle, parse_filter(text), timeout_ms=timeout_ms)


def want(handle: int = 0, text: str = "x > 5", timeout_ms: float = 0.0) -> SubscribeRequest:
    """Return a subscriber's request to subscribe."""
    return SubscribeRequest(handle, parse_filter(text), timeout_ms)


def say(sequence: int, **attributes: Value) -> PublishRequest:
    """Return a publisher's request to publish."""
    return PublishRequest(sequence, Publication(attributes or {"x": 9}), 0.0)


def make(
    name: str = "b.0",
    tree: str = PATH,
    clusters: int = 3,
    *,
    confirmations: bool = True,
    algorithm: str = "dynamic",
    tau: float = 10.0,
    incarnation: int = 1,
    restarted_at_ms: float | None = None,
    **settings: Any,
) -> OctopiaBroker:
    """Return one broker of an overlay."""
    routing = RoutingSettings(Algorithm(algorithm), tau, confirmations=confirmations)
    neighbourhood = Scot(parse_tree(tree), clusters).neighbourhood(at(name))
    return OctopiaBroker(
        neighbourhood, BrokerSettings(routing, **settings), incarnation, restarted_at_ms=restarted_at_ms
    )


def peer(name: str) -> Peer:
    """Return a broker for a name such as ``b.3``, otherwise a client."""
    return at(name) if "." in name else ClientId(name)


def feed(broker: OctopiaBroker, sender: str, *messages: Message, now_ms: float = 0.0) -> Effects:
    """Hand messages to a broker that must accept them, and check its invariants."""
    effects = broker.receive(peer(sender), messages, now_ms)
    assert effects.violation is None
    broker.check()
    return effects


def join(broker: OctopiaBroker, name: str, *requests: ClientRequest, now_ms: float = 0.0) -> Effects:
    """Attach a client and let it send requests."""
    assert broker.attach(ClientId(name), now_ms).violation is None
    return feed(broker, name, *requests, now_ms=now_ms)


def taken(broker: OctopiaBroker, target: str, now_ms: float = 0.0, classes: int = ALL_CLASSES) -> list[Message]:
    """Take everything that waits for a neighbour or a client."""
    who = peer(target)
    if isinstance(who, ClientId):
        return mail_of(broker, who)
    messages: list[Message] = []
    while (message := broker.take(who, now_ms, classes)) is not None:
        messages.append(message)
    return messages


def silence(broker: OctopiaBroker) -> None:
    """Take everything that waits, and drop it."""
    for each in (*broker.state.queues, *broker.state.clients):
        taken(broker, str(each))


def entry(broker: OctopiaBroker, message: Advertise) -> CltEntry:
    """Return a broker's entry for an advertisement."""
    found = broker.state.clt.get(message.id)
    assert found is not None
    return found


def hosted(broker: OctopiaBroker, client: str = "P", handle: int = 0) -> CltEntry:
    """Return a host broker's entry for a client's advertisement."""
    found = broker.state.clt.get(broker.state.clients[ClientId(client)].advertisements[handle])
    assert found is not None
    return found


def numbers(messages: list[Message]) -> list[int]:
    """Return the numbers of publications, in order."""
    return [each.id.number for each in messages if isinstance(each, Publish)]


class Overlay:
    """Brokers between which nothing moves, breaks or heals unless a test says so."""

    def __init__(self, tree: str = PATH, clusters: int = 3, **settings: Any):
        self.scot = Scot(parse_tree(tree), clusters)
        self._how = (tree, clusters)
        self._settings = settings
        self.now_ms = 0.0
        self.brokers = {str(each): make(str(each), tree, clusters, **settings) for each in self.scot.brokers}
        self.log: list[tuple[str, str, Message]] = []
        self._incarnations = dict.fromkeys(self.brokers, 1)
        self._cut: dict[tuple[str, str], None] = {}
        self._links = sorted(
            (str(one), str(other))
            for low, high in (*self.scot.alinks, *self.scot.ilinks)
            for one, other in ((low, high), (high, low))
        )

    def __getitem__(self, name: str) -> OctopiaBroker:
        return self.brokers[name]

    @property
    def open_links(self) -> list[tuple[str, str]]:
        """The directions in which messages can move."""
        return [link for link in self._links if self._carries(*link)]

    def ask(self, client: str, broker: str, *requests: ClientRequest) -> None:
        """Let a client send requests to its broker; the first call attaches it."""
        if ClientId(client) not in self[broker].state.clients:
            self[broker].attach(ClientId(client), self.now_ms)
        feed(self[broker], client, *requests, now_ms=self.now_ms)

    def step(self, source: str, target: str) -> Message | None:
        """Carry the next message that waits at ``source`` for ``target``."""
        message = self[source].take(at(target), self.now_ms)
        if message is not None:
            self.log.append((source, target, message))
            feed(self[target], source, message, now_ms=self.now_ms)
        return message

    def settle(self) -> None:
        """Carry until nothing is left to carry."""
        while True:
            carried = [self.step(*link) for link in self.open_links]
            if not any(message is not None for message in carried):
                return

    def cut(self, one: str, other: str) -> None:
        """Report to both ends that a link is down."""
        self._cut[one, other] = self._cut[other, one] = None
        for source, target in ((one, other), (other, one)):
            if source in self.brokers:
                self[source].link_down(at(target), self.now_ms)
                self[source].check()

    def heal(self, one: str, other: str) -> None:
        """Report to both ends that a link is up again."""
        del self._cut[one, other], self._cut[other, one]
        self._connect(one, other)

    def crash(self, name: str) -> None:
        """Crash a broker, and report it to its neighbours."""
        del self.brokers[name]
        for source, target in self._links:
            if target == name and source in self.brokers:
                self[source].link_down(at(target), self.now_ms)

    def restart(self, name: str, *, connect: bool = True) -> OctopiaBroker:
        """Restart a crashed broker without state, and connect it to all reachable neighbours."""
        self._incarnations[name] += 1
        self.brokers[name] = make(
            name,
            *self._how,
            incarnation=self._incarnations[name],
            restarted_at_ms=self.now_ms,
            **self._settings,
        )
        if connect:
            for source, target in self._links:
                if source == name:
                    self._connect(source, target)
        return self[name]

    def restart_all(self, *names: str) -> None:
        """Restart several crashed brokers together."""
        for name in names:
            self.restart(name, connect=False)
        for source, target in self._links:
            if source in names and (target not in names or source < target):
                self._connect(source, target)

    def received(self, client: str, broker: str) -> list[Message]:
        """Take everything that waits for a client."""
        return taken(self[broker], client, self.now_ms)

    def said(self, source: str, target: str, *kinds: type) -> list[Any]:
        """Return the messages of the given kinds that were carried from one broker to another."""
        wanted = kinds or (object,)
        return [each for one, other, each in self.log if (one, other) == (source, target) and isinstance(each, wanted)]

    def _connect(self, one: str, other: str) -> None:
        if self._carries(one, other):
            self[one].link_up(at(other), self.now_ms)
            self[other].link_up(at(one), self.now_ms)

    def _carries(self, source: str, target: str) -> bool:
        return (source, target) not in self._cut and source in self.brokers and target in self.brokers
