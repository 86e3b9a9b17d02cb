"""Long inputs in slices: what a slice does, what holds between two slices, and what all slices together amount to."""

from __future__ import annotations

import random

import pytest
from links_support import (
    Overlay,
    advertisement,
    at,
    feed,
    join,
    make,
    offer,
    publication,
    silence,
    subscription,
    taken,
    v,
    want,
)

from octopia.broker import OctopiaBroker
from octopia.ids import ClientId, SubscriptionId
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    CivAck,
    CivState,
    Confirm,
    Confirmed,
    Deliver,
    Fetch,
    Message,
    Subscribe,
    SubscriptionDigest,
    UnadvertiseRequest,
    Unconfirmed,
    Unsubscribe,
)


def ids(*messages: Message) -> list[SubscriptionId]:
    """Return the subscriptions that messages name."""
    return [each.id for each in messages if isinstance(each, Subscribe | Unsubscribe)]


def wake(broker: OctopiaBroker, now_ms: float = 0.0) -> None:
    """Let a broker that asks for it handle the next slice."""
    assert broker.is_behind
    assert broker.next_deadline_ms is not None
    assert broker.next_deadline_ms <= now_ms
    broker.wake(now_ms)
    broker.check()


class TestDeparture:
    @pytest.fixture
    def broker(self) -> OctopiaBroker:
        broker = make(slice_max=2)
        join(broker, "S", *(want(handle) for handle in range(5)), offer(0))
        join(broker, "other", want(0))
        silence(broker)
        broker.detach(ClientId("S"), 0.0)
        broker.check()
        return broker

    def test_each_slice_withdraws_a_few(self, broker: OctopiaBroker) -> None:
        assert [broker.table_sizes()["prt"], len(ids(*taken(broker, "a.0")))] == [4, 2]
        wake(broker)
        assert [broker.table_sizes()["prt"], len(ids(*taken(broker, "a.0")))] == [2, 2]
        wake(broker)
        assert broker.table_sizes() == {"clt": 0, "prt": 1, "srt": 0}
        assert not broker.is_behind
        assert broker.next_deadline_ms is None

    def test_nothing_is_delivered_to_a_client_that_has_left(self, broker: OctopiaBroker) -> None:
        feed(broker, "a.0", publication(0))
        assert taken(broker, "S") == []
        assert [type(each) for each in taken(broker, "other")] == [Deliver]
        broker.detach(ClientId("other"), 0.0)
        feed(broker, "a.0", publication(1))
        assert broker.drain_for_clients() == []

    def test_its_id_is_not_free_before_the_last_slice(self, broker: OctopiaBroker) -> None:
        assert broker.attach(ClientId("S"), 0.0).violation is not None
        wake(broker)
        wake(broker)
        assert broker.attach(ClientId("S"), 0.0).violation is None

    def test_what_is_left_is_part_of_the_state(self, broker: OctopiaBroker) -> None:
        before = broker.fingerprint()
        wake(broker)
        assert broker.fingerprint() != before

    def test_every_input_continues(self, broker: OctopiaBroker) -> None:
        feed(broker, "a.0", publication(0))
        feed(broker, "a.0", publication(1))
        assert not broker.is_behind


class TestDigestsInParts:
    @pytest.fixture
    def broker(self) -> OctopiaBroker:
        broker = make(slice_max=2)
        for number in range(5):
            feed(broker, "a.0", subscription("a.0", number))
        feed(broker, "c.0", Confirm(tuple(subscription("a.0", number).id for number in range(3))))
        silence(broker)
        broker.link_down(at("c.0"), 0.0)
        broker.link_up(at("c.0"), 0.0)
        return broker

    @staticmethod
    def parts(broker: OctopiaBroker) -> list[SubscriptionDigest]:
        return [each for each in taken(broker, "c.0") if isinstance(each, SubscriptionDigest)]

    def test_the_parts_name_everything_and_the_last_is_complete(self, broker: OctopiaBroker) -> None:
        parts = self.parts(broker)
        while broker.is_behind:
            wake(broker)
            parts += self.parts(broker)
        assert [each.number for part in parts for each in part.subscriptions] == [0, 1, 2, 3, 4]
        assert [each.continues for each in parts] == [False] + [True] * (len(parts) - 1)
        assert [each.complete for each in parts] == [False] * (len(parts) - 1) + [True]
        assert [each.number for part in parts for each in part.unconfirmed] == [3, 4]

    def test_a_later_part_does_not_name_what_was_withdrawn_meanwhile(self, broker: OctopiaBroker) -> None:
        parts = self.parts(broker)
        feed(broker, "a.0", Unsubscribe(subscription("a.0", 4).id))
        parts += self.parts(broker)
        while broker.is_behind:
            wake(broker)
            parts += self.parts(broker)
        assert [each.number for part in parts for each in part.subscriptions] == [0, 1, 2, 3]

    def test_a_lost_link_ends_it(self, broker: OctopiaBroker) -> None:
        broker.link_down(at("c.0"), 0.0)
        assert not broker.is_behind

    def test_nothing_is_removed_before_the_last_part(self, broker: OctopiaBroker) -> None:
        mine = [subscription("c.0", number) for number in range(4)]
        feed(broker, "c.0", *mine)
        while broker.is_behind:
            wake(broker)
        silence(broker)
        feed(broker, "c.0", SubscriptionDigest((mine[0].id,), (), complete=False))
        assert taken(broker, "a.0") == []
        feed(broker, "c.0", SubscriptionDigest((), (), complete=True, continues=True))
        assert ids(*taken(broker, "a.0")) == [mine[1].id, mine[2].id]
        wake(broker)
        assert ids(*taken(broker, "a.0")) == [mine[3].id]
        assert mine[0].id in broker.state.prt

    def test_what_comes_again_is_not_removed(self, broker: OctopiaBroker) -> None:
        mine = [subscription("c.0", number) for number in range(4)]
        feed(broker, "c.0", *mine)
        while broker.is_behind:
            wake(broker)
        feed(broker, "c.0", SubscriptionDigest((), (), complete=True))
        feed(broker, "c.0", mine[3])
        while broker.is_behind:
            wake(broker)
        assert [each.id in broker.state.prt for each in mine] == [False, False, False, True]

    def test_a_part_whose_first_is_lost_removes_nothing(self, broker: OctopiaBroker) -> None:
        mine = subscription("c.0")
        feed(broker, "c.0", mine)
        feed(broker, "c.0", SubscriptionDigest((), (), complete=False))
        broker.link_down(at("c.0"), 0.0)
        broker.link_up(at("c.0"), 0.0)
        feed(broker, "c.0", SubscriptionDigest((), (), complete=True, continues=True))
        assert mine.id in broker.state.prt

    def test_a_fetch_is_answered_in_slices(self, broker: OctopiaBroker) -> None:
        while broker.is_behind:
            wake(broker)
        silence(broker)
        feed(broker, "c.0", Fetch(tuple(subscription("a.0", number).id for number in range(5))))
        assert [each.number for each in ids(*taken(broker, "c.0"))] == [0, 1]
        feed(broker, "a.0", Unsubscribe(subscription("a.0", 4).id))
        wake(broker)
        answered = [each for each in taken(broker, "c.0") if isinstance(each, Subscribe)]
        assert [each.number for each in ids(*answered)] == [2, 3]


class TestAdvertisements:
    """The exchange over an iLink, in slices of two."""

    @pytest.fixture
    def broker(self) -> OctopiaBroker:
        broker = make(slice_max=2)
        join(broker, "P", *(offer(handle) for handle in range(5)))
        silence(broker)
        return broker

    def test_a_digest_comes_in_parts(self, broker: OctopiaBroker) -> None:
        broker.link_down(at("b.1"), 0.0)
        broker.link_up(at("b.1"), 0.0)
        while broker.is_behind:
            wake(broker)
        parts = [each for each in taken(broker, "b.1") if isinstance(each, AdvertisementDigest)]
        assert [[each.number for each in part.advertisements] for part in parts] == [[0, 1], [2, 3], [4]]
        assert [(part.complete, part.continues) for part in parts] == [(False, False), (False, True), (True, True)]

    def test_a_withdrawn_advertisement_is_left_out_of_later_parts(self, broker: OctopiaBroker) -> None:
        broker.link_down(at("b.1"), 0.0)
        broker.link_up(at("b.1"), 0.0)
        broker.receive(ClientId("P"), [UnadvertiseRequest(4)], 0.0)
        while broker.is_behind:
            wake(broker)
        last = taken(broker, "b.1")[-1]
        assert last == AdvertisementDigest((), complete=True, continues=True)

    def test_what_no_part_names_is_removed_after_the_last(self, broker: OctopiaBroker) -> None:
        theirs = [advertisement("b.1", number) for number in range(5)]
        feed(broker, "b.1", *theirs)
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((theirs[0].id, theirs[1].id), complete=False))
        assert broker.table_sizes()["clt"] == 10
        feed(broker, "b.1", AdvertisementDigest((), complete=True, continues=True))
        while broker.is_behind:
            wake(broker)
        assert [each.id in broker.state.clt for each in theirs] == [True, True, False, False, False]
        [answer] = [each for each in taken(broker, "b.1") if isinstance(each, CivState)]
        assert [*answer.wanted, *answer.unwanted] == [theirs[0].id, theirs[1].id]

    def test_a_part_whose_first_is_lost_removes_nothing(self, broker: OctopiaBroker) -> None:
        theirs = advertisement("b.1")
        feed(broker, "b.1", theirs)
        feed(broker, "b.1", AdvertisementDigest((), complete=False))
        broker.link_down(at("b.1"), 0.0)
        broker.link_up(at("b.1"), 0.0)
        feed(broker, "b.1", AdvertisementDigest((), complete=True, continues=True))
        while broker.is_behind:
            wake(broker)
        assert theirs.id in broker.state.clt

    def test_a_fetch_is_answered_in_slices(self, broker: OctopiaBroker) -> None:
        hosted = tuple(entry.id for entry in broker.state.clt)
        feed(broker, "b.1", Fetch(advertisements=hosted))
        assert [each.id.number for each in taken(broker, "b.1") if isinstance(each, Advertise)] == [0, 1]
        broker.receive(ClientId("P"), [UnadvertiseRequest(2)], 0.0)
        while broker.is_behind:
            wake(broker)
        assert [each.id.number for each in taken(broker, "b.1") if isinstance(each, Advertise)] == [3, 4]


class TestConfirmations:
    def test_an_acknowledgement_releases_a_few_at_a_time_in_one_message(self) -> None:
        broker = make("c.0", slice_max=2)
        offered = advertisement("c.1")
        feed(broker, "c.1", offered)
        feed(broker, "b.0", *(subscription("a.0", number) for number in range(5)))
        silence(broker)
        feed(broker, "c.1", CivAck(((offered.id, v(2)),)))
        released = [taken(broker, "b.0")]
        while broker.is_behind:
            wake(broker)
            released.append(taken(broker, "b.0"))
        assert [len(each.subscriptions) for [each] in released if isinstance(each, Confirm)] == [2, 2, 1]

    def test_requests_that_time_out_together_are_answered_a_few_at_a_time(self) -> None:
        broker = make(slice_max=2)
        join(broker, "S", *(want(handle, timeout_ms=10.0) for handle in range(3)))
        broker.wake(10.0)
        assert [type(each) for each in taken(broker, "S")] == [Unconfirmed] * 2
        wake(broker, 10.0)
        assert [type(each) for each in taken(broker, "S")] == [Unconfirmed]
        assert not broker.is_behind


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_slices_and_messages_ends_in_the_same_tables(seed: int) -> None:
    chance = random.Random(seed)
    overlay = Overlay("a-b, b-c", 2, slice_max=chance.choice([1, 2, 3]))
    wishes = {"A": ("a.0", 5), "B": ("b.0", 3), "C": ("c.0", 5), "D": ("c.1", 2)}
    for name, (broker, number) in wishes.items():
        overlay.ask(name, broker, *(want(handle, f"x > {handle}") for handle in range(number)))
    overlay.ask("P", "b.1", *(offer(handle, f"x > {handle}") for handle in range(5)))
    _carry(overlay, chance, 40)
    overlay.cut("b.0", "b.1")
    overlay["b.1"].receive(ClientId("P"), [UnadvertiseRequest(1)], 0.0)
    _carry(overlay, chance, 10)
    overlay.heal("b.0", "b.1")
    _carry(overlay, chance, 5)
    overlay["b.1"].receive(ClientId("P"), [UnadvertiseRequest(4)], 0.0)
    overlay.cut("b.0", "c.0")
    _carry(overlay, chance, 20)
    overlay[wishes["C"][0]].detach(ClientId("C"), 0.0)
    overlay.heal("b.0", "c.0")
    _carry(overlay, chance, 20)
    overlay.crash("b.0")
    overlay.restart("b.0")
    overlay.ask("B", "b.0", *(want(handle, f"x > {handle}") for handle in range(3)))
    _carry(overlay, chance, 10**6)
    for name in ("a.0", "b.0", "c.0"):
        assert overlay[name].table_sizes()["prt"] == 8
        assert overlay[name].state.recovery is None
        assert not overlay[name].state.confirming
    confirmed = [each for each in overlay.received("A", "a.0") if isinstance(each, Confirmed)]
    assert sorted(each.number for each in confirmed) == [0, 1, 2, 3, 4]
    for name in ("b.0", "b.1"):
        assert sorted(entry.id.number for entry in overlay[name].state.clt) == [0, 2, 3]
    assert all(0 in entry.civ and not entry.pending for entry in overlay["b.1"].state.clt)


def _carry(overlay: Overlay, chance: random.Random, most: int) -> None:
    """Carry messages and handle slices in a random order, until nothing is left."""
    for _ in range(most):
        steps = [link for link in overlay.open_links if not overlay[link[0]].state.queues[at(link[1])].is_empty]
        behind = [name for name, broker in overlay.brokers.items() if broker.is_behind]
        if not steps and not behind:
            return
        place = chance.randrange(len(steps) + len(behind))
        if place < len(steps):
            overlay.step(*steps[place])
        else:
            wake(overlay[behind[place - len(steps)]])
