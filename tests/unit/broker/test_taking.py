"""Taking all messages at once gives the same as taking them one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from octopia.broker import Detail, OctopiaBroker
from octopia.content import Publication
from octopia.ids import ClientId, Peer
from octopia.matching import SCAN, Match, MatcherFactory
from octopia.matching.scan import ScanSubscriptions
from octopia.overlay import Scot, parse_tree
from octopia.protocol import ALL_CLASSES, CONTROL_ONLY, Overflow
from octopia.protocol.messages import Deliver, Lost
from support import at, join, make_broker, make_settings, offer, publish, say, subscribe, want

A, B, C = ClientId("A"), ClientId("B"), ClientId("C")


def busy(**settings: object) -> OctopiaBroker:
    """The broker b.1 with control messages and publications for c.1, answers and deliveries for clients."""
    broker = make_broker("b.1", client_queue_limit=2, **settings)
    broker.receive(at("c.1"), [subscribe("c.1", 0, "x > 0")], 0.0)
    for name in ("B", "A", "C"):
        join(broker, name, want(1, "x > 0"), offer(0, "x > 0"), overflow=Overflow.DROP_OLDEST)
    broker.receive(B, [say(each, x=1) for each in range(4)], 0.0)
    broker.receive(A, [say(4, y=1)], 0.0)  # It is refused.
    return broker


@pytest.mark.parametrize("peer", [at("a.1"), at("c.1"), A, B])
@pytest.mark.parametrize("classes", [ALL_CLASSES, CONTROL_ONLY, 0b10])
@pytest.mark.parametrize("settings", [{}, {"queue_capacity": 1}, {"detail": Detail.ALL}], ids=str)
def test_take_all_is_take_until_nothing_is_left(peer: Peer, classes: int, settings: dict[str, object]) -> None:
    one, other = busy(**settings), busy(**settings)
    taken = list(iter(lambda: one.take(peer, 60.0, classes), None))
    assert list(other.take_all(peer, 60.0, classes)) == taken
    assert other.drain_facts() == one.drain_facts()
    assert other.drain_effects() == one.drain_effects()
    assert other.counters == one.counters
    assert other.fingerprint() == one.fingerprint()


def test_take_for_clients_takes_all_for_each_and_leaves_out_who_has_nothing() -> None:
    one, other = busy(), busy()
    one.take_all(C, 0.0)
    expected = [(client, list(other.take_all(client, 0.0))) for client in (B, A)]
    assert one.take_for_clients([B, C, ClientId("stranger"), A], 0.0) == expected
    assert isinstance(expected[0][1][0], Lost)
    assert one.take_for_clients([A, B, C], 0.0) == []


class _Backwards(ScanSubscriptions):
    """A matcher that names local subscriptions in an order of its own."""

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        return [Match(each.links, each.local[::-1]) for each in super().match_many(publications)]


def test_deliveries_do_not_depend_on_the_order_in_which_a_matcher_names_subscriptions() -> None:
    backwards = MatcherFactory(_Backwards, SCAN.advertisements)
    neighbourhood = Scot(parse_tree("a-b"), 2).neighbourhood(at("b.1"))
    broker = OctopiaBroker(neighbourhood, make_settings(confirmations=False), matchers=backwards)
    for name in ("C", "A", "B"):
        join(broker, name, want(7, "x > 0"), want(3, "x > 1"))
    ready = broker.receive(at("a.1"), [publish("a.1", 0, x=5)], 0.0).ready
    assert list(ready) == [A, B, C]
    deliveries = [each for client in ready for each in broker.take_all(client, 0.0)]
    assert [each.handles for each in deliveries if isinstance(each, Deliver)] == [(7, 3)] * 3
