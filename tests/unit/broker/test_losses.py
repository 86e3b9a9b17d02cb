"""Losses are counted by cause, and told to everybody who may have missed something."""

from __future__ import annotations

from links_support import at, feed, join, make, offer, publication, say, silence, subscription, taken, want

from octopia.broker import Loss, OctopiaBroker
from octopia.ids import ClientId
from octopia.protocol import Cause
from octopia.protocol.messages import Gap, GapNotice, Message

NEIGHBOURS = ("a.0", "c.0", "b.1", "b.2")


def notices(broker: OctopiaBroker, now_ms: float = 0.0) -> dict[str, list[GapNotice]]:
    """Take everything for neighbours, and return the gap notices by link."""
    found = {link: [each for each in taken(broker, link, now_ms) if isinstance(each, GapNotice)] for link in NEIGHBOURS}
    return {link: each for link, each in found.items() if each}


def with_subscriber() -> OctopiaBroker:
    broker = make()
    join(broker, "S", want())
    join(broker, "P", offer())
    silence(broker)
    return broker


def gaps(broker: OctopiaBroker, client: str = "S") -> list[Message]:
    return [each for each in taken(broker, client) if isinstance(each, Gap)]


class TestNotices:
    def test_a_notice_goes_on_along_the_tree_and_to_subscribers(self) -> None:
        broker = with_subscriber()
        feed(broker, "a.0", GapNotice(Cause.RESTART, 3))
        assert notices(broker) == {"c.0": [GapNotice(Cause.RESTART, 3)]}
        assert gaps(broker) == [Gap(Cause.RESTART, 3)]
        assert gaps(broker, "P") == [], "it has no subscription"

    def test_a_notice_for_other_clusters_enters_them(self) -> None:
        broker = with_subscriber()
        feed(broker, "a.0", GapNotice(Cause.LINK_DOWN, 3, 0b101))
        assert notices(broker) == {"c.0": [GapNotice(Cause.LINK_DOWN, 3)], "b.2": [GapNotice(Cause.LINK_DOWN, 3)]}

    def test_a_notice_that_enters_the_cluster_goes_to_all_of_it(self) -> None:
        broker = with_subscriber()
        feed(broker, "b.1", GapNotice(Cause.LINK_DOWN, 3))
        assert set(notices(broker)) == {"a.0", "c.0"}

    def test_a_notice_for_the_clients_of_one_broker_goes_no_further(self) -> None:
        broker = with_subscriber()
        feed(broker, "b.1", GapNotice(Cause.UNREACHABLE_BROKER, 3))
        assert notices(broker) == {}
        assert gaps(broker) == [Gap(Cause.UNREACHABLE_BROKER, 3)]

    def test_it_is_owed_while_a_link_is_down(self) -> None:
        broker = with_subscriber()
        broker.link_down(at("c.0"), 1.0)
        for _ in range(2):
            feed(broker, "a.0", GapNotice(Cause.RESTART, 3, 0b10), now_ms=1.0)
        assert set(notices(broker, 1.0)) == {"b.1"}
        broker.link_up(at("c.0"), 2.0)
        assert notices(broker, 2.0) == {"c.0": [GapNotice(Cause.RESTART, 6)]}
        assert broker.state.owed == {}

    def test_it_is_owed_again_if_the_link_goes_down_before_it_was_taken(self) -> None:
        broker = with_subscriber()
        feed(broker, "a.0", GapNotice(Cause.RESTART, 3))
        broker.link_down(at("c.0"), 1.0)
        broker.link_up(at("c.0"), 2.0)
        assert notices(broker, 2.0) == {"c.0": [GapNotice(Cause.RESTART, 3)]}

    def test_it_is_owed_again_if_the_neighbour_forgets_it(self) -> None:
        broker = with_subscriber()
        broker.link_down(at("c.0"), 1.0)
        broker.link_forgotten(at("c.0"), [GapNotice(Cause.RESTART, 3, 4), subscription("b.0")], False, 2.0)
        broker.link_up(at("c.0"), 2.0)
        assert notices(broker, 2.0) == {"c.0": [GapNotice(Cause.RESTART, 3, 4)]}


class TestCauses:
    def test_publications_that_waited_too_long(self) -> None:
        broker = make(down_limit_ms=100.0)
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        broker.link_down(at("c.0"), 10.0)
        feed(broker, "a.0", publication(0), publication(1), now_ms=20.0)
        effects = broker.wake(120.0)
        assert Loss(Cause.LINK_DOWN, 2, at("c.0")) in effects.losses
        notices(broker, 120.0)
        broker.link_up(at("c.0"), 130.0)
        assert notices(broker, 130.0) == {"c.0": [GapNotice(Cause.LINK_DOWN, 2)]}
        assert broker.counters.lost[Cause.LINK_DOWN] == 2

    def test_a_link_that_is_down_for_too_long_is_told_on_this_side_once(self) -> None:
        broker = make(down_limit_ms=100.0)
        join(broker, "S", want())
        silence(broker)
        broker.link_down(at("c.0"), 10.0)
        broker.wake(109.0)
        assert gaps(broker) == []
        broker.wake(110.0)
        assert gaps(broker) == [Gap(Cause.LINK_DOWN)]
        assert notices(broker, 110.0) == {"a.0": [GapNotice(Cause.LINK_DOWN, 0)]}
        broker.wake(300.0)
        assert gaps(broker) == []
        broker.link_up(at("c.0"), 400.0)
        broker.link_down(at("c.0"), 500.0)
        assert broker.next_deadline_ms == 600.0

    def test_a_neighbour_that_restarted_is_told_on_this_side(self) -> None:
        broker = with_subscriber()
        broker.link_down(at("c.0"), 1.0)
        effects = broker.link_forgotten(at("c.0"), [], True, 2.0)
        assert effects.losses == (Loss(Cause.RESTART, 0, at("c.0")),)
        assert notices(broker, 2.0) == {"a.0": [GapNotice(Cause.RESTART, 0)]}
        assert gaps(broker) == [Gap(Cause.RESTART)]

    def test_the_restart_of_a_secondary_neighbour_is_told_to_the_whole_cluster(self) -> None:
        broker = with_subscriber()
        broker.link_down(at("b.1"), 1.0)
        broker.link_forgotten(at("b.1"), [], True, 2.0)
        assert set(notices(broker, 2.0)) == {"a.0", "c.0"}

    def test_publications_that_were_not_acknowledged_are_followed_over_their_link(self) -> None:
        broker = with_subscriber()
        broker.link_down(at("c.0"), 1.0)
        broker.link_forgotten(at("c.0"), [publication(0, 0, 2), publication(1), publication(2, 0, 1)], False, 2.0)
        broker.link_up(at("c.0"), 2.0)
        assert notices(broker, 2.0) == {"c.0": [GapNotice(Cause.UNACKNOWLEDGED, 3, 0b111)]}
        assert broker.counters.lost[Cause.UNACKNOWLEDGED] == 3

    def test_a_failed_batch_of_a_neighbour_is_told_where_it_would_have_gone(self) -> None:
        broker = with_subscriber()
        broker.batch_failed(at("a.0"), [publication(0, 0, 2), subscription("a.0")], 1.0)
        assert set(notices(broker, 1.0)) == {"c.0", "b.2"}
        assert gaps(broker) == [Gap(Cause.FAILED_BATCH, 1)]

    def test_a_failed_batch_of_a_publisher_is_told_everywhere(self) -> None:
        broker = with_subscriber()
        broker.batch_failed(ClientId("P"), [say(0), say(1)], 1.0)
        assert set(notices(broker, 1.0)) == set(NEIGHBOURS)

    def test_a_failed_batch_without_publications_loses_nothing(self) -> None:
        broker = with_subscriber()
        assert broker.batch_failed(ClientId("P"), [want(7)], 1.0).losses == ()
        assert notices(broker, 1.0) == {}

    def test_a_broker_that_stops_tells_what_it_leaves_behind(self) -> None:
        broker = with_subscriber()
        broker.give_up(4, 1.0)
        assert notices(broker, 1.0) == {link: [GapNotice(Cause.SHUTDOWN, 4)] for link in NEIGHBOURS}
        assert broker.counters.lost[Cause.SHUTDOWN] == 4
