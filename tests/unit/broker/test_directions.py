"""Directions: the answers to advertisements under adaptive routing, rule by rule.

The broker is b.0 of three regions in a row and three clusters: its cluster has the directions here, a and c.
"""

from __future__ import annotations

import msgspec
import pytest
from links_support import (
    advertisement,
    at,
    entry,
    feed,
    hosted,
    join,
    make,
    offer,
    silence,
    subscription,
    taken,
    v,
    want,
)

from octopia.broker import OctopiaBroker, answers
from octopia.broker.adaptive_routing import Audience
from octopia.broker.audience import audience_of
from octopia.errors import ProtocolViolation
from octopia.ids import BrokerId, SubscriptionId
from octopia.protocol.directions import NOWHERE, Directions
from octopia.protocol.messages import (
    AdvertisementDigest,
    CivAck,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    CivUpdate,
    Confirm,
    Message,
    SubscriptionDigest,
    Unsubscribe,
    UnsubscribeRequest,
)

OFFER = advertisement("b.1")
EVERYTHING = Directions(True, ("a", "c"))


def make_adaptive(**settings: object) -> OctopiaBroker:
    return make(algorithm="adaptive", **settings)


def told(*directions: str) -> tuple[Directions, ...]:
    """Return a set of directions as a message about one advertisement carries it; ``here`` is a direction."""
    return (Directions.of("" if each == "here" else each for each in directions),)


def updates(broker: OctopiaBroker, target: str = "b.1") -> list[Message]:
    """Take everything that waits for a neighbour, and return the updates of answers."""
    return [each for each in taken(broker, target) if isinstance(each, CivSet | CivUnset | CivNone | CivState)]


class TestTheSet:
    def test_directions_are_sorted_and_distinct(self) -> None:
        assert Directions.of(["c", "", "a", "c"]) == Directions(True, ("a", "c"))
        assert list(Directions(True, ("a", "c"))) == ["", "a", "c"]

    def test_membership_and_emptiness(self) -> None:
        assert "" in Directions(here=True)
        assert "" not in Directions(False, ("a",))
        assert "a" in Directions(False, ("a",))
        assert not NOWHERE

    def test_union_intersection_and_difference(self) -> None:
        left, right = Directions(True, ("a", "b")), Directions(False, ("b", "c"))
        assert left | right == Directions(True, ("a", "b", "c"))
        assert left & right == Directions(False, ("b",))
        assert left - right == Directions(True, ("a",))
        assert right - left == Directions(False, ("c",))


class TestTheAnswerToAnAdvertisement:
    def test_it_has_every_direction_with_an_intersecting_subscription(self) -> None:
        broker = make_adaptive()
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "c.0", subscription("c.0", text="x < 0"))
        join(broker, "S", want())
        silence(broker)
        feed(broker, "b.1", OFFER)
        assert updates(broker) == [CivSet((OFFER.id,), v(1), told("here", "a"))]

    def test_nobody_wants_it(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        assert updates(broker) == [CivNone((OFFER.id,), v(1))]

    def test_without_confirmations_nobody_wants_it(self) -> None:
        broker = make_adaptive(confirmations=False)
        feed(broker, "b.1", OFFER)
        assert updates(broker) == []

    def test_a_digest_is_answered_with_sets(self) -> None:
        broker = make_adaptive()
        other = advertisement("b.1", 1, "y > 0")
        feed(broker, "b.1", OFFER, other)
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((OFFER.id, other.id)))
        assert updates(broker) == [CivState((OFFER.id,), (other.id,), v(4), told("c"))]


class TestChanges:
    def test_a_new_direction_is_told_with_the_whole_set(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        silence(broker)
        feed(broker, "c.0", subscription("c.0"))
        assert updates(broker) == [CivSet((OFFER.id,), v(2), told("c"))]
        feed(broker, "a.0", subscription("a.0"))
        assert updates(broker) == [CivSet((OFFER.id,), v(3), told("a", "c"))]
        join(broker, "S", want())
        assert updates(broker) == [CivSet((OFFER.id,), v(4), told("here", "a", "c"))]

    def test_a_known_direction_is_not_told_again(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        feed(broker, "c.0", subscription("c.0", 1))
        assert updates(broker) == []

    def test_one_update_per_ilink_names_all_advertisements_that_the_direction_is_new_to(self) -> None:
        broker = make_adaptive()
        second, third = advertisement("b.1", 1, "x > 0 AND y > 0"), advertisement("b.2")
        feed(broker, "a.0", subscription("a.0", text="y > 0"))
        feed(broker, "b.1", OFFER, second)
        feed(broker, "b.2", third)
        silence(broker)
        feed(broker, "c.0", subscription("c.0"))
        assert updates(broker) == [CivSet((OFFER.id, second.id), v(4), (*told("c"), *told("a", "c")))]
        assert updates(broker, "b.2") == [CivSet((third.id,), v(5), told("c"))]

    def test_the_last_subscription_of_a_direction_takes_it_along(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        first, second = subscription("c.0"), subscription("c.0", 1)
        feed(broker, "c.0", first, second)
        feed(broker, "a.0", subscription("a.0"))
        silence(broker)
        feed(broker, "c.0", Unsubscribe(first.id))
        assert updates(broker) == []
        feed(broker, "c.0", Unsubscribe(second.id))
        assert updates(broker) == [CivUnset((OFFER.id,), v(4), told("a"))]

    def test_the_last_direction_leaves_an_empty_set(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        join(broker, "S", want())
        silence(broker)
        feed(broker, "S", UnsubscribeRequest(0))
        assert updates(broker) == [CivUnset((OFFER.id,), v(3), told())]

    def test_an_alink_that_is_down_removes_no_direction(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        broker.link_down(at("c.0"), 0.0)
        assert updates(broker) == []
        broker.link_up(at("c.0"), 0.0)
        assert updates(broker) == []
        assert entry(broker, OFFER).directions == Directions(False, ("c",))

    def test_a_digest_that_no_longer_names_a_subscription_removes_its_direction(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        feed(broker, "c.0", subscription("c.0"))
        broker.link_down(at("c.0"), 0.0)
        broker.link_up(at("c.0"), 0.0)
        silence(broker)
        feed(broker, "c.0", SubscriptionDigest((), (), complete=True))
        assert updates(broker) == [CivUnset((OFFER.id,), v(3), told())]


@pytest.mark.parametrize("algorithm", ["static", "dynamic"])
class TestOtherAlgorithms:
    def test_the_set_counts_as_a_bit(self, algorithm: str) -> None:
        broker = make(algorithm=algorithm)
        feed(broker, "b.1", OFFER)
        silence(broker)
        ids = [SubscriptionId(at(host), 1, 0) for host in ("a.0", "c.0")]
        feed(broker, "a.0", subscription("a.0"))
        assert updates(broker) == [CivSet((OFFER.id,), v(2))]
        feed(broker, "c.0", subscription("c.0"))
        feed(broker, "a.0", Unsubscribe(ids[0]))
        assert updates(broker) == []
        feed(broker, "c.0", Unsubscribe(ids[1]))
        assert updates(broker) == [CivUnset((OFFER.id,), v(3))]

    def test_no_byte_more_is_sent(self, algorithm: str) -> None:
        broker = make(algorithm=algorithm)
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "b.1", OFFER, AdvertisementDigest((OFFER.id,)))
        sent = updates(broker)
        assert [type(each) for each in sent] == [CivSet, CivState]
        assert not any(b"directions" in msgspec.msgpack.encode(each) for each in sent)

    def test_the_host_broker_holds_no_sets(self, algorithm: str) -> None:
        broker = make(algorithm=algorithm)
        join(broker, "P", offer())
        feed(broker, "b.1", CivSet((hosted(broker).id,), v(1)))
        assert hosted(broker).held == {}


class TestTheHostBroker:
    def start(self) -> OctopiaBroker:
        broker = make_adaptive()
        join(broker, "P", offer())
        return broker

    def audience(self, broker: OctopiaBroker) -> Audience:
        return audience_of(broker.state, [hosted(broker)])

    def answer(self, broker: OctopiaBroker, update: type[CivSet | CivUnset], number: int, *directions: str) -> None:
        feed(broker, "b.1", update((hosted(broker).id,), v(number), told(*directions)))

    def test_before_any_answer_all_clusters_want_everything(self) -> None:
        broker = self.start()
        assert self.audience(broker) == Audience(0b110, {1: EVERYTHING, 2: EVERYTHING}, {})

    def test_without_confirmations_no_answer_is_the_answer_0(self) -> None:
        broker = make_adaptive(confirmations=False)
        join(broker, "P", offer())
        assert self.audience(broker) == Audience(0, {}, {1: NOWHERE, 2: NOWHERE})

    def test_answers_are_held(self) -> None:
        broker = self.start()
        self.answer(broker, CivSet, 1, "a")
        feed(broker, "b.2", CivNone((hosted(broker).id,), v(1)))
        wanted = Directions(False, ("a",))
        assert self.audience(broker) == Audience(0b010, {1: wanted}, {1: wanted, 2: NOWHERE})
        assert self.audience(broker) is self.audience(broker)

    def test_an_unset_with_directions_left_keeps_the_bit(self) -> None:
        broker = self.start()
        self.answer(broker, CivSet, 1, "here", "a")
        self.answer(broker, CivUnset, 2, "here")
        assert 1 in hosted(broker).civ
        assert self.audience(broker).held[1] == Directions(here=True)
        self.answer(broker, CivUnset, 3)
        assert 1 not in hosted(broker).civ
        assert self.audience(broker).held[1] == NOWHERE

    def test_an_older_version_changes_nothing(self) -> None:
        broker = self.start()
        self.answer(broker, CivUnset, 2, "a")
        self.answer(broker, CivSet, 1, "a", "c")
        assert self.audience(broker).held[1] == Directions(False, ("a",))

    def test_a_lost_link_leaves_what_is_held(self) -> None:
        broker = self.start()
        self.answer(broker, CivSet, 1, "a")
        broker.link_down(at("b.1"), 0.0)
        assert self.audience(broker).counted[1] == EVERYTHING
        assert self.audience(broker).held[1] == Directions(False, ("a",))
        assert self.audience(broker).targets == 0b110

    def test_an_equal_version_ends_pending(self) -> None:
        broker = self.start()
        self.answer(broker, CivSet, 1, "a")
        broker.link_down(at("b.1"), 0.0)
        broker.link_up(at("b.1"), 0.0)
        self.answer(broker, CivSet, 1, "a")
        assert self.audience(broker).counted[1] == Directions(False, ("a",))

    def test_a_secondary_that_restarts_takes_its_answers_along(self) -> None:
        broker = self.start()
        self.answer(broker, CivSet, 1, "a")
        broker.link_down(at("b.1"), 0.0)
        broker.link_forgotten(at("b.1"), (), True, 0.0)
        broker.link_up(at("b.1"), 0.0)
        assert 1 not in self.audience(broker).held
        assert self.audience(broker).counted[1] == EVERYTHING
        broker.check()

    def test_a_state_is_an_answer_to_each_of_its_advertisements(self) -> None:
        broker = self.start()
        feed(broker, "P", offer(1, "y > 0"))
        first, second = hosted(broker).id, hosted(broker, handle=1).id
        feed(broker, "b.1", CivState((first,), (second,), v(1), told("c")))
        held = [hosted(broker, handle=handle).held[at("b.1")] for handle in (0, 1)]
        assert held == [Directions(False, ("c",)), NOWHERE]

    def test_a_publication_that_conforms_to_several_has_the_union(self) -> None:
        broker = self.start()
        feed(broker, "P", offer(1))
        entries = [hosted(broker, handle=handle) for handle in (0, 1)]
        feed(broker, "b.1", CivSet((entries[0].id,), v(1), told("a")), CivSet((entries[1].id,), v(2), told("here")))
        feed(broker, "b.2", CivNone((entries[0].id,), v(1)))
        union = audience_of(broker.state, entries)
        assert union.targets == 0b110
        assert union.counted == {1: Directions(True, ("a",)), 2: EVERYTHING}
        assert union.held == {1: Directions(True, ("a",))}
        assert audience_of(broker.state, entries) is union
        feed(broker, "b.2", CivNone((entries[1].id,), v(2)))
        assert audience_of(broker.state, entries).targets == 0b010

    @pytest.mark.parametrize(
        "directions",
        [
            (),
            (NOWHERE, NOWHERE),
            (Directions(False, ("b",)),),
            (Directions(False, ("c", "a")),),
            (Directions(False, ("a", "a")),),
            (Directions(False, ("",)),),
        ],
    )
    def test_impossible_directions_are_refused(self, directions: tuple[Directions, ...]) -> None:
        broker = self.start()
        update: CivUpdate = CivSet((hosted(broker).id,), v(1), directions)
        violation = broker.receive(at("b.1"), [update], 0.0).violation
        # An update without sets, as of the other algorithms, means everything.
        assert isinstance(violation, ProtocolViolation) == bool(directions)
        assert hosted(broker).held == ({} if directions else {at("b.1"): EVERYTHING})


class TestConfirmations:
    def test_a_subscription_waits_for_a_version_with_its_direction(self) -> None:
        """D5: the bit is set and acknowledged, but the host broker does not know of the direction yet."""
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "c.0", Confirm((SubscriptionId(at("a.0"), 1, 0),)))
        feed(broker, "b.1", CivAck(((OFFER.id, v(2)),)))
        silence(broker)
        known = subscription("c.0")
        feed(broker, "c.0", known)
        feed(broker, "a.0", Confirm((known.id,)))
        assert [each for each in taken(broker, "c.0") if isinstance(each, Confirm)] == []
        feed(broker, "b.1", CivAck(((OFFER.id, v(3)),)))
        assert [each for each in taken(broker, "c.0") if isinstance(each, Confirm)] == [Confirm((known.id,))]

    def test_a_subscription_waits_for_its_direction_that_another_has_caused(self) -> None:
        broker = make_adaptive()
        feed(broker, "b.1", OFFER)
        first, second = subscription("c.0"), subscription("c.0", 1)
        feed(broker, "c.0", first, second)
        feed(broker, "a.0", Confirm((first.id, second.id)))
        feed(broker, "b.1", CivAck(((OFFER.id, v(1)),)))
        assert [each for each in taken(broker, "c.0") if isinstance(each, Confirm)] == []
        feed(broker, "b.1", CivAck(((OFFER.id, v(2)),)))
        assert [each for each in taken(broker, "c.0") if isinstance(each, Confirm)] == [Confirm((first.id, second.id))]


class TestRecovery:
    def start(self) -> OctopiaBroker:
        broker = make_adaptive(incarnation=2, restarted_at_ms=0.0)
        for each in ("a.0", "c.0", "b.1", "b.2"):
            broker.link_up(at(each), 0.0)
        silence(broker)
        return broker

    def unheard(self, broker: OctopiaBroker) -> list[BrokerId]:
        return list(broker.state.unheard_neighbours)

    def test_a_neighbour_that_has_not_been_heard_wants_everything(self) -> None:
        broker = self.start()
        assert self.unheard(broker) == [at("a.0"), at("c.0")]
        feed(broker, "b.1", OFFER)
        assert updates(broker) == [CivSet((OFFER.id,), v(1, 2), told("a", "c"))]

    def test_once_it_is_heard_its_direction_goes_alone(self) -> None:
        broker = self.start()
        feed(broker, "b.1", OFFER)
        silence(broker)
        feed(broker, "a.0", SubscriptionDigest((), (), complete=True))
        assert updates(broker) == [CivUnset((OFFER.id,), v(2, 2), told("c"))]
        assert self.unheard(broker) == [at("c.0")]

    def test_it_is_heard_when_everything_that_it_named_has_arrived(self) -> None:
        broker = self.start()
        feed(broker, "b.1", OFFER)
        silence(broker)
        known = subscription("a.0")
        feed(broker, "a.0", SubscriptionDigest((known.id,), (), complete=True))
        assert self.unheard(broker) == [at("a.0"), at("c.0")]
        feed(broker, "a.0", known)
        assert self.unheard(broker) == [at("c.0")]
        assert updates(broker) == []
        feed(broker, "c.0", SubscriptionDigest((), (), complete=True))
        assert updates(broker) == [CivUnset((OFFER.id,), v(2, 2), told("a"))]

    def test_an_unheard_direction_stays_when_a_subscription_behind_it_goes(self) -> None:
        broker = self.start()
        feed(broker, "b.1", OFFER)
        known = subscription("a.0")
        feed(broker, "a.0", known)
        silence(broker)
        feed(broker, "a.0", Unsubscribe(known.id))
        assert updates(broker) == []

    def test_a_lost_link_does_not_change_who_is_heard(self) -> None:
        broker = self.start()
        feed(broker, "a.0", SubscriptionDigest((), (), complete=True))
        for neighbour in ("a.0", "c.0"):
            broker.link_down(at(neighbour), 0.0)
        assert self.unheard(broker) == [at("c.0")]

    def test_answers_that_are_cleared_in_slices_may_be_too_large_meanwhile(self) -> None:
        broker = make_adaptive(incarnation=2, restarted_at_ms=0.0, slice_max=1)
        offers = [advertisement("b.1", number) for number in range(3)]
        feed(broker, "b.1", *offers)
        feed(broker, "a.0", SubscriptionDigest((), (), complete=True))
        assert [len(entry(broker, each).directions.regions) for each in offers] == [1, 2, 2]
        for _ in range(2):
            broker.wake(0.0)
            broker.check()
        assert [entry(broker, each).directions.regions for each in offers] == [("c",)] * 3

    def test_a_broker_that_lost_nothing_has_heard_all(self) -> None:
        assert self.unheard(make_adaptive()) == []
        assert answers.unknown(make_adaptive().state) == NOWHERE


class TestFingerprints:
    def test_a_direction_shows(self) -> None:
        prints = []
        for directions in (("a",), ("c",)):
            broker = make_adaptive()
            join(broker, "P", offer())
            feed(broker, "b.1", CivSet((hosted(broker).id,), v(1), told(*directions)))
            prints.append(broker.fingerprint())
        assert prints[0] != prints[1]

    def test_a_computed_audience_does_not(self) -> None:
        broker = make_adaptive()
        join(broker, "P", offer())
        before = broker.fingerprint()
        audience_of(broker.state, [hosted(broker)])
        assert broker.fingerprint() == before


class TestInvariants:
    def test_an_answer_that_the_prt_does_not_give(self) -> None:
        broker = make_adaptive()
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "b.1", OFFER)
        entry(broker, OFFER).directions = Directions(False, ("c",))
        with pytest.raises(Exception, match=r"the answer to .* is \['c'\], but the PRT says \['a'\]"):
            broker.check()

    def test_a_held_answer_that_its_bit_contradicts(self) -> None:
        broker = make_adaptive()
        join(broker, "P", offer())
        feed(broker, "b.1", CivSet((hosted(broker).id,), v(1), told("a")))
        hosted(broker).held[at("b.1")] = NOWHERE
        with pytest.raises(Exception, match=r"has the CIV 011, but b.1 answered \[\]"):
            broker.check()
