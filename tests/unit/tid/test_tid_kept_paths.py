"""Kept choices of path selection: the same paths, and the same counts, as looking at every copy."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from test_tid_path_selection import CLIENT, FULL, HOPS, LENGTHS, TABLES, View, copy, path
from tid_support import advertised, bound, make_tid_broker, published, tid, unsubscribed

from octopia.broker import Verdict
from octopia.ids import ClientId, Peer
from octopia.matching import ScanSubscriptions
from octopia.settings import PathSelection, TidCopies
from octopia.tid.core import TidBroker
from octopia.tid.kept_paths import Choices
from octopia.tid.path_selection import select_dynamically, select_statically
from octopia.tid.tables import BoundCopy, Prt
from support import at

LOCAL = "a client"
SOURCES = st.sampled_from([*HOPS, LOCAL])


def choices_of(copies: tuple[BoundCopy, ...], tree: int = 0) -> tuple[list[BoundCopy], Choices]:
    prt = Prt(ScanSubscriptions())
    for each in copies:
        prt.add(each)
    matched = [each for each in copies if each.tid == tid("p.0", tree)]
    return matched, Choices(matched, prt.copies_of)


def peer(name: str) -> Peer:
    return CLIENT if name == LOCAL else at(name)


@given(TABLES, st.lists(st.integers(0, 4)), LENGTHS, FULL, SOURCES, st.sampled_from(TidCopies))
def test_kept_choices_are_those_of_path_selection(
    table: dict[tuple[int, int], str],
    local: list[int],
    lengths: dict[str, int],
    full: list[str],
    source: str,
    per: TidCopies,
):
    copies = tuple(copy(subscription, tree, hop) for (subscription, tree), hop in table.items())
    # All copies of a subscription of this broker come from its client.
    copies = tuple(
        BoundCopy(each.subscription, each.tid, each.interest, ClientId("S"))
        if each.subscription.number in local
        else each
        for each in copies
    )
    matched, choices = choices_of(copies)
    came_from, view = peer(source), View(copies, lengths, tuple(full))
    expected = select_dynamically(matched, came_from, view, per)
    found, read = choices.select_dynamically(came_from, view, per)
    assert found == expected
    searched = [each for asked in view.asked for each in asked]
    entries = sum(each.subscription in searched for each in copies)
    assert read == (entries if view.asked else None)
    assert choices.select_statically(came_from) == select_statically(matched, came_from)


def test_each_look_sees_the_queues_of_its_time():
    copies = (copy(0, 0, "a.0"), copy(0, 1, "b.0"), copy(0, 2, "c.0"))
    _, choices = choices_of(copies)
    for lengths, full, expected in [
        ({}, (), path("a.0", 0)),
        ({"b.0": 1}, ("a.0",), path("c.0", 2)),
        ({"c.0": 1}, ("a.0",), path("b.0", 1)),
        ({}, (), path("a.0", 0)),
    ]:
        found, _ = choices.select_dynamically(CLIENT, View(copies, lengths, full), TidCopies.PER_TREE)
        assert found == [expected]


def test_subscriptions_with_the_same_links_are_one_choice():
    looked: list[str] = []

    @dataclasses.dataclass(frozen=True)
    class Counting(View):
        def congested(self, link: object) -> bool:
            looked.append(str(link))
            return False

    copies = tuple(copy(number, 0, "a.0") for number in range(50))
    _, choices = choices_of(copies)
    found, _ = choices.select_dynamically(CLIENT, Counting(copies), TidCopies.PER_TREE)
    assert found == [path("a.0", 0)]
    assert looked == ["a.0"]


class TestBroker:
    """Broker b.0 of Fig. 1 between a.0 and c.0, with b.1 as the other way to a subscription."""

    def broker(self) -> TidBroker:
        broker = make_tid_broker("b.0", algorithm="tid-dynamic", selection=PathSelection.INDEXED)
        broker.receive(at("a.0"), [advertised("a.0"), advertised("a.0", 1)], 0.0)
        return broker

    def sent(self, broker: TidBroker, number: int) -> list[str]:
        """Return the links over which the broker sends a publication of the first tree."""
        broker.receive(at("a.0"), [published(tid("a.0"), number, x=1)], 0.0)
        return [
            str(link)
            for link in (at("b.1"), at("c.0"))
            if any(getattr(each, "publication", None) for each in broker.take_all(link, 0.0))
        ]

    def test_a_subscription_that_comes_or_goes_changes_the_choice(self):
        broker = self.broker()
        assert self.sent(broker, 0) == []
        broker.receive(at("c.0"), [bound("c.0", 0, tid("a.0"))], 0.0)
        assert self.sent(broker, 1) == ["c.0"]
        broker.receive(at("b.1"), [bound("b.1", 0, tid("a.0"))], 0.0)
        assert self.sent(broker, 2) == ["b.1", "c.0"]
        broker.receive(at("c.0"), [unsubscribed("c.0", 0)], 0.0)
        assert self.sent(broker, 3) == ["b.1"]

    def test_a_copy_in_another_tree_becomes_a_way_out_though_the_matches_stay_the_same(self):
        broker = self.broker()
        broker.receive(at("c.0"), [bound("c.0", 0, tid("a.0"))], 0.0)
        assert self.sent(broker, 0) == ["c.0"]
        broker.force(at("c.0"), Verdict.CONGESTED, 20, 0.0)
        broker.receive(at("b.1"), [bound("c.0", 0, tid("a.0", 1))], 0.0)
        assert self.sent(broker, 1) == ["b.1"]
