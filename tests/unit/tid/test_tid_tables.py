from tid_support import sub_id, tid

from octopia.content import parse_filter
from octopia.ids import BrokerId, ClientId
from octopia.matching import ScanAdvertisements, ScanSubscriptions
from octopia.tid.tables import BoundCopy, Prt, Srt, SrtEntry, Unbound, UnboundSubscription
from support import pub

LEFT, RIGHT = BrokerId("a", 0), BrokerId("c", 0)
CLIENT = ClientId("S")


def copy(number: int, tree: int, text: str = "x > 0", last_hop: BrokerId | ClientId = LEFT) -> BoundCopy:
    return BoundCopy(sub_id("a.0", number), tid("c.0", tree), parse_filter(text), last_hop)


def prt_of(*copies: BoundCopy) -> Prt:
    prt = Prt(ScanSubscriptions())
    for each in copies:
        prt.add(each)
    return prt


class TestSrt:
    def entry(self, number: int, text: str = "x > 0", last_hop: BrokerId | ClientId = LEFT) -> SrtEntry:
        return SrtEntry(tid("a.0", number), parse_filter(text), last_hop)

    def test_what_was_withdrawn_stays_known_as_seen(self):
        srt = Srt(ScanAdvertisements())
        srt.add(self.entry(0))
        assert srt.has_seen(tid("a.0", 0))
        srt.remove(tid("a.0", 0))
        assert tid("a.0", 0) not in srt
        assert srt.has_seen(tid("a.0", 0))

    def test_the_latest_of_a_host_broker_stands_for_all_before_it_and_for_no_other_host(self):
        srt = Srt(ScanAdvertisements())
        srt.add(self.entry(4))
        assert srt.has_seen(tid("a.0", 3))
        assert not srt.has_seen(tid("a.0", 5))
        assert not srt.has_seen(tid("a.1", 0))

    def test_a_later_incarnation_begins_anew(self):
        srt = Srt(ScanAdvertisements())
        srt.add(self.entry(4))
        assert not srt.has_seen(type(tid("a.0"))(BrokerId("a", 0), 2, 0))

    def test_conforming_names_a_publishers_own_by_tid(self):
        srt = Srt(ScanAdvertisements())
        for entry in (self.entry(0, last_hop=LEFT), self.entry(1, last_hop=CLIENT), self.entry(2, last_hop=CLIENT)):
            srt.add(entry)
        assert [entry.tid.number for entry in srt.conforming(pub(x=1), CLIENT)] == [1, 2]

    def test_intersected_by_names_all_by_tid(self):
        srt = Srt(ScanAdvertisements())
        srt.add(self.entry(0, "x > 0"))
        srt.add(self.entry(1, "y > 0"))
        srt.add(self.entry(2, "x > 5", CLIENT))
        assert [entry.tid.number for entry in srt.intersected_by(parse_filter("x > 1"))] == [0, 2]


class TestPrt:
    def test_matching_looks_at_content_and_tid(self):
        prt = prt_of(copy(0, 0), copy(0, 1), copy(1, 0, "x > 9"), copy(2, 0, "x > 1", RIGHT))
        assert prt.matching(pub(x=5), tid("c.0", 0)) == (copy(0, 0), copy(2, 0, "x > 1", RIGHT))
        assert prt.matching(pub(x=5), tid("c.0", 1)) == (copy(0, 1),)
        assert prt.matching(pub(x=5), tid("c.0", 2)) == ()

    def test_what_matched_before_is_not_remembered_when_copies_change(self):
        prt = prt_of(copy(0, 0), copy(1, 1))
        assert prt.matching(pub(x=5), tid("c.0", 0)) == (copy(0, 0),)
        assert prt.matching(pub(x=5), tid("c.0", 0)) is prt.matching(pub(x=5), tid("c.0", 0))
        # The subscription is known, but was bound to another tree only.
        prt.add(copy(1, 0))
        assert set(prt.matching(pub(x=5), tid("c.0", 0))) == {copy(0, 0), copy(1, 0)}
        prt.remove_from(sub_id("a.0", 0), LEFT)
        assert prt.matching(pub(x=5), tid("c.0", 0)) == (copy(1, 0),)

    def test_every_matching_copy_of_one_hop_is_named(self):
        prt = prt_of(copy(0, 0), copy(1, 0), copy(2, 0))
        assert len(prt.matching(pub(x=5), tid("c.0", 0))) == 3

    def test_remove_from_takes_only_what_came_from_there(self):
        prt = prt_of(copy(0, 1), copy(0, 0), copy(0, 2, last_hop=RIGHT), copy(1, 0))
        assert prt.remove_from(sub_id("a.0", 0), LEFT) == [copy(0, 0), copy(0, 1)]
        assert list(prt) == [copy(0, 2, last_hop=RIGHT), copy(1, 0)]
        assert prt.matching(pub(x=5), tid("c.0", 0)) == (copy(1, 0),)

    def test_remove_tree_takes_all_that_is_bound_to_it(self):
        prt = prt_of(copy(0, 0), copy(0, 1), copy(1, 0))
        prt.remove_tree(tid("c.0", 0))
        prt.remove_tree(tid("c.0", 7))
        assert list(prt) == [copy(0, 1)]
        assert prt.copies_of(sub_id("a.0", 1)) == []
        assert prt.matching(pub(x=5), tid("c.0", 0)) == ()

    def test_looking_up_and_scanning_find_the_same_by_tid(self):
        prt = prt_of(copy(0, 2), copy(1, 0), copy(0, 0), copy(0, 1, last_hop=RIGHT))
        for number in range(3):
            subscription = sub_id("a.0", number)
            assert prt.scan_for([subscription]) == {subscription: prt.copies_of(subscription)}
        assert [each.tid.number for each in prt.copies_of(sub_id("a.0", 0))] == [0, 1, 2]

    def test_a_copy_can_come_back_after_it_was_removed(self):
        prt = prt_of(copy(0, 0))
        prt.remove_from(sub_id("a.0", 0), LEFT)
        prt.add(copy(0, 0, last_hop=RIGHT))
        assert prt.matching(pub(x=1), tid("c.0", 0)) == (copy(0, 0, last_hop=RIGHT),)
        assert len(prt) == 1


class TestUnbound:
    def test_intersecting_names_local_subscriptions_by_id(self):
        unbound = Unbound(ScanSubscriptions())
        for number, text in enumerate(("x > 0", "y > 0", "x < 5")):
            unbound.add(UnboundSubscription(sub_id("a.0", number), parse_filter(text), CLIENT))
        assert [each.id.number for each in unbound.intersecting(parse_filter("x = 3"))] == [0, 2]
        unbound.remove(sub_id("a.0", 0))
        assert [each.id.number for each in unbound.intersecting(parse_filter("x = 3"))] == [2]
        assert len(unbound) == 2
