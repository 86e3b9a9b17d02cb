"""Rerouted copies in queues: merging, taking back, and static parts."""

from adaptive_world import Glance, at
from octopia.broker.adaptive_routing import Dispatch
from octopia.broker.rerouting import duties_taken_back, merged, static_parts
from octopia.broker.statuses import AlinkStatus
from octopia.protocol.duties import Duties, Origin

VIEW = Glance(at("b.3"), 4, ("a", "c"))


class TestMerging:
    def test_a_plain_copy_joins_a_rerouted_one(self):
        waiting = Dispatch(at("b.1"), Duties(0b0100, (("c", 0b0001),), "a", 2))
        new = Dispatch(at("b.1"), Duties(0b0010, (("c", 0b1000),), "a", 3))
        assert merged(waiting, new) == Dispatch(at("b.1"), Duties(0b0110, (("c", 0b1001),), "a", 3))

    def test_a_plain_copy_that_waits_is_left_alone(self):
        waiting = Dispatch(at("b.1"), Duties(0b0010, (), "a", 1))
        assert merged(waiting, Dispatch(at("b.1"), Duties(0b0100, (), "a", 1))) is None

    def test_origins_must_be_equal(self):
        waiting = Dispatch(at("c.3"), Duties(0b0110, (), "a"))
        assert merged(waiting, Dispatch(at("c.3"), Duties(0b0001, (), Origin.HOST))) is None
        assert merged(waiting, Dispatch(at("c.3"), Duties(0b0001, (), "a"))) is not None

    def test_links_must_be_equal(self):
        waiting = Dispatch(at("c.3"), Duties(0b0110, (), "a"))
        assert merged(waiting, Dispatch(at("b.1"), Duties(0b0001, (), "a"))) is None


class TestTakingBack:
    def test_a_copy_for_an_alink_is_to_cross_again(self):
        copy = Dispatch(at("c.3"), Duties(0b1010, (), "a", 2))
        assert duties_taken_back(copy, at("b.3")) == Duties(0, (("c", 0b1010),), "a", 2)

    def test_a_copy_for_an_ilink_has_one_hop_less(self):
        copy = Dispatch(at("b.1"), Duties(0b0010, (("c", 0b1000),), "a", 3))
        assert duties_taken_back(copy, at("b.3")) == Duties(0b0010, (("c", 0b1000),), "a", 2)


class TestStaticParts:
    def test_own_parts_over_alinks_and_others_over_ilinks(self):
        copy = Dispatch(at("b.1"), Duties(0b0011, (("c", 0b1100),), "a", 1))
        parts, rest = static_parts(copy, VIEW)
        assert parts == [
            Dispatch(at("c.3"), Duties(0b1000, (), "a", 0)),
            Dispatch(at("b.0"), Duties(0b0001, (), "a", 1)),
            Dispatch(at("b.1"), Duties(0b0010, (), "a", 1)),
            Dispatch(at("b.2"), Duties(0, (("c", 0b0100),), "a", 1)),
        ]
        assert not rest

    def test_parts_for_links_that_are_down_wait(self):
        copy = Dispatch(at("b.1"), Duties(0b0011, (("c", 0b1100),), "a", 1))
        view = Glance(at("b.3"), 4, ("a", "c"), down=frozenset({at("b.0"), at("c.3")}))
        parts, rest = static_parts(copy, view)
        assert [str(each.link) for each in parts] == ["b.1", "b.2"]
        assert rest == Duties(0b0001, (("c", 0b1000),), "a", 0)

    def test_parts_for_edges_that_are_down_as_told_wait(self):
        copy = Dispatch(at("c.3"), Duties(0b1100, (), "a", 0))
        view = Glance(at("b.3"), 4, ("a", "c"), statuses={(2, "c"): AlinkStatus(is_up=False)})
        parts, rest = static_parts(copy, view)
        assert parts == [Dispatch(at("c.3"), Duties(0b1000, (), "a", 0))]
        assert rest == Duties(0, (("c", 0b0100),), "a", 0)
