"""Known traps of designs like this one, each with its own test.

Worlds are driven directly, so a test can inspect brokers at any moment and record every message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from octopia.broker import BrokerSettings, OctopiaBroker, Verdict
from octopia.broker.interface import Broker, Fact, Routed
from octopia.broker.tables import CltEntry
from octopia.content import Publication, Value, parse_filter
from octopia.ids import BrokerId, Peer, SubscriptionId
from octopia.link import LinkSettings
from octopia.overlay import LinkShape, Scot, parse_tree
from octopia.protocol import Cause, Frame, MessageKind
from octopia.protocol.messages import (
    AdvertiseRequest,
    CivNone,
    CivState,
    CivUnset,
    ClientReply,
    Confirm,
    Confirmed,
    Deliver,
    Message,
    Publish,
    PublishRequest,
    SubscribeRequest,
    Unsubscribe,
)
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.agenda import to_ns
from octopia.simulator.driver import Driver
from octopia.simulator.links import FaultyLinks
from octopia.simulator.profiles import UNIT
from octopia.simulator.world import Environment, World
from support import client_at

at = BrokerId.parse

GRACE_MS = 5000.0
NOTICED_MS = 2600.0
"""The time after which both ends of a cut link have noticed."""


class Deliveries:
    """An observer that records deliveries and their times."""

    def __init__(self) -> None:
        self.replies: list[tuple[str, ClientReply, float]] = []

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        pass

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        self.replies.append((client, reply, now_ms))

    def of(self, client: str) -> list[int]:
        """Return the values of n that a client received, in order."""
        return [_n(each) for name, each, _ in self.replies if name == client and isinstance(each, Deliver)]

    def times(self, client: str) -> list[float]:
        """Return the times at which a client received publications."""
        return [now_ms for name, each, now_ms in self.replies if name == client and isinstance(each, Deliver)]

    def confirmed_ms(self, client: str) -> list[float]:
        """Return the times at which a client got confirmations."""
        return [now_ms for name, each, now_ms in self.replies if name == client and isinstance(each, Confirmed)]


def _n(delivery: Deliver) -> int:
    value = delivery.publication.attributes["n"]
    assert isinstance(value, int)
    return value


@dataclasses.dataclass
class Eavesdropper:
    """A host of links that records every message before the driver gets it."""

    driver: Driver
    heard: list[tuple[float, str, str, Message]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def arrive(self, target: BrokerId, sender: Peer, items: Sequence[Any]) -> None:
        messages = [item.message if isinstance(item, Frame) else item for item in items]
        self.heard += [(self.driver.agenda.now_ms, str(sender), str(target), each) for each in messages]
        self.driver.arrive(target, sender, items)


class Traps(World):
    """A world with sessions in which every message is recorded, with short names for clients' requests."""

    def __init__(
        self,
        tree: str,
        clusters: int,
        *,
        algorithm: str = "dynamic",
        capacity: int = 0,
        window_bytes: int = 64 * 1024,
        client_queue_limit: int = 10_000,
    ):
        self.told = Deliveries()
        self.heard: list[tuple[float, str, str, Message]] = []
        settings = BrokerSettings(
            RoutingSettings(Algorithm(algorithm)),
            queue_capacity=capacity,
            grace_ms=GRACE_MS,
        )
        sessions = LinkSettings(window_bytes, retransmit_ms=200.0)
        environment = Environment(UNIT, sessions, client_queue_limit=client_queue_limit)
        super().__init__(Scot(parse_tree(tree), clusters), settings, environment, [self.told])
        self.driver.checking = True
        assert isinstance(self.links, FaultyLinks)
        self.links.host = Eavesdropper(self.driver, self.heard)
        self._handles = 0

    def state_of(self, name: str) -> OctopiaBroker:
        broker = self.broker(at(name))
        assert isinstance(broker, OctopiaBroker)
        return broker

    def client(self, name: str, broker: str, *, offers: str | None = None, wants: str | None = None) -> None:
        """Attach a client, and let it issue its requests."""
        self.attach(name, at(broker))
        if offers is not None:
            self._handles += 1
            self.request(name, AdvertiseRequest(self._handles, parse_filter(offers)))
        if wants is not None:
            self._handles += 1
            self.request(name, SubscribeRequest(self._handles, parse_filter(wants)))

    def publish(self, client: str, n: int, **attributes: Value) -> None:
        request = PublishRequest(n, Publication({"n": n, **attributes}), self.agenda.now_ms)
        self.request(client, request)

    def rate(self, source: str, target: str, rate: float) -> None:
        self.links.shape(at(source), at(target), LinkShape(rate=rate))

    def congest(self, source: str, target: str, *, congested: bool) -> None:
        self.force(at(source), at(target), Verdict.CONGESTED if congested else Verdict.FREE, None)

    def after(self, delay_ms: float) -> None:
        """Let time pass."""
        self.agenda.enter(self.agenda.now_ns + to_ns(delay_ms), 4, lambda _: None, None)
        until_ns = self.agenda.now_ns + to_ns(delay_ms)
        while self.agenda.now_ns < until_ns:
            self.agenda.step()

    def advertised(self, client: str, broker: str) -> CltEntry:
        """Return the host broker's entry for the only advertisement of a client."""
        state = self.state_of(broker).state
        [named] = state.clients[client_at(self.state_of(broker), client)].advertisements.values()
        found = state.clt.get(named)
        assert found is not None
        return found

    def subscribed(self, client: str, broker: str) -> SubscriptionId:
        """Return the only subscription of a client."""
        found = self.state_of(broker)
        [named] = found.state.clients[client_at(found, client)].subscriptions.values()
        return named

    def heard_from(self, source: str, *kinds: type) -> list[Message]:
        """Return the recorded messages of the given kinds from a broker."""
        return [each for _, sender, _, each in self.heard if sender == source and isinstance(each, kinds)]

    @property
    def sessions(self) -> FaultyLinks:
        assert isinstance(self.links, FaultyLinks)
        return self.links


def test_a_blocked_class_does_not_delay_another() -> None:
    """Four brokers in a ring: class 1 is stuck at the head of a.1's input from a.0, class 0 passes it."""
    world = Traps("a", 4, capacity=1, window_bytes=1)
    world.client("far", "a.2", wants="kind = 'far'")
    world.client("near", "a.1", wants="n >= 0")
    world.client("P", "a.0", offers="n >= 0 AND kind = 'far'")
    world.client("Q", "a.0", offers="n >= 0 AND kind = 'near'")
    world.run()
    for target in ("a.2", "a.3"):
        world.congest("a.0", target, congested=True)
    world.congest("a.0", "a.1", congested=False)
    world.rate("a.1", "a.2", 0.5)
    start_ms = world.agenda.now_ms
    for n in range(5):
        world.publish("P", n, kind="far")
    world.after(50.0)
    blocked = world.state_of("a.1").state.inputs
    assert (at("a.0"), 1) in blocked, "what goes on to a.2 must wait by now"
    for n in range(100, 110):
        world.publish("Q", n, kind="near")
    world.after(200.0)
    assert [n for n in world.told.of("near") if n >= 100] == list(range(100, 110))
    assert len(world.told.of("far")) < 2, "while a.2 has got next to nothing"
    world.run()
    assert world.told.of("far") == list(range(5))
    assert world.agenda.now_ms - start_ms > 6000.0


@pytest.mark.parametrize("cut_ms", [20.0, NOTICED_MS])
def test_a_frame_accepted_but_not_placed_is_not_processed_twice_after_a_cut(cut_ms: float) -> None:
    world = Traps("a-b, b-c", 1, capacity=1)
    world.client("P", "a.0", offers="n >= 0")
    world.client("near", "b.0", wants="n >= 0")
    world.client("far", "c.0", wants="n >= 0")
    world.run()
    world.rate("b.0", "c.0", 1.0)
    for n in range(6):
        world.publish("P", n)
    world.after(10.0)
    waiting = world.state_of("b.0").state.inputs[at("a.0"), 0]
    assert waiting.waiting
    assert waiting.placing
    world.cut(at("a.0"), at("b.0"))
    world.after(cut_ms)
    assert len(world.told.of("far")) < 6
    world.heal(at("a.0"), at("b.0"))
    world.run()
    assert world.told.of("near") == list(range(6))
    assert world.told.of("far") == list(range(6))
    sessions = [link.session for node in world.nodes for link in node.links.values()]
    assert [session.dropped_unacknowledged for session in sessions if session is not None] == [0] * 4


@pytest.mark.parametrize("cut_ms", [30.0, NOTICED_MS])
def test_credit_survives_cuts(cut_ms: float) -> None:
    """One frame at a time: if any cut lost credit, the link would stall forever."""
    world = Traps("a-b, b-c", 1, capacity=1, window_bytes=1)
    world.client("P", "a.0", offers="n >= 0")
    world.client("S", "c.0", wants="n >= 0")
    world.run()
    world.rate("b.0", "c.0", 200.0)
    for n in range(40):
        world.publish("P", n)
    for delay_ms in (0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 5.5, 6.0):
        world.after(delay_ms)
        world.cut(at("a.0"), at("b.0"))
        world.after(cut_ms)
        world.heal(at("a.0"), at("b.0"))
        world.after(7.0)
    world.run()
    for n in range(40, 60):
        world.publish("P", n)
    world.run()
    assert world.told.of("S") == list(range(60))
    assert world.sessions.counters.lost_in_cuts > 0, "some cut must have hit something"


def test_a_frame_is_not_routed_again_after_partial_placement() -> None:
    world = Traps("a", 4, capacity=1, window_bytes=1)
    for cluster in (1, 2, 3):
        world.client(f"S{cluster}", f"a.{cluster}", wants="n >= 0")
    world.client("P", "a.0", offers="n >= 0")
    world.run()
    for source in range(4):
        for target in range(4):
            if source != target:
                world.congest(f"a.{source}", f"a.{target}", congested=False)
    world.rate("a.0", "a.2", 1.0)
    for n in range(4):
        world.publish("P", n)
    world.after(5.0)
    placing = world.state_of("a.0").state.inputs[client_at(world.state_of("a.0"), "P"), 0].placing
    assert list(placing) == [(at("a.2"), 0)], "two copies are on their way, the third waits"
    for target in ("a.1", "a.2", "a.3"):
        world.congest("a.0", target, congested=True)
    world.after(100.0)
    for target in ("a.1", "a.2", "a.3"):
        world.congest("a.0", target, congested=False)
    world.run()
    for cluster in (1, 2, 3):
        assert world.told.of(f"S{cluster}") == list(range(4))
    copies = [each for _, _, _, each in world.heard if isinstance(each, Publish)]
    assert len(copies) == 12
    assert all(each.publication_civ is None for each in copies)


def test_a_pending_bit_clears_after_cut_and_heal() -> None:
    world = Traps("a", 3)
    world.client("P", "a.0", offers="n >= 0")
    world.client("S", "a.2", wants="n >= 0")
    world.run()
    entry = world.advertised("P", "a.0")
    assert str(entry.routing_civ) == "101"
    world.cut(at("a.0"), at("a.1"))
    world.after(NOTICED_MS)
    assert str(entry.routing_civ) == "111"
    world.heal(at("a.0"), at("a.1"))
    world.run()
    assert not entry.pending
    assert str(entry.routing_civ) == "101"
    world.heard.clear()
    world.publish("P", 1)
    world.run()
    assert [target for _, _, target, each in world.heard if isinstance(each, Publish)] == ["a.2"]


def test_a_recovering_secondary_never_answers_0() -> None:
    """b.0 restarts while c.0, which has the only subscriber, cannot be reached."""
    world = Traps("a-b, b-c", 2)
    world.client("P", "b.1", offers="n >= 0")
    world.client("S", "c.0", wants="n >= 0")
    world.run()
    world.cut(at("b.0"), at("c.0"))
    world.crash(at("b.0"))
    world.after(100.0)
    world.heard.clear()
    world.restart(at("b.0"))
    world.client("Q", "b.1", offers="n >= 0 AND q > 0")
    world.after(GRACE_MS + 1000.0)
    assert world.state_of("b.0").accepts_data, "the grace period has passed"
    assert world.state_of("b.0").counters.occasions[Cause.GRACE] == 1
    assert not world.heard_from("b.0", CivNone, CivUnset)
    assert not [each for each in world.heard_from("b.0", CivState) if isinstance(each, CivState) and each.unwanted]
    for client in ("P", "Q"):
        assert 0 in world.advertised(client, "b.1").routing_civ
    world.heal(at("b.0"), at("c.0"))
    world.run()
    assert [0 in world.advertised(client, "b.1").civ for client in ("P", "Q")] == [True, True]
    world.publish("P", 1)
    world.run()
    assert world.told.of("S") == [1]


@pytest.mark.parametrize("apart_ms", [0.0, 1.0, 50.0])
def test_two_neighbours_that_restart_together_delete_nothing(apart_ms: float) -> None:
    world = Traps("a-b, b-c, c-d", 2)
    subscribers = {"S": "a.0", "T": "d.0", "U": "a.0"}
    for client, broker in subscribers.items():
        world.client(client, broker, wants="n >= 0")
    world.client("P", "b.1", offers="n >= 0")
    world.client("Q", "c.1", offers="n >= 0")
    world.run()
    theirs = {world.subscribed(client, broker) for client, broker in subscribers.items()}
    world.heard.clear()
    for broker in ("b.0", "c.0"):
        world.crash(at(broker))
    world.after(200.0)
    world.restart(at("b.0"))
    world.after(apart_ms)
    world.restart(at("c.0"))
    world.run()
    assert not [each for _, _, _, each in world.heard if isinstance(each, Unsubscribe)]
    for broker in ("a.0", "b.0", "c.0", "d.0"):
        assert {each.id for each in world.state_of(broker).state.prt} == theirs
        assert world.state_of(broker).state.recovery is None
    assert not [each for _, _, _, each in world.heard if isinstance(each, CivUnset | CivNone)]
    world.publish("P", 1)
    world.publish("Q", 2)
    world.run()
    for client in subscribers:
        assert sorted(world.told.of(client)) == [1, 2]


def test_a_restarted_secondary_that_has_not_met_its_region_confirms_nothing() -> None:
    world = Traps("a-b", 3)
    world.client("P", "b.1", offers="n >= 0")
    world.client("S", "a.0")
    world.run()
    world.cut(at("b.0"), at("b.1"))
    world.crash(at("b.0"))
    world.after(100.0)
    restarted_ms = world.agenda.now_ms
    world.restart(at("b.0"))
    world.request("S", SubscribeRequest(50, parse_filter("n >= 0")))
    world.after(GRACE_MS - 10.0)
    assert not world.heard_from("b.0", Confirm)
    assert world.told.confirmed_ms("S") == []
    world.after(100.0)
    [confirmed_ms] = world.told.confirmed_ms("S")
    assert confirmed_ms >= restarted_ms + GRACE_MS


def test_once_it_has_met_its_region_it_confirms() -> None:
    world = Traps("a-b", 3)
    world.client("P", "b.1", offers="n >= 0")
    world.client("S", "a.0")
    world.run()
    world.cut(at("b.0"), at("b.1"))
    world.crash(at("b.0"))
    world.after(100.0)
    restarted_ms = world.agenda.now_ms
    world.restart(at("b.0"))
    world.request("S", SubscribeRequest(50, parse_filter("n >= 0")))
    world.after(300.0)
    assert world.told.confirmed_ms("S") == []
    world.heal(at("b.0"), at("b.1"))
    world.after(300.0)
    [confirmed_ms] = world.told.confirmed_ms("S")
    assert confirmed_ms < restarted_ms + GRACE_MS
    world.publish("P", 1)
    world.run()
    assert world.told.of("S") == [1]


@pytest.mark.parametrize("algorithm", ["static", "dynamic"])
def test_a_restarted_inner_broker(algorithm: str) -> None:
    """No storm of unsubscriptions, no lost bit, and no loss for third parties once it is back."""
    world = Traps("a-b, b-c, b-d", 3, algorithm=algorithm)
    third_parties = {"S": "a.0", "T": "c.0", "U": "d.0"}
    for client, broker in third_parties.items():
        world.client(client, broker, wants="n >= 0")
    world.client("own1", "b.0", wants="n >= 0")
    world.client("own2", "b.0", wants="n < 0")
    publishers = {"P": "b.1", "Q": "a.2", "R": "c.0"}
    for client, broker in publishers.items():
        world.client(client, broker, offers="n >= 0")
    world.run()
    own = {world.subscribed(client, "b.0") for client in ("own1", "own2")}
    before = {client: str(world.advertised(client, broker).civ) for client, broker in publishers.items()}
    sent_before = sum(each.sent[MessageKind.UNSUBSCRIPTION] for each in world.counters())
    world.heard.clear()
    world.crash(at("b.0"))
    world.after(300.0)
    world.restart(at("b.0"))
    for client, wants in (("own1", "n >= 0"), ("own2", "n < 0")):
        world.client(client, "b.0", wants=wants)
    world.run()
    unsubscribed = [each.id for _, _, _, each in world.heard if isinstance(each, Unsubscribe)]
    assert set(unsubscribed) <= own
    assert len(unsubscribed) == sum(each.sent[MessageKind.UNSUBSCRIPTION] for each in world.counters()) - sent_before
    for client, broker in publishers.items():
        assert str(world.advertised(client, broker).civ) == before[client]
        assert not world.advertised(client, broker).pending
    assert not [each for _, _, _, each in world.heard if isinstance(each, CivUnset | CivNone)]
    for n, client in enumerate([*publishers] * 4):
        world.publish(client, n)
    world.run()
    for client in (*third_parties, "own1"):
        assert sorted(world.told.of(client)) == list(range(12))


def test_old_subscriptions_of_a_restarted_edge_broker_go_once_through_the_tree() -> None:
    world = Traps("a-b, b-c, c-d", 2)
    world.client("S", "d.0", wants="n >= 0")
    world.client("own", "a.0", wants="n > 5")
    world.run()
    old = world.subscribed("own", "a.0")
    world.heard.clear()
    world.crash(at("a.0"))
    world.after(300.0)
    world.restart(at("a.0"))
    world.run()
    withdrawn = [(source, target, each.id) for _, source, target, each in world.heard if isinstance(each, Unsubscribe)]
    assert withdrawn == [("b.0", "c.0", old), ("c.0", "d.0", old)]
    assert all(len(world.state_of(f"{region}.0").state.prt) == 1 for region in "abcd")


def test_a_broker_that_restarts_before_its_link_was_free_writes_nothing_of_its_former_life() -> None:
    """A publication occupies the wire when its broker crashes; the broker restarts before the wire is free."""
    world = Traps("a-b", 1)
    world.client("P", "a.0", offers="n >= 0")
    world.client("S", "b.0", wants="n >= 0")
    world.run()
    world.rate("a.0", "b.0", 2.0)
    world.publish("P", 1)
    world.after(50.0)
    world.crash(at("a.0"))
    world.after(10.0)
    world.restart(at("a.0"))
    world.client("P", "a.0", offers="n >= 0")
    world.after(50.0)
    assert world.state_of("a.0").accepts_data
    for n in (2, 3, 4, 5):
        world.publish("P", n)
    world.run()
    assert world.told.of("S") == [2, 3, 4, 5]


def test_a_client_cut_off_while_what_it_was_to_be_sent_is_still_carried_out() -> None:
    """Taking from one queue lets the next publication be routed, which is one too many for a slow client."""
    world = Traps("a-b, b-c", 1, capacity=1, client_queue_limit=1)
    world.client("P", "a.0", offers="n >= 0 AND only IS NOT NULL")
    world.client("slow", "b.0", wants="n >= 0 AND only IS NULL")
    world.client("far", "c.0", wants="n >= 0")
    world.run()
    world.slow_down("slow", 0.1)
    world.publish("P", 0)
    world.after(50.0)
    world.cut(at("a.0"), at("b.0"))
    world.after(NOTICED_MS)
    world.publish("P", 1, only="far")
    for n in (2, 3, 4):
        world.publish("P", n)
    world.after(50.0)
    world.heal(at("a.0"), at("b.0"))
    world.run()
    assert not world.is_attached("slow")
    # At c.0 they arrive in one batch, and nobody there is slow.
    assert world.told.of("far") == [0, 1, 2, 3, 4]


def test_any_number_of_waiting_publications_can_be_set_free_at_once() -> None:
    """A recovering broker holds back its publisher; then two links make room for each other, again and again."""
    world = Traps("a-b, b-c, b-d", 1, capacity=1)
    world.driver.checking = False
    for client, broker in {"S": "a.0", "T": "c.0"}.items():
        world.client(client, broker, wants="n >= 0")
    world.run()
    world.cut(at("b.0"), at("d.0"))
    world.crash(at("b.0"))
    world.after(100.0)
    world.restart(at("b.0"))
    world.client("P", "b.0", offers="n >= 0")
    world.after(100.0)
    assert not world.state_of("b.0").accepts_data
    for n in range(2000):
        world.publish("P", n)
    world.run()
    assert world.told.of("S") == world.told.of("T") == list(range(2000))


def test_a_recovering_broker_is_sent_no_publication() -> None:
    """b.0 waits for c.0; publications of a.0 for it must stay at a.0, where they survive another crash of b.0."""
    world = Traps("a-b, b-c", 1)
    world.client("P", "a.0", offers="n >= 0")
    world.client("S", "c.0", wants="n >= 0")
    world.run()
    world.cut(at("b.0"), at("c.0"))
    world.crash(at("b.0"))
    world.after(100.0)
    for n in range(5):
        world.publish("P", n)
    world.after(10.0)
    world.restart(at("b.0"))
    world.after(1000.0)
    assert not world.state_of("b.0").accepts_data
    assert not [each for _, _, target, each in world.heard if target == "b.0" and isinstance(each, Publish)]
    world.crash(at("b.0"))
    world.heal(at("b.0"), at("c.0"))
    world.after(100.0)
    world.restart(at("b.0"))
    world.run()
    assert world.told.of("S") == list(range(5))


@pytest.mark.parametrize(
    ("publisher", "subscriber"),
    [
        ("a.0", "c.0"),
        ("b.1", "a.0"),
    ],
)
def test_a_broker_that_has_recovered_takes_publications_at_once(publisher: str, subscriber: str) -> None:
    """b.0 waits for c.0; the publisher is behind an aLink of b.0, or behind an iLink."""
    world = Traps("a-b, b-c", 2)
    world.client("P", publisher, offers="n >= 0")
    world.client("S", subscriber, wants="n >= 0")
    world.run()
    world.cut(at("b.0"), at("c.0"))
    world.crash(at("b.0"))
    world.after(100.0)
    world.restart(at("b.0"))
    world.after(1130.0)
    for n in range(5):
        world.publish("P", n)
    world.after(20.0)
    assert not world.state_of("b.0").accepts_data
    healed_ms = world.agenda.now_ms
    world.heal(at("b.0"), at("c.0"))
    world.run()
    assert world.told.of("S") == list(range(5))
    assert world.told.times("S")[0] < healed_ms + 20.0, "a few link delays, and no heartbeat"
