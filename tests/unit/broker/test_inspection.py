"""The contents of a broker's tables, as operators see them."""

from __future__ import annotations

from octopia.algorithms import Inspection
from octopia.ids import ClientId
from support import at, join, make_broker, offer, pub, say, subscribe, want


def test_the_tables_of_a_broker_are_listed() -> None:
    broker = make_broker("b.3", clusters=4)
    join(broker, "P", offer(0, "x > 0"), offer(1, "y > 0"))
    join(broker, "S", want(0, "x > 5"))
    broker.receive(at("a.3"), [subscribe("a.3", 0, "y > 5")], 0.0)
    seen = Inspection(broker)
    assert [(str(each.interest), each.last_hop, each.client) for each in seen.subscriptions()] == [
        ("x > 5", ClientId("S"), ClientId("S")),
        ("y > 5", at("a.3"), None),
    ]
    first, second = seen.advertisements()
    assert (str(first.offer), first.client) == ("x > 0", ClientId("P"))
    assert 3 in (second.civ or ())
    assert (seen.issued_by(ClientId("P")), seen.issued_by(ClientId("S"))) == ((2, 0), (0, 1))
    assert seen.issued_by(ClientId("nobody")) == (0, 0)


def test_interest_is_that_of_the_whole_cluster() -> None:
    broker = make_broker("b.3", clusters=4)
    join(broker, "S", want(0, "x > 5"))
    broker.receive(at("a.3"), [subscribe("a.3", 0, "y > 5")], 0.0)
    seen = Inspection(broker)
    assert [seen.is_wanted(each) for each in (pub(x=6), pub(y=6), pub(x=5, y=5))] == [True, True, False]


def test_accepted_publications_are_counted() -> None:
    broker = make_broker("b.3", clusters=4)
    join(broker, "P", offer(0, "x > 0"))
    broker.receive(ClientId("P"), [say(1, x=1), say(2, x=-1), say(3, x=2)], 0.0)
    assert Inspection(broker).published == 2
