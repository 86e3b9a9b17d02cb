"""Path selection on artificial views, without a broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from tid_support import sub_id, tid

from octopia.content import parse_filter
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import ScanSubscriptions
from octopia.settings import TidCopies
from octopia.tid.path_selection import Path, PathView, select_dynamically, select_statically
from octopia.tid.tables import BoundCopy, Prt
from support import at

ANYTHING = parse_filter("TRUE")
CLIENT = ClientId("P")


def copy(subscription: int, tree: int, hop: str) -> BoundCopy:
    return BoundCopy(sub_id("z.0", subscription), tid("p.0", tree), ANYTHING, at(hop))


def path(hop: str, tree: int) -> Path:
    return Path(at(hop), tid("p.0", tree))


@dataclasses.dataclass(frozen=True)
class View:
    """A broker with these copies, queue lengths and congested links, that looks up or scans."""

    copies: tuple[BoundCopy, ...]
    lengths: dict[str, int] = dataclasses.field(default_factory=dict)
    full: tuple[str, ...] = ()
    linear: bool = False
    asked: list[Sequence[SubscriptionId]] = dataclasses.field(default_factory=list)

    def congested(self, link: BrokerId) -> bool:
        return str(link) in self.full

    def queue_length(self, link: BrokerId) -> int:
        return self.lengths.get(str(link), 0)

    def copies_of(self, subscriptions: Sequence[SubscriptionId]) -> Mapping[SubscriptionId, Sequence[BoundCopy]]:
        self.asked.append(subscriptions)
        prt = Prt(ScanSubscriptions())
        for each in self.copies:
            prt.add(each)
        return prt.scan_for(subscriptions) if self.linear else {each: prt.copies_of(each) for each in subscriptions}


class TestStatic:
    def test_one_copy_a_next_hop_by_broker_id(self):
        matched = [copy(0, 0, "c.0"), copy(1, 0, "a.0"), copy(2, 0, "c.0")]
        assert select_statically(matched, CLIENT) == [path("a.0", 0), path("c.0", 0)]

    def test_never_back_to_the_last_hop(self):
        assert select_statically([copy(0, 0, "c.0"), copy(1, 0, "a.0")], at("a.0")) == [path("c.0", 0)]

    def test_local_subscriptions_need_no_path(self):
        local = BoundCopy(sub_id("z.0"), tid("p.0"), ANYTHING, ClientId("S"))
        assert select_statically([local], CLIENT) == []


class TestOneCopyPerHop:
    """Two subscriptions of the tree 0 behind a congested link, which trees 1 and 2 reach over the same other link."""

    COPIES = (copy(0, 0, "a.0"), copy(1, 0, "a.0"), copy(0, 2, "b.0"), copy(1, 1, "b.0"))
    MATCHED = (COPIES[1], COPIES[0])

    def test_one_copy_per_tree_by_default(self):
        found = select_dynamically(self.MATCHED, CLIENT, View(self.COPIES, full=("a.0",)))
        assert found == [path("b.0", 1), path("b.0", 2)]

    def test_the_first_subscription_decides_the_tree_of_the_only_copy(self):
        found = select_dynamically(self.MATCHED, CLIENT, View(self.COPIES, full=("a.0",)), TidCopies.PER_HOP)
        assert found == [path("b.0", 2)]

    def test_nothing_differs_while_links_are_free(self):
        found = select_dynamically(self.MATCHED, CLIENT, View(self.COPIES), TidCopies.PER_HOP)
        assert found == [path("a.0", 0)]


class TestDynamic:
    COPIES = (copy(0, 0, "a.0"), copy(0, 1, "b.0"), copy(0, 2, "c.0"))

    def choose(self, view: PathView, came_from: object = CLIENT) -> list[Path]:
        return select_dynamically([copy(0, 0, "a.0")], came_from, view)

    def test_while_links_are_free_nothing_is_looked_up(self):
        view = View(self.COPIES, full=("b.0",))
        assert self.choose(view) == [path("a.0", 0)]
        assert view.asked == []

    def test_a_free_link_with_the_shortest_queue_is_taken_instead(self):
        assert self.choose(View(self.COPIES, {"b.0": 4, "c.0": 3}, ("a.0",))) == [path("c.0", 2)]

    def test_ties_go_to_the_lower_broker_then_to_the_lower_tid(self):
        assert self.choose(View(self.COPIES, full=("a.0",))) == [path("b.0", 1)]
        copies = (copy(0, 0, "a.0"), copy(0, 3, "b.0"), copy(0, 2, "b.0"))
        assert self.choose(View(copies, full=("a.0",))) == [path("b.0", 2)]

    def test_a_free_link_wins_over_a_congested_one_with_a_shorter_queue(self):
        view = View(self.COPIES, {"a.0": 20, "b.0": 9, "c.0": 1}, ("a.0", "c.0"))
        assert self.choose(view) == [path("b.0", 1)]

    def test_where_all_are_congested_a_shorter_queue_is_taken(self):
        view = View(self.COPIES, {"a.0": 20, "b.0": 12, "c.0": 11}, ("a.0", "b.0", "c.0"))
        assert self.choose(view) == [path("c.0", 2)]

    def test_where_none_is_shorter_the_tree_is_kept(self):
        view = View(self.COPIES, {"a.0": 11, "b.0": 11, "c.0": 12}, ("a.0", "b.0", "c.0"))
        assert self.choose(view) == [path("a.0", 0)]

    def test_the_last_hop_is_no_way_out(self):
        assert self.choose(View(self.COPIES, {"c.0": 5}, ("a.0",)), at("b.0")) == [path("c.0", 2)]

    def test_another_tree_over_the_same_link_is_no_way_out(self):
        copies = (copy(0, 0, "a.0"), copy(0, 1, "a.0"))
        assert self.choose(View(copies, full=("a.0",))) == [path("a.0", 0)]

    def test_other_subscriptions_offer_no_way_out(self):
        copies = (copy(0, 0, "a.0"), copy(1, 1, "b.0"))
        assert self.choose(View(copies, full=("a.0",))) == [path("a.0", 0)]

    def test_subscriptions_behind_one_link_may_part(self):
        matched = [copy(0, 0, "a.0"), copy(1, 0, "a.0")]
        view = View((*matched, copy(1, 1, "b.0")), full=("a.0",))
        assert select_dynamically(matched, CLIENT, view) == [path("a.0", 0), path("b.0", 1)]

    def test_copies_are_keyed_by_next_hop_and_tid(self):
        matched = [copy(0, 0, "a.0"), copy(1, 0, "a.0"), copy(2, 0, "a.0"), copy(3, 0, "b.0")]
        others = (copy(0, 1, "b.0"), copy(1, 1, "b.0"), copy(2, 2, "b.0"))
        view = View((*matched, *others), full=("a.0",))
        assert select_dynamically(matched, CLIENT, view) == [path("b.0", 0), path("b.0", 1), path("b.0", 2)]


HOPS = ("a.0", "b.0", "b.1", "c.0")
TABLES = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.sampled_from(HOPS), max_size=25)
LENGTHS = st.dictionaries(st.sampled_from(HOPS), st.integers(0, 3))
FULL = st.lists(st.sampled_from(HOPS), unique=True)


@given(TABLES, LENGTHS, FULL, st.sampled_from(HOPS))
def test_scanning_and_looking_up_choose_the_same(
    table: dict[tuple[int, int], str], lengths: dict[str, int], full: list[str], came_from: str
):
    copies = tuple(copy(subscription, tree, hop) for (subscription, tree), hop in table.items())
    matched = [each for each in copies if each.tid == tid("p.0", 0)]
    chosen = [
        select_dynamically(matched, at(came_from), View(copies, lengths, tuple(full), linear))
        for linear in (False, True)
    ]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == len(dict.fromkeys(chosen[0]))


@given(TABLES, LENGTHS, FULL, st.sampled_from(HOPS))
def test_every_subscription_is_still_served_over_a_copy_of_its_own_and_nobody_is_sent_back(
    table: dict[tuple[int, int], str], lengths: dict[str, int], full: list[str], came_from: str
):
    copies = tuple(copy(subscription, tree, hop) for (subscription, tree), hop in table.items())
    matched = [each for each in copies if each.tid == tid("p.0", 0)]
    paths = select_dynamically(matched, at(came_from), View(copies, lengths, tuple(full)))
    assert all(each.next_hop != at(came_from) for each in paths)
    for each in matched:
        own = [Path(other.last_hop, other.tid) for other in copies if other.subscription == each.subscription]
        assert each.last_hop == at(came_from) or any(other in paths for other in own)
