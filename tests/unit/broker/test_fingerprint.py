"""The digest of a broker's state: equal for equal states, different where anything relevant differs."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from octopia.broker import OctopiaBroker, Verdict
from octopia.ids import AdvertisementId, ClientId, SubscriptionId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import CivSet, CivUnset, PublishRequest, Unsubscribe, Version
from support import advertise, at, join, make_broker, offer, pub, publish, say, sent_by, subscribe, want

FIRST = AdvertisementId(at("b.1"), 1, 0)


def base(**options: object) -> OctopiaBroker:
    """A broker with a publisher, a subscriber, an entry in every table and a publication in a queue."""
    broker = make_broker("b.1", **options)
    join(broker, "P", offer(0, "x > 0"))
    join(broker, "S", want(0, "x > 5"))
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 2")], 0.0)
    broker.receive(at("b.0"), [advertise("b.0", 0, "x > 0"), CivSet((FIRST,), Version(1, 2))], 0.0)
    broker.receive(ClientId("P"), [say(0, x=4)], 0.0)
    return broker


def test_the_same_inputs_give_the_same_digest():
    assert base().fingerprint() == base().fingerprint()


def test_asking_changes_nothing():
    broker = base()
    assert broker.fingerprint() == broker.fingerprint()


class TestEqualStatesByDifferentHistories:
    def test_subscriptions_in_another_order(self):
        one, other = make_broker("b.1"), make_broker("b.1")
        messages = [("a.1", subscribe("a.1", 0, "x > 0")), ("c.1", subscribe("c.1", 0, "y > 0"))]
        for broker, order in ((one, messages), (other, messages[::-1])):
            for sender, message in order:
                broker.receive(at(sender), [message], 0.0)
            sent_by(broker)
        assert one.fingerprint() == other.fingerprint()

    def test_something_came_and_went(self):
        one, other = make_broker("b.1"), make_broker("b.1")
        one.receive(at("a.1"), [subscribe("a.1", 0, "x > 0"), Unsubscribe(SubscriptionId(at("a.1"), 1, 0))], 0.0)
        sent_by(one)
        assert one.fingerprint() == other.fingerprint()

    def test_refused_and_ignored_messages_leave_no_mark(self):
        one, other = base(), base()
        one.receive(at("b.0"), [CivUnset((FIRST,), Version(1, 1))], 0.0)
        one.receive(at("a.1"), [Unsubscribe(SubscriptionId(at("a.1"), 1, 99))], 0.0)
        assert one.counters.sent == other.counters.sent
        assert one.fingerprint() == other.fingerprint()

    def test_somebody_looked_at_the_windows_in_between(self):
        one, other = base(), base()
        one.link_status_table(60.0)
        for broker in (one, other):
            broker.wake(120.0)
        assert one.fingerprint() == other.fingerprint()

    def test_attributes_of_a_publication_in_another_order(self):
        one, other = make_broker("b.1"), make_broker("b.1")
        for broker, attributes in ((one, {"x": 1, "y": 2}), (other, {"y": 2, "x": 1})):
            join(broker, "S", want(0, "x > 0"))
            broker.receive(at("a.1"), [publish("a.1", 0, **attributes)], 0.0)
        assert one.fingerprint() == other.fingerprint()


def receive(peer: str, *messages: object) -> Callable[[OctopiaBroker], object]:
    return lambda broker: broker.receive(at(peer), messages, 0.0)


DIFFERENCES: dict[str, Callable[[OctopiaBroker], object]] = {
    "another subscription": receive("a.1", subscribe("a.1", 1, "x > 2")),
    "another advertisement": receive("b.0", advertise("b.0", 1, "x > 0")),
    "another bit": receive("b.2", CivSet((FIRST,), Version(1, 1))),
    "the same bit in a later version": receive("b.0", CivSet((FIRST,), Version(1, 3))),
    "a publication more in a queue": receive("c.1", publish("c.1", 0, x=4)),
    "a message taken": lambda broker: broker.take(at("a.1"), 0.0),
    "a client more": lambda broker: join(broker, "T"),
    "a client less": lambda broker: broker.detach(ClientId("S"), 0.0),
    "a forced verdict": lambda broker: broker.force(at("a.1"), Verdict.FREE, None, 0.0),
    "a forced length": lambda broker: broker.force(at("a.1"), Verdict.AUTO, 0, 0.0),
    "a closed window": lambda broker: broker.wake(50.0),
    "a number used": lambda broker: broker.receive(ClientId("P"), [say(1, x=1)], 0.0),
}


@pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_a_relevant_difference_shows(difference: Callable[[OctopiaBroker], object]):
    broker = base()
    difference(broker)
    assert broker.fingerprint() != base().fingerprint()


def test_who_it_is_and_which_life_it_leads_show():
    prints = [make_broker("b.1").fingerprint(), make_broker("b.2").fingerprint()]
    prints += [make_broker("b.1", incarnation=2).fingerprint(), make_broker("b.1", clusters=4).fingerprint()]
    prints += [make_broker("b.1", tree="a-b").fingerprint()]
    assert len(set(prints)) == 5


def test_whether_an_advertisement_is_ordered_shows():
    one, other = make_broker("b.1"), make_broker("b.1")
    join(one, "P", offer(0, "x > 0"))
    join(other, "P", offer(0, "x > 0", ordered=True))
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pub(x=1), pub(x=1.0)),
        (pub(x=1), pub(x=True)),
        (pub(x="1"), pub(x=1)),
        (pub(x=1), pub(y=1)),
    ],
)
def test_the_content_of_a_waiting_publication_shows(one: object, other: object):
    prints = []
    for publication in (one, other):
        broker = make_broker("b.1")
        join(broker, "C", offer(0, "x IS NOT NULL AND y IS NOT NULL"), want(0, "x IS NOT NULL OR y IS NOT NULL"))
        broker.receive(ClientId("C"), [PublishRequest(0, publication, 0.0)], 0.0)
        prints.append(broker.fingerprint())
    assert prints[0] != prints[1]


def test_the_carried_civ_of_a_waiting_publication_shows():
    prints = []
    for bits in (0b0001, 0b0010):
        broker = make_broker("b.3", clusters=4)
        for link in ("b.0", "b.1"):
            broker.force(at(link), Verdict.CONGESTED, None, 0.0)
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 0")], 0.0)
        broker.receive(at("b.2"), [publish("b.2", 0, ClusterIndexVector(bits, 4), x=1)], 0.0)
        prints.append(broker.fingerprint())
    assert prints[0] != prints[1]


@pytest.mark.parametrize("settings", [{"algorithm": "static"}, {"tau": 1.0}, {"window_ms": 7.0}, {"hop_limit": 1}])
def test_settings_that_decide_the_future_show(settings: dict[str, object]):
    assert make_broker("b.1", **settings).fingerprint() != make_broker("b.1").fingerprint()


def test_the_digest_does_not_depend_on_hash_seeds_or_the_process():
    script = "from test_fingerprint import base; print(base().fingerprint())"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent.parent), os.environ.get("PYTHONPATH", "")])
    printed = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    ]
    assert printed == [base().fingerprint()] * 3
