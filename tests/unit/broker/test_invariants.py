"""Each invariant can fail: a table is corrupted by hand, and the check says what is wrong."""

from collections.abc import Callable

import pytest

from octopia.broker import OctopiaBroker, invariants
from octopia.broker.tables import CltEntry, PrtEntry
from octopia.content import parse_filter
from octopia.errors import InvariantBroken
from octopia.ids import AdvertisementId, ClientId, Peer, SubscriptionId
from octopia.protocol import ClusterIndexVector, transit
from octopia.protocol.messages import CivSet, Version
from support import advertise, at, join, make_broker, offer, publish, subscribe, want

HOSTED = AdvertisementId(at("b.1"), 1, 0)
SECONDARY = AdvertisementId(at("b.0"), 1, 0)
P = ClientId("P")


def sound_broker() -> OctopiaBroker:
    broker = make_broker("b.1", hop_limit=5)
    join(broker, "P", offer(0, "x > 0"), want(0, "x > 5"))
    broker.receive(at("b.0"), [advertise("b.0", 0, "x > 0"), CivSet((HOSTED,), Version(1, 1))], 0.0)
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 2")], 0.0)
    return broker


def clt_entry(broker: OctopiaBroker, named: AdvertisementId) -> CltEntry:
    entry = broker.state.clt.get(named)
    assert entry is not None
    return entry


def add_to_clt(broker: OctopiaBroker, named: AdvertisementId, last_hop: Peer, *clusters: int) -> None:
    broker.state.clt.add(CltEntry(named, parse_filter("z > 0"), last_hop, ClusterIndexVector.of(clusters, 3)))


def add_to_prt(broker: OctopiaBroker, host: str, last_hop: Peer) -> None:
    broker.state.prt.add(PrtEntry(SubscriptionId(at(host), 1, 77), parse_filter("w > 0"), last_hop))


def queue_up(broker: OctopiaBroker, link: str, civ: str | None, hop: int = 1) -> None:
    carried = None if civ is None else ClusterIndexVector(int(civ, 2), 3)
    message = publish("b.1", 0, carried, hop, x=1)
    broker.state.queues[at(link)].put_data(message, message.traffic_class, 0.0)


def set_bit(broker: OctopiaBroker, named: AdvertisementId, cluster: int) -> None:
    entry = clt_entry(broker, named)
    entry.civ = entry.civ.with_bit(cluster)


def clear_bit(broker: OctopiaBroker, named: AdvertisementId, cluster: int) -> None:
    entry = clt_entry(broker, named)
    entry.civ = entry.civ.without_bit(cluster)


def forge_last_hop(broker: OctopiaBroker) -> None:
    clt_entry(broker, SECONDARY).last_hop = at("b.2")


def forget_a_handle(broker: OctopiaBroker) -> None:
    broker.state.subscribers.clear()


CORRUPTIONS: list[tuple[str, Callable[[OctopiaBroker], object]]] = [
    (
        "advertised in another region",
        lambda broker: add_to_clt(broker, AdvertisementId(at("a.0"), 1, 0), at("b.0"), 0),
    ),
    (
        "another broker minted its id",
        lambda broker: add_to_clt(broker, AdvertisementId(at("b.2"), 1, 0), P, 1, 2),
    ),
    ("lacks the host bit", lambda broker: clear_bit(broker, HOSTED, 1)),
    ("no update from that cluster set it", lambda broker: set_bit(broker, HOSTED, 2)),
    ("which is not its host broker", forge_last_hop),
    ("but the PRT says 011", lambda broker: clear_bit(broker, SECONDARY, 1)),
    ("but the PRT says 001", lambda broker: add_to_clt(broker, AdvertisementId(at("b.0"), 1, 5), at("b.0"), 0, 1)),
    ("but the PRT says 011", lambda broker: set_bit(broker, SECONDARY, 2)),
    ("subscribed in another cluster", lambda broker: add_to_prt(broker, "a.2", at("a.1"))),
    ("does not fit its host broker", lambda broker: add_to_prt(broker, "b.1", at("a.1"))),
    ("does not fit its host broker", lambda broker: add_to_prt(broker, "c.1", P)),
    ("is not a primary neighbour", lambda broker: add_to_prt(broker, "c.1", at("b.0"))),
    (
        "tables hold 2 advertisements of clients, but clients issued 1",
        lambda broker: add_to_clt(broker, AdvertisementId(at("b.1"), 1, 9), P, 1),
    ),
    (
        "tables hold 0 advertisements of clients, but clients issued 1",
        lambda broker: broker.state.clt.remove(HOSTED),
    ),
    (
        "tables hold 2 subscriptions of clients, but clients issued 1",
        lambda broker: add_to_prt(broker, "b.1", P),
    ),
    (
        "tables hold 0 subscriptions of clients, but clients issued 1",
        lambda broker: broker.state.prt.remove(SubscriptionId(at("b.1"), 1, 0)),
    ),
    ("do not match the subscriptions of clients", forget_a_handle),
    ("with 6 hops, beyond the limit", lambda broker: queue_up(broker, "a.1", None, hop=6)),
    ("with an empty CIV", lambda broker: queue_up(broker, "a.1", "000")),
    ("which names a cluster that it reaches anyway", lambda broker: queue_up(broker, "a.1", "110")),
    ("which names a cluster that it reaches anyway", lambda broker: queue_up(broker, "b.0", "101")),
]


@pytest.mark.parametrize(
    ("says", "corrupt"), CORRUPTIONS, ids=[f"{n}-{says}" for n, (says, _) in enumerate(CORRUPTIONS)]
)
def test_the_check_finds(says: str, corrupt: Callable[[OctopiaBroker], object]):
    broker = sound_broker()
    broker.check()
    corrupt(broker)
    assert any(says in sentence for sentence in invariants.violations(broker.state))
    with pytest.raises(InvariantBroken):
        broker.check()


def test_the_error_names_the_broker_and_tells_how_it_came_about():
    broker = sound_broker()
    clear_bit(broker, HOSTED, 1)
    with pytest.raises(
        InvariantBroken, match=r"broker b\.1: the advertisement_civ 001 of b\.1/1/0 lacks the host bit"
    ) as e:
        broker.check()
    assert len(e.value.recent_inputs) == 3
    assert "from a.1: [Subscribe(" in str(e.value)


@pytest.mark.parametrize(("link", "civ"), [("a.1", "101"), ("b.0", "100"), ("b.2", "001"), ("c.1", None)])
def test_sound_copies_in_queues_are_not_complained_about(link: str, civ: str | None):
    broker = sound_broker()
    queue_up(broker, link, civ, hop=5)
    assert list(invariants.violations(broker.state)) == []


@pytest.mark.skipif(transit.__file__.endswith(".py"), reason="plain Python does not protect its fields")
def test_messages_cannot_be_corrupted_in_place():
    message = publish("b.1", 0, x=1)
    with pytest.raises(AttributeError):
        message.hop = 9
    assert transit.further(message, 9).hop == message.hop + 9
