"""A message that its link may not carry ends the batch; the messages before it have taken effect."""

import pytest

from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, ClientId, SubscriptionId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.duties import Lane, Origin
from octopia.protocol.messages import CivSet, CivUnset, Deliver, Detour, Message, Unadvertise, Unsubscribe, Version
from support import advertise, at, join, make_broker, offer, publish, say, sent_by, subscribe, want

HERE = "b.1"
ADVERTISEMENT = AdvertisementId(at("b.0"), 1, 0)


@pytest.mark.parametrize(
    ("sender", "message", "says"),
    [
        ("a.1", advertise("a.1", 0, "x > 0"), "advertisement"),
        ("a.1", Unadvertise(AdvertisementId(at("a.1"), 1, 0)), "unadvertisement"),
        ("a.1", CivSet((ADVERTISEMENT,), Version(1, 1)), "civ_set"),
        ("a.1", CivUnset((ADVERTISEMENT,), Version(1, 1)), "civ_unset"),
        ("b.0", subscribe("b.0", 0, "x > 0"), "subscription"),
        ("b.0", Unsubscribe(SubscriptionId(at("b.0"), 1, 0)), "unsubscription"),
    ],
)
def test_a_message_over_the_wrong_kind_of_link(sender: str, message: Message, says: str):
    broker = make_broker(HERE)
    before = broker.fingerprint()
    violation = broker.receive(at(sender), [message], 0.0).violation
    assert isinstance(violation, ProtocolViolation)
    assert says in str(violation)
    assert sender in str(violation)
    assert broker.fingerprint() == before


@pytest.mark.parametrize("message", [advertise("b.2", 0, "x > 0"), Unadvertise(AdvertisementId(at("b.2"), 1, 0))])
def test_a_neighbour_speaks_of_its_own_advertisements_only(message: Message):
    broker = make_broker(HERE)
    violation = broker.receive(at("b.0"), [message], 0.0).violation
    assert violation is not None
    assert "b.2/1/0" in str(violation)
    assert broker.table_sizes()["clt"] == 0


@pytest.mark.parametrize("stranger", ["a.0", "d.1", "b.7", "b.1"])
def test_a_broker_that_is_no_neighbour(stranger: str):
    broker = make_broker(HERE)
    violation = broker.receive(at(stranger), [publish("a.0", 0, x=1)], 0.0).violation
    assert violation is not None
    assert stranger in str(violation)


def test_a_client_that_is_not_attached():
    broker = make_broker(HERE)
    violation = broker.receive(ClientId("C"), [want(0, "x > 0")], 0.0).violation
    assert violation is not None
    assert "C" in str(violation)
    assert broker.table_sizes()["prt"] == 0


def test_a_client_that_attaches_twice_keeps_what_it_had():
    broker = make_broker(HERE)
    client = join(broker, "C", want(0, "x > 0"))
    assert isinstance(broker.attach(client, 0.0).violation, ProtocolViolation)
    assert broker.table_sizes()["prt"] == 1


@pytest.mark.parametrize("message", [want(0, "x > 0"), offer(0, "x > 0"), say(0, x=1)])
def test_a_broker_may_not_speak_like_a_client(message: Message):
    violation = make_broker(HERE).receive(at("b.0"), [message], 0.0).violation
    assert violation is not None
    assert type(message).__name__ in str(violation)


@pytest.mark.parametrize(
    "message",
    [
        subscribe("b.1", 0, "x > 0"),
        publish("b.1", 0, x=1),
        Deliver(publish("b.1", 0, x=1).id, publish("b.1", 0, x=1).publication, (0,), 0, 0.0),
    ],
)
def test_a_client_may_not_speak_like_a_broker(message: Message):
    broker = make_broker(HERE)
    client = join(broker, "C")
    violation = broker.receive(client, [message], 0.0).violation
    assert violation is not None
    assert type(message).__name__ in str(violation)


def test_what_came_before_in_the_batch_has_taken_effect_and_what_came_after_has_not():
    broker = make_broker(HERE)
    batch = [
        subscribe("a.1", 0, "x > 0"),
        publish("a.1", 0, x=1),
        advertise("a.1", 0, "x > 0"),
        subscribe("a.1", 1, "y > 0"),
    ]
    effects = broker.receive(at("a.1"), batch, 0.0)
    assert effects.violation is not None
    assert [str(entry.id) for entry in broker.state.prt] == ["a.1/1/0"]
    assert list(effects.ready) == [at("c.1")]
    assert [(each.peer, each.frames) for each in effects.placed] == [(at("a.1"), 1)]
    assert len(sent_by(broker)["c.1"]) == 1


def test_the_same_for_a_clients_batch():
    broker = make_broker(HERE)
    client = join(broker, "C")
    effects = broker.receive(client, [want(0, "x > 0"), subscribe("b.1", 5, "x > 0"), want(1, "y > 0")], 0.0)
    assert effects.violation is not None
    assert broker.table_sizes()["prt"] == 1
    broker.check()


def test_the_broker_goes_on_with_everybody_else():
    broker = make_broker(HERE)
    broker.receive(at("a.1"), [advertise("a.1", 0, "x > 0")], 0.0)
    effects = broker.receive(at("c.1"), [subscribe("c.1", 0, "x > 0")], 0.0)
    assert effects.violation is None
    assert broker.table_sizes()["prt"] == 1


def test_a_carried_civ_that_names_a_cluster_which_does_not_exist():
    broker = make_broker(HERE)
    beyond = publish("b.0", 0, ClusterIndexVector.of([9], 10), x=1)
    assert isinstance(broker.receive(at("b.0"), [beyond], 0.0).violation, ProtocolViolation)


@pytest.mark.parametrize(
    ("sender", "bits", "detour", "says"),
    [
        ("b.0", 0b10, None, "without a detour: expected both or none"),
        ("a.1", 0b10, Detour(Lane.PLAIN, 1), "over an aLink it has nothing but clusters to enter"),
        ("b.0", 0b10, Detour(Lane.PLAIN, 1, Origin.HOST, (("a", 0b10000),)), "it names an unknown cluster"),
        ("b.0", 0, Detour(Lane.PLAIN, 1), "it owes nothing"),
        ("b.0", 0b10, Detour(Lane.PLAIN, 1, Origin.HOST, (("z", 0b1),)), "a region that is no neighbour"),
        ("b.0", 0b10, Detour(Lane.REROUTED, 1, "z", (("a", 0b1),)), "it cannot have come from there"),
        ("b.0", 0b10, Detour(Lane.REROUTED, 1, Origin.HOST, (("a", 0b10),)), "it owes a cluster twice"),
        ("b.0", 0b10, Detour(Lane.REROUTED, 1), "it is in the wrong lane"),
    ],
)
def test_headers_that_adaptive_routing_cannot_have_sent(sender: str, bits: int, detour: Detour | None, says: str):
    broker = make_broker(HERE, algorithm="adaptive")
    copy = publish("b.0", 0, x=1).copy(ClusterIndexVector(bits, 4), detour, 0)
    violation = broker.receive(at(sender), [copy], 0.0).violation
    assert isinstance(violation, ProtocolViolation)
    assert says in str(violation)


def test_a_detour_where_routing_is_not_adaptive():
    broker = make_broker(HERE)
    copy = publish("b.0", 0, x=1).copy(ClusterIndexVector(0b10, 4), Detour(Lane.REROUTED, 2), 0)
    assert "routing is not adaptive here" in str(broker.receive(at("b.0"), [copy], 0.0).violation)


def test_a_neighbour_speaks_of_subscriptions_of_the_own_cluster_only():
    broker = make_broker(HERE)
    effects = broker.receive(at("a.1"), [subscribe("a.2", 0, "x > 0")], 0.0)
    broker.check()
    assert isinstance(effects.violation, ProtocolViolation)


def test_only_the_hop_a_subscription_came_from_may_withdraw_it():
    broker = make_broker(HERE)
    join(broker, "C", want(0, "x > 0"))
    broker.receive(at("a.1"), [Unsubscribe(SubscriptionId(at("b.1"), 1, 0))], 0.0)
    broker.check()
    assert broker.table_sizes()["prt"] == 1
