"""Taking all messages at once gives the same as taking them one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from octopia.broker import Delivered, Detail, OctopiaBroker, Told
from octopia.content import Publication
from octopia.ids import BrokerId, ClientId
from octopia.matching import SCAN, Match, MatcherFactory
from octopia.matching.scan import ScanSubscriptions
from octopia.overlay import Scot, parse_tree
from octopia.protocol import ALL_CLASSES, CONTROL_ONLY
from support import at, join, make_broker, make_settings, offer, publish, say, subscribe, want

A, B, C = ClientId("A"), ClientId("B"), ClientId("C")


def busy(**settings: object) -> OctopiaBroker:
    """The broker b.1 with control messages and publications for c.1, an answer and deliveries for clients."""
    broker = make_broker("b.1", **settings)
    broker.receive(at("c.1"), [subscribe("c.1", 0, "x > 0")], 0.0)
    for name in ("B", "A", "C"):
        join(broker, name, want(1, "x > 0"), offer(0, "x > 0"))
    broker.receive(B, [say(each, x=1) for each in range(4)], 0.0)
    broker.receive(A, [say(4, y=1)], 0.0)  # It is refused.
    return broker


@pytest.mark.parametrize("peer", [at("a.1"), at("c.1")])
@pytest.mark.parametrize("classes", [ALL_CLASSES, CONTROL_ONLY, 0b10])
@pytest.mark.parametrize("settings", [{}, {"queue_capacity": 1}, {"detail": Detail.ALL}], ids=str)
def test_take_all_is_take_until_nothing_is_left(peer: BrokerId, classes: int, settings: dict[str, object]) -> None:
    one, other = busy(**settings), busy(**settings)
    taken = list(iter(lambda: one.take(peer, 60.0, classes), None))
    assert list(other.take_all(peer, 60.0, classes)) == taken
    assert other.drain_facts() == one.drain_facts()
    assert other.drain_effects() == one.drain_effects()
    assert other.counters == one.counters
    assert other.fingerprint() == one.fingerprint()


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
    effects = broker.receive(at("a.1"), [publish("a.1", 0, x=5)], 0.0)
    assert effects.ready == {}
    (entry,) = broker.drain_for_clients()
    assert isinstance(entry, Delivered)
    assert entry.plan == ((A, (7, 3)), (B, (7, 3)), (C, (7, 3)))


def test_entries_for_clients_are_drained_once_and_in_the_order_in_which_they_were_made() -> None:
    broker = busy()
    entries = broker.drain_for_clients()
    assert [type(each) for each in entries] == [*[Delivered] * 4, Told]
    assert broker.drain_for_clients() == []
    broker.receive(B, [say(5, x=1)], 0.0)
    assert len(entries) == 5, "a list that was handed over is not touched again"
    assert len(broker.drain_for_clients()) == 1
