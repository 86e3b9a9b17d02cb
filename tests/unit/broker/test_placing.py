"""Back-pressure at one broker: bounded queues, waiting inputs, copies that stay as decided, and the return of credit.

The broker is b.0 of a star: a.0, c.0 and d.0 over aLinks, b.1, b.2 and b.3 over iLinks. A subscription of c.0 attracts
plain copies; copies with a CIV go over iLinks.
"""

from __future__ import annotations

from links_support import (
    at,
    feed,
    hosted,
    join,
    make,
    numbers,
    offer,
    publication,
    say,
    silence,
    subscription,
    taken,
    want,
)

from octopia.broker import OctopiaBroker, Placed, Verdict
from octopia.ids import ClientId
from octopia.protocol import CONTROL_ONLY
from octopia.protocol.messages import (
    CivNone,
    Deliver,
    Message,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
    Version,
)

STAR = "a-b, b-c, b-d"


def bounded(capacity: int = 1, **settings: object) -> OctopiaBroker:
    """Return the broker, with subscriptions of c.0 (x) and d.0 (y)."""
    broker = make(tree=STAR, clusters=4, queue_capacity=capacity, **settings)  # type: ignore[arg-type]
    feed(broker, "c.0", subscription("c.0", text="x > 0"))
    feed(broker, "d.0", subscription("d.0", text="y > 0"))
    silence(broker)
    return broker


def plain(number: int, **attributes: int) -> Publish:
    """Return a plain publication; without attributes it is for c.0."""
    return publication(number, clusters=4, **(attributes or {"x": 1}))


def carrying(number: int, *civ: int) -> Publish:
    """Return a publication for other clusters that no client of this cluster wants."""
    return publication(number, *civ, clusters=4, z=1)


def waiting(broker: OctopiaBroker, link: str) -> list[int]:
    """Return the numbers of the publications in a queue."""
    return numbers(broker.state.queues[at(link)].waiting())


def take(broker: OctopiaBroker, link: str, now_ms: float = 0.0) -> Message:
    """Take one message, which must be there, and check the broker's invariants."""
    message = broker.take(at(link), now_ms)
    assert message is not None
    broker.check()
    return message


class TestBounds:
    def test_a_queue_holds_so_many_of_one_class(self) -> None:
        broker = bounded(capacity=3)
        effects = feed(broker, "a.0", *(plain(each) for each in range(5)))
        assert waiting(broker, "c.0") == [0, 1, 2]
        assert sum(each.frames for each in effects.placed) == 3

    def test_zero_is_no_bound(self) -> None:
        broker = bounded(capacity=0)
        effects = feed(broker, "a.0", *(plain(each) for each in range(100)))
        assert waiting(broker, "c.0") == list(range(100))
        assert effects.placed == [Placed(at("a.0"), 0, 100)]

    def test_each_class_has_a_bound_of_its_own(self) -> None:
        broker = bounded()
        feed(broker, "b.1", publication(1, 2, 3, clusters=4, x=1))
        assert [waiting(broker, each) for each in ("c.0", "b.2", "b.3")] == [[1], [1], [1]]
        for link in ("b.2", "b.3"):
            broker.force(at(link), Verdict.CONGESTED, None, 0.0)
        # Case II: c.0 is the carrier, with class 2, where a plain copy waits already.
        effects = feed(broker, "b.1", publication(2, 2, 3, clusters=4, x=1))
        assert effects.placed == [Placed(at("b.1"), 2, 1)]
        assert waiting(broker, "c.0") == [1, 2]
        assert [each.traffic_class for each in broker.state.queues[at("c.0")].waiting()] == [0, 2]

    def test_each_link_has_a_bound_of_its_own(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1, y=1))
        assert [waiting(broker, each) for each in ("c.0", "d.0")] == [[0], [1]]

    def test_control_needs_no_room(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1))
        feed(broker, "a.0", *(subscription("a.0", each) for each in range(5)))
        assert len([each for each in taken(broker, "c.0", classes=CONTROL_ONLY) if isinstance(each, Subscribe)]) == 5


class TestWhoWaits:
    def test_a_full_queue_blocks_its_own_link_and_class(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1), plain(2, y=1))
        assert waiting(broker, "d.0") == [], "order is kept within a class of a link"

    def test_but_no_other_class_of_the_same_link(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1), carrying(2, 2))
        assert waiting(broker, "b.2") == [2]
        feed(broker, "a.0", carrying(3, 2), carrying(4, 1, 3))
        assert waiting(broker, "b.2") == [2], "class 1 has to wait as well now"
        assert waiting(broker, "b.1") == waiting(broker, "b.3") == [4], "and class 2 has not"

    def test_and_no_other_link(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1))
        effects = feed(broker, "b.1", plain(2, y=1))
        assert waiting(broker, "d.0") == [2]
        assert effects.placed == [Placed(at("b.1"), 0, 1)]

    def test_and_no_client(self) -> None:
        broker = bounded()
        join(broker, "P", offer(text="y > 0"))
        feed(broker, "a.0", plain(0), plain(1))
        effects = feed(broker, "P", say(0, y=1))
        assert Placed(ClientId("P"), 0, 1) in effects.placed

    def test_what_goes_nowhere_waits_for_nothing(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1))
        assert feed(broker, "b.2", plain(2, z=1)).placed == [Placed(at("b.2"), 0, 1)]

    def test_whoever_waited_first_is_placed_first(self) -> None:
        broker = bounded()
        feed(broker, "d.0", plain(0))
        for number, sender in enumerate(["b.2", "a.0", "b.3", "b.1"], start=1):
            feed(broker, sender, plain(number))
        seen = [each.id.number for each in (take(broker, "c.0") for _ in range(5)) if isinstance(each, Publish)]
        assert seen == [0, 1, 2, 3, 4]

    def test_a_new_arrival_does_not_pass_whoever_waits(self) -> None:
        broker = bounded(capacity=2)
        feed(broker, "a.0", plain(0), plain(1), plain(2))
        feed(broker, "b.1", plain(3))
        take(broker, "c.0")
        feed(broker, "b.2", plain(4))
        assert numbers(taken(broker, "c.0")) == [1, 2, 3, 4]

    def test_links_take_turns(self) -> None:
        broker = bounded()
        feed(broker, "a.0", *(plain(each) for each in range(3)))
        feed(broker, "b.1", *(plain(each) for each in range(10, 13)))
        assert numbers(taken(broker, "c.0")) == [0, 1, 10, 2, 11, 12]

    def test_order_is_kept_within_a_link_and_class(self) -> None:
        broker = bounded()
        feed(broker, "a.0", *(plain(each, x=1, y=1) for each in range(6)))
        seen: dict[str, list[int]] = {"c.0": [], "d.0": []}
        for link in ["c.0", "c.0", "d.0", "c.0", "d.0", "d.0", "d.0", "d.0", "c.0", "c.0", "d.0", "c.0"] * 2:
            message = broker.take(at(link), 0.0)
            broker.check()
            if isinstance(message, Publish):
                seen[link].append(message.id.number)
        assert seen == {"c.0": list(range(6)), "d.0": list(range(6))}


class TestCredit:
    def test_a_frame_is_reported_when_all_its_copies_are_placed(self) -> None:
        broker = bounded()
        feed(broker, "b.1", plain(0, x=1), plain(1, y=1))
        effects = feed(broker, "a.0", plain(2, x=1, y=1))
        assert effects.placed == []
        take(broker, "c.0")
        assert waiting(broker, "c.0") == [2]
        drained = broker.drain_effects()
        assert drained is not None
        assert drained.placed == [], "one copy is placed, the other is not"
        take(broker, "d.0")
        drained = broker.drain_effects()
        assert drained is not None
        assert drained.placed == [Placed(at("a.0"), 0, 1)]

    def test_it_is_reported_once(self) -> None:
        broker = bounded()
        total = feed(broker, "a.0", *(plain(each, x=1, y=1) for each in range(5))).placed
        for _ in range(10):
            for link in ("c.0", "d.0"):
                broker.take(at(link), 0.0)
                drained = broker.drain_effects()
                total += drained.placed if drained else []
        assert sum(each.frames for each in total) == 5
        assert {(each.peer, each.traffic_class) for each in total} == {(at("a.0"), 0)}

    def test_the_class_reported_is_the_one_it_came_with(self) -> None:
        broker = bounded()
        effects = feed(broker, "a.0", carrying(0, 1, 2))
        assert effects.placed == [Placed(at("a.0"), 2, 1)]

    def test_refused_publications_are_reported_too(self) -> None:
        broker = bounded()
        effects = join(broker, "P", say(0))
        assert effects.placed == [Placed(ClientId("P"), 0, 1)]
        assert [type(each) for each in taken(broker, "P")] == [Refused]

    def test_draining_tells_which_links_have_something_new(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1, x=1, y=1), plain(2, y=1))
        assert broker.drain_effects() is None
        take(broker, "c.0")
        drained = broker.drain_effects()
        assert drained is not None
        assert list(drained.ready) == [at("c.0")]
        assert broker.drain_effects() is None
        assert waiting(broker, "d.0") == [1], "its copy for d.0 had room at once"

    def test_taking_where_nothing_waited_sets_nothing_free(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0))
        take(broker, "c.0")
        assert broker.drain_effects() is None


class TestCopiesStayAsDecided:
    """A frame is routed once; its copies are then fixed, whatever changes before they are placed."""

    def test_although_congestion_changes(self) -> None:
        broker = bounded()
        feed(broker, "b.1", carrying(0, 2))
        feed(broker, "a.0", carrying(1, 2, 3))
        assert [waiting(broker, "b.2"), waiting(broker, "b.3")] == [[0], [1]]
        for link in ("b.2", "b.3"):
            broker.force(at(link), Verdict.CONGESTED, None, 0.0)
        assert numbers(taken(broker, "b.2")) == [0, 1]
        [other] = taken(broker, "b.3")
        assert isinstance(other, Publish)
        assert other.publication_civ is None
        assert numbers(taken(broker, "b.1")) == []

    def test_a_carrier_stays_a_carrier(self) -> None:
        broker = bounded()
        broker.force(at("b.3"), Verdict.CONGESTED, None, 0.0)
        feed(broker, "b.1", carrying(0, 2, 3))
        feed(broker, "a.0", carrying(1, 2, 3))
        assert waiting(broker, "b.2") == [0]
        broker.force(at("b.3"), Verdict.FREE, None, 0.0)
        carriers = taken(broker, "b.2")
        assert [str(each.publication_civ) for each in carriers if isinstance(each, Publish)] == ["1000", "1000"]
        assert taken(broker, "b.3") == []

    def test_although_subscriptions_come_and_go(self) -> None:
        broker = bounded()
        feed(broker, "b.1", plain(0))
        feed(broker, "a.0", plain(1))
        feed(broker, "c.0", Unsubscribe(subscription("c.0").id))
        feed(broker, "d.0", subscription("d.0", 1, "x > 0"))
        silence_control(broker)
        assert numbers(taken(broker, "c.0")) == [0, 1]
        assert numbers(taken(broker, "d.0")) == []

    def test_but_what_waits_behind_it_is_routed_when_its_turn_comes(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1), plain(2))
        feed(broker, "d.0", subscription("d.0", 1, "x > 0"))
        silence_control(broker)
        assert numbers(taken(broker, "c.0")) == [0, 1, 2]
        assert numbers(taken(broker, "d.0")) == [2]

    def test_although_a_link_goes_down(self) -> None:
        broker = bounded()
        feed(broker, "b.1", carrying(0, 2))
        feed(broker, "a.0", carrying(1, 2))
        broker.link_down(at("b.2"), 1.0)
        assert waiting(broker, "b.2") == [0, 1]
        assert waiting(broker, "b.3") == []

    def test_a_local_delivery_is_made_once_although_placement_waits(self) -> None:
        broker = bounded()
        join(broker, "S", want(1, "x > 0"))
        silence(broker)
        feed(broker, "b.1", plain(0), plain(1))
        delivered = [each.id.number for each in taken(broker, "S") if isinstance(each, Deliver)]
        assert delivered == [0, 1], "it does not wait for room elsewhere"
        taken(broker, "c.0")
        assert taken(broker, "S") == []

    def test_a_local_delivery_behind_a_blocked_head_waits(self) -> None:
        broker = bounded()
        join(broker, "S", want(1, "x > 0"))
        silence(broker)
        feed(broker, "b.1", plain(0), plain(1), plain(2))
        taken(broker, "S")
        take(broker, "c.0")
        assert [each.id.number for each in taken(broker, "S") if isinstance(each, Deliver)] == [2]


def silence_control(broker: OctopiaBroker) -> None:
    """Take all control messages, and forget them."""
    for each in broker.state.queues:
        while broker.take(each, 0.0, CONTROL_ONLY) is not None:
            pass


class TestLinkDown:
    def test_a_link_that_goes_down_has_room_for_all_that_waited(self) -> None:
        broker = bounded()
        feed(broker, "a.0", *(plain(each) for each in range(4)))
        effects = broker.link_down(at("c.0"), 1.0)
        broker.check()
        assert waiting(broker, "c.0") == [0, 1, 2, 3]
        assert sum(each.frames for each in effects.placed) == 3

    def test_links_take_turns_there_too(self) -> None:
        broker = bounded()
        feed(broker, "a.0", *(plain(each) for each in range(3)))
        feed(broker, "b.1", *(plain(each) for each in range(10, 12)))
        broker.link_down(at("c.0"), 1.0)
        assert waiting(broker, "c.0") == [0, 1, 10, 2, 11]

    def test_and_for_what_comes_while_it_is_down(self) -> None:
        broker = bounded()
        broker.link_down(at("c.0"), 1.0)
        effects = feed(broker, "a.0", *(plain(each) for each in range(9)), now_ms=2.0)
        assert waiting(broker, "c.0") == list(range(9))
        assert sum(each.frames for each in effects.placed) == 9

    def test_other_links_stay_blocked(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0, y=1), plain(1, y=1))
        broker.link_down(at("c.0"), 1.0)
        assert waiting(broker, "d.0") == [0]

    def test_once_up_again_the_bound_holds_until_enough_was_taken(self) -> None:
        broker = bounded(capacity=2)
        broker.link_down(at("c.0"), 1.0)
        feed(broker, "a.0", *(plain(each) for each in range(4)), now_ms=2.0)
        broker.link_up(at("c.0"), 3.0)
        silence_control(broker)
        effects = feed(broker, "a.0", plain(4), now_ms=4.0)
        assert effects.placed == []
        seen = []
        for _ in range(3):
            message = take(broker, "c.0", 5.0)
            assert isinstance(message, Publish)
            seen.append((message.id.number, waiting(broker, "c.0")))
        assert seen == [(0, [1, 2, 3]), (1, [2, 3]), (2, [3, 4])]

    def test_the_end_of_the_link_a_frame_came_from_does_not_matter(self) -> None:
        broker = bounded()
        feed(broker, "a.0", plain(0), plain(1), plain(2))
        broker.link_down(at("a.0"), 1.0)
        assert numbers(taken(broker, "c.0", 2.0)) == [0, 1, 2], "accepted is accepted"
        drained = broker.drain_effects()
        assert drained is not None
        assert sum(each.frames for each in drained.placed if each.peer == at("a.0")) == 2


class TestClients:
    def publisher(self) -> OctopiaBroker:
        broker = bounded()
        join(broker, "P", offer(text="x > 0"))
        for secondary in ("b.1", "b.2", "b.3"):
            feed(broker, secondary, CivNone((hosted(broker).id,), Version(1, 1)))
        silence(broker)
        return broker

    def test_publications_wait_while_a_queue_that_they_need_is_full(self) -> None:
        broker = self.publisher()
        effects = feed(broker, "P", say(0), say(1), say(2))
        assert effects.placed == [Placed(ClientId("P"), 0, 1)]
        assert numbers(taken(broker, "c.0")) == [0, 1, 2]
        drained = broker.drain_effects()
        assert drained is not None
        assert drained.placed == [Placed(ClientId("P"), 0, 1)] * 2

    def test_but_its_control_messages_still_flow(self) -> None:
        broker = self.publisher()
        effects = feed(broker, "P", say(0), say(1), want(5, "q > 0"), offer(6))
        assert [each for each in taken(broker, "a.0") if isinstance(each, Subscribe)]
        assert len(broker.state.clients[ClientId("P")].advertisements) == 2
        assert effects.violation is None

    def test_other_clients_go_on(self) -> None:
        broker = self.publisher()
        join(broker, "Q", offer(text="y > 0"))
        feed(broker, "P", say(0), say(1))
        effects = feed(broker, "Q", say(0, y=1))
        assert effects.placed == [Placed(ClientId("Q"), 0, 1)]

    def test_what_was_accepted_is_routed_though_its_client_has_left(self) -> None:
        broker = self.publisher()
        feed(broker, "P", say(0), say(1), say(2), say(3))
        broker.detach(ClientId("P"), 1.0)
        broker.check()
        assert broker.unplaced_in_all == 3
        assert numbers(taken(broker, "c.0", 2.0)) == [0, 1, 2, 3]
        broker.wake(2.0)
        broker.check()
        assert (broker.unplaced_in_all, broker.table_sizes()["clt"]) == (0, 0)

    def test_what_a_recovering_broker_accepted_is_routed_though_its_client_has_left(self) -> None:
        broker = make(tree=STAR, clusters=4, incarnation=2, restarted_at_ms=0.0)
        join(broker, "P", offer(), say(0), say(1))
        assert len(broker.state.inputs) == 1
        broker.detach(ClientId("P"), 1.0)
        broker.check()
        assert broker.unplaced_in_all == 2
        broker.wake(broker.state.settings.grace_ms)
        broker.check()
        assert (broker.unplaced_in_all, broker.state.next_publication) == (0, 2)
        assert broker.table_sizes()["clt"] == 0

    def test_a_client_that_comes_back_under_its_name_begins_anew(self) -> None:
        broker = self.publisher()
        feed(broker, "P", say(0), say(1), say(2))
        broker.detach(ClientId("P"), 1.0)
        again = ClientId("P", 2)
        broker.attach(again, 2.0)
        broker.receive(again, [offer(text="x > 0"), say(7)], 2.0)
        assert len(numbers(taken(broker, "c.0", 3.0))) == 4
        broker.wake(3.0)
        broker.check()
        assert (broker.unplaced_in_all, broker.table_sizes()["clt"]) == (0, 1)
