"""D10: a link that is down counts as congested, and publications wait for it within limits of bytes and time."""

from __future__ import annotations

import pytest
from links_support import (
    advertisement,
    at,
    feed,
    join,
    make,
    numbers,
    publication,
    say,
    silence,
    subscription,
    taken,
    want,
)
from links_support import offer as offered

from octopia.broker import Case, Detail, Event, Fact, OctopiaBroker, Verdict
from octopia.broker.queues import LONGER_THAN_ANY
from octopia.ids import ClientId
from octopia.protocol import Cause
from octopia.protocol.messages import (
    CivSet,
    Publish,
    SubscriptionDigest,
    Unsubscribe,
    Version,
)

SIZE = publication(0).size_bytes


def down(link: str = "c.0", at_ms: float = 10.0, **settings: object) -> OctopiaBroker:
    """Return a broker with a subscription of c.0 whose link is down since ``at_ms``."""
    broker = make(**settings)  # type: ignore[arg-type]
    feed(broker, "c.0", subscription("c.0"))
    silence(broker)
    broker.link_down(at(link), at_ms)
    return broker


def waiting(broker: OctopiaBroker, link: str = "c.0") -> list[int]:
    """Return the numbers of the publications that wait for a link."""
    return numbers(broker.state.queues[at(link)].waiting())


def test_the_counter_of_a_link_equals_the_trace_of_drops() -> None:
    broker = down(down_limit_bytes=3 * SIZE, detail=Detail.ALL)
    feed(broker, "a.0", *(publication(each) for each in range(5)), now_ms=11.0)
    dropped = [fact for fact in broker.drain_facts() if isinstance(fact, Fact) and fact.event is Event.DROP]
    assert [fact.peer for fact in dropped] == [at("c.0")] * 2
    assert {str(link): each.dropped for link, each in broker.link_counters(11.0).items() if each.dropped} == {"c.0": 2}


class TestBytes:
    def test_what_is_within_the_limit_waits(self) -> None:
        broker = down(down_limit_bytes=3 * SIZE)
        feed(broker, "a.0", *(publication(each) for each in range(3)), now_ms=11.0)
        assert waiting(broker) == [0, 1, 2]
        assert broker.counters.lost[Cause.LINK_DOWN] == 0

    def test_beyond_it_the_oldest_is_dropped_and_counted(self) -> None:
        broker = down(down_limit_bytes=3 * SIZE)
        feed(broker, "a.0", *(publication(each) for each in range(5)), now_ms=11.0)
        assert waiting(broker) == [2, 3, 4]
        assert broker.counters.lost[Cause.LINK_DOWN] == 2

    def test_one_byte_more_is_beyond(self) -> None:
        broker = down(down_limit_bytes=3 * SIZE - 1)
        feed(broker, "a.0", *(publication(each) for each in range(3)), now_ms=11.0)
        assert waiting(broker) == [1, 2]

    def test_a_single_one_that_is_too_large_is_dropped(self) -> None:
        broker = down(down_limit_bytes=SIZE - 1)
        feed(broker, "a.0", publication(0), now_ms=11.0)
        assert waiting(broker) == []
        assert broker.counters.lost[Cause.LINK_DOWN] == 1

    def test_the_oldest_of_all_classes_goes_first(self) -> None:
        broker = make(down_limit_bytes=3 * SIZE, clusters=4, tree="a-b, b-c")
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        broker.link_down(at("c.0"), 10.0)
        for link in ("b.1", "b.2"):
            broker.force(at(link), Verdict.CONGESTED, None, 10.0)
        broker.force(at("c.0"), Verdict.FREE, None, 10.0)
        # Case II: c.0 carries the publications for clusters 1 and 2.
        sent = [publication(each, *([1, 2] if each % 2 else []), clusters=4) for each in range(5)]
        feed(broker, "a.0", *sent, now_ms=11.0)
        assert waiting(broker) == [2, 3, 4]

    def test_the_order_of_the_rest_is_kept(self) -> None:
        broker = down(down_limit_bytes=4 * SIZE)
        feed(broker, "a.0", *(publication(each) for each in range(9)), now_ms=11.0)
        broker.link_up(at("c.0"), 12.0)
        assert numbers(taken(broker, "c.0", 12.0)) == [5, 6, 7, 8]

    def test_what_waited_before_the_link_went_down_counts(self) -> None:
        broker = make(down_limit_bytes=2 * SIZE)
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "a.0", *(publication(each) for each in range(4)))
        assert broker.counters.lost[Cause.LINK_DOWN] == 0, "a link that is up has no such limit"
        broker.link_down(at("c.0"), 10.0)
        assert waiting(broker) == [2, 3]
        assert broker.counters.lost[Cause.LINK_DOWN] == 2

    def test_a_link_that_is_up_has_no_such_limit(self) -> None:
        broker = down(down_limit_bytes=2 * SIZE)
        broker.link_up(at("c.0"), 11.0)
        feed(broker, "a.0", *(publication(each) for each in range(4)), now_ms=12.0)
        assert waiting(broker) == [0, 1, 2, 3]

    def test_what_taking_sets_free_is_held_to_the_limit_too(self) -> None:
        broker = make(tree="a-b, b-c, b-d", queue_capacity=1, down_limit_bytes=2 * SIZE)
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "d.0", subscription("d.0"))
        silence(broker)
        feed(broker, "a.0", *(publication(each) for each in range(6)), now_ms=1.0)
        broker.link_down(at("c.0"), 10.0)
        for _ in range(6):
            broker.take(at("d.0"), 11.0)
        assert waiting(broker) == [4, 5]


class TestTime:
    def test_what_has_waited_too_long_is_dropped(self) -> None:
        broker = down(down_limit_ms=100.0)
        feed(broker, "a.0", publication(0), now_ms=20.0)
        feed(broker, "a.0", publication(1), now_ms=50.0)
        assert broker.next_deadline_ms == 110.0, "its neighbours are told that it is down for too long"
        broker.wake(110.0)
        assert broker.next_deadline_ms == 120.0
        broker.wake(119.0)
        assert waiting(broker) == [0, 1]
        broker.wake(120.0)
        assert waiting(broker) == [1]
        assert broker.counters.lost[Cause.LINK_DOWN] == 1
        assert broker.next_deadline_ms == 150.0
        broker.wake(150.0)
        assert waiting(broker) == []
        assert broker.counters.lost[Cause.LINK_DOWN] == 2
        assert broker.next_deadline_ms is None

    def test_time_counts_from_when_the_link_went_down(self) -> None:
        broker = make(down_limit_ms=100.0)
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "a.0", publication(0), now_ms=5.0)
        silence_control(broker)
        broker.link_down(at("c.0"), 70.0)
        assert broker.next_deadline_ms == 170.0
        broker.wake(169.0)
        assert waiting(broker) == [0]

    def test_any_input_enforces_it(self) -> None:
        broker = down(down_limit_ms=100.0)
        feed(broker, "a.0", publication(0), now_ms=20.0)
        feed(broker, "a.0", publication(1), now_ms=120.0)
        assert waiting(broker) == [1]

    def test_a_link_that_came_up_in_time_loses_nothing(self) -> None:
        broker = down(down_limit_ms=100.0)
        feed(broker, "a.0", publication(0), now_ms=20.0)
        broker.link_up(at("c.0"), 119.0)
        assert broker.next_deadline_ms is None
        broker.wake(500.0)
        assert numbers(taken(broker, "c.0", 500.0)) == [0]
        assert broker.counters.lost[Cause.LINK_DOWN] == 0

    def test_each_link_has_its_own_time(self) -> None:
        broker = make(tree="a-b, b-c, b-d", down_limit_ms=100.0)
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "d.0", subscription("d.0"))
        silence(broker)
        broker.link_down(at("c.0"), 0.0)
        feed(broker, "a.0", publication(0), now_ms=5.0)
        broker.link_down(at("d.0"), 40.0)
        assert broker.next_deadline_ms == 100.0
        broker.wake(100.0)
        assert broker.next_deadline_ms == 105.0
        broker.wake(105.0)
        assert (waiting(broker, "c.0"), waiting(broker, "d.0")) == ([], [0])
        assert broker.next_deadline_ms == 140.0
        broker.wake(140.0)
        assert waiting(broker, "d.0") == []

    def test_going_down_twice_is_going_down_once(self) -> None:
        broker = down(down_limit_ms=100.0, at_ms=10.0)
        feed(broker, "a.0", publication(0), now_ms=10.0)
        broker.link_down(at("c.0"), 90.0)
        assert broker.next_deadline_ms == 110.0

    def test_defaults(self) -> None:
        broker = down(at_ms=0.0)
        feed(broker, "a.0", publication(0), now_ms=0.0)
        assert broker.next_deadline_ms == 60_000.0
        assert broker.state.settings.down_limit_bytes == 64 * 1024 * 1024

    def test_a_drop_is_told_in_the_trace(self) -> None:
        broker = down(down_limit_ms=100.0, detail=Detail.DELIVERIES)
        feed(broker, "a.0", publication(7), now_ms=20.0)
        broker.drain_facts()
        broker.wake(120.0)
        [fact] = broker.drain_facts()
        assert isinstance(fact, Fact)
        assert (fact.event, fact.message_id, fact.peer) == (Event.DROP, publication(7).id, at("c.0"))
        assert fact.reason

    def test_a_dropped_copy_did_not_leave_over_the_link(self) -> None:
        broker = down(down_limit_ms=30.0, at_ms=0.0)
        feed(broker, "a.0", publication(0), now_ms=1.0)
        broker.wake(31.0)
        assert broker.link_status_table(60.0)[at("c.0")].left == 0

    def test_a_restarted_broker_holds_data_for_links_that_have_not_come_up(self) -> None:
        broker = make(incarnation=2, restarted_at_ms=0.0, down_limit_ms=100.0, grace_ms=10.0)
        join(broker, "P", offered())
        broker.wake(10.0)
        feed(broker, "P", say(0), now_ms=20.0)
        assert [waiting(broker, each) for each in ("b.1", "b.2")] != [[], []]
        broker.wake(120.0)
        assert [waiting(broker, each) for each in ("b.1", "b.2")] == [[], []]


def silence_control(broker: OctopiaBroker) -> None:
    """Take control messages, and drop them."""
    for each in (*broker.state.queues, *broker.state.clients):
        while broker.take(each, 0.0, 0) is not None:
            pass


class TestCongestion:
    def test_it_counts_as_congested_with_a_queue_longer_than_any_other(self) -> None:
        broker = down("b.1")
        status = broker.link_status_table(11.0)[at("b.1")]
        assert status.congested
        assert status.queue_length == LONGER_THAN_ANY
        assert not broker.link_status_table(11.0)[at("b.2")].congested

    def test_until_it_is_up(self) -> None:
        broker = down("b.1")
        broker.link_up(at("b.1"), 11.0)
        status = broker.link_status_table(11.0)[at("b.1")]
        assert (status.congested, status.queue_length) == (False, 0)

    def publisher(self, algorithm: str = "dynamic") -> OctopiaBroker:
        """Return a broker whose publisher is wanted in clusters 1 and 2."""
        broker = make(algorithm=algorithm)
        join(broker, "P", offered())
        [named] = broker.state.clients[ClientId("P")].advertisements.values()
        for secondary in ("b.1", "b.2"):
            feed(broker, secondary, CivSet((named,), Version(1, 1)))
        silence(broker)
        return broker

    def test_dynamic_routing_goes_around_it(self) -> None:
        broker = self.publisher()
        broker.link_down(at("b.1"), 1.0)
        feed(broker, "P", say(0), now_ms=2.0)
        assert waiting(broker, "b.1") == []
        [carrier] = taken(broker, "b.2", 2.0)
        assert isinstance(carrier, Publish)
        assert str(carrier.publication_civ) == "010"
        assert broker.counters.cases[Case.ONE] == 1

    def test_static_routing_waits_for_it(self) -> None:
        broker = self.publisher("static")
        broker.link_down(at("b.1"), 1.0)
        feed(broker, "P", say(0), now_ms=2.0)
        assert waiting(broker, "b.1") == [0]
        [copy] = taken(broker, "b.2", 2.0)
        assert isinstance(copy, Publish)
        assert copy.publication_civ is None

    def test_with_all_down_case_iii_takes_the_lowest(self) -> None:
        broker = self.publisher()
        for link in ("b.2", "b.1"):
            broker.link_down(at(link), 1.0)
        feed(broker, "P", say(0), now_ms=2.0)
        assert (waiting(broker, "b.1"), waiting(broker, "b.2")) == ([0], [])
        assert broker.counters.cases[Case.THREE] == 1

    def test_a_congested_link_that_is_up_is_preferred_to_one_that_is_down(self) -> None:
        broker = self.publisher()
        broker.link_down(at("b.1"), 1.0)
        broker.force(at("b.2"), Verdict.CONGESTED, 1_000_000, 1.0)
        feed(broker, "P", say(0), now_ms=2.0)
        [carrier] = taken(broker, "b.2", 2.0)
        assert isinstance(carrier, Publish)
        assert str(carrier.publication_civ) == "010"
        assert waiting(broker, "b.1") == []

    def test_an_alink_that_is_down_carries_nothing_for_others(self) -> None:
        broker = self.publisher()
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        for link in ("a.0", "b.1", "b.2"):
            broker.link_down(at(link), 1.0)
        feed(broker, "P", say(0), now_ms=2.0)
        [carrier] = taken(broker, "c.0", 2.0)
        assert isinstance(carrier, Publish)
        assert str(carrier.publication_civ) == "110"
        [plain] = broker.state.queues[at("a.0")].waiting()
        assert isinstance(plain, Publish)
        assert plain.publication_civ is None, "its own copy waits for it: a tree has no other way"


class TestControlLane:
    def test_going_down_empties_it(self) -> None:
        broker = make()
        feed(broker, "a.0", subscription("a.0"))
        broker.link_down(at("c.0"), 1.0)
        broker.link_up(at("c.0"), 2.0)
        [digest] = taken(broker, "c.0", 2.0)
        assert isinstance(digest, SubscriptionDigest)

    def test_data_stays_when_control_goes(self) -> None:
        broker = make()
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "a.0", publication(0), subscription("a.0"))
        broker.link_down(at("c.0"), 1.0)
        broker.link_up(at("c.0"), 2.0)
        assert [type(each) for each in taken(broker, "c.0", 2.0)] == [SubscriptionDigest, Publish]

    @pytest.mark.parametrize("link", ["c.0", "b.1"])
    def test_while_down_nothing_is_put_there(self, link: str) -> None:
        broker = make()
        feed(broker, "b.1", advertisement("b.1"))
        silence(broker)
        broker.link_down(at(link), 1.0)
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted, Unsubscribe(wanted.id), now_ms=2.0)
        join(broker, "S", want(1), offered(2), now_ms=2.0)
        assert taken(broker, link, 3.0) == []
        broker.link_up(at(link), 4.0)
        assert len(taken(broker, link, 4.0)) == 1, "the digest stands for all of it"

    def test_data_is_not_given_out_before_the_greeting(self) -> None:
        broker = down()
        feed(broker, "a.0", publication(0), now_ms=11.0)
        broker.link_up(at("c.0"), 12.0)
        assert [type(each) for each in taken(broker, "c.0", 12.0)] == [SubscriptionDigest, Publish]
