"""D5 and D4, sentence by sentence: the conditions of confirmations, and routing while they are pending."""

from __future__ import annotations

import itertools
import random

import pytest
from links_support import (
    Overlay,
    advertisement,
    at,
    entry,
    feed,
    hosted,
    join,
    make,
    offer,
    publication,
    say,
    silence,
    subscription,
    taken,
    v,
    want,
)

from octopia.broker import OctopiaBroker
from octopia.ids import AdvertisementId, ClientId
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    CivAck,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    Confirm,
    Confirmed,
    Deliver,
    Message,
    Publish,
    Refused,
    Subscribe,
    SubscriptionDigest,
    Unadvertise,
    UnadvertiseRequest,
    Unconfirmed,
    Unsubscribe,
    UnsubscribeRequest,
    Version,
)

STAR = "a-b, b-c, b-d"


def confirms(broker: OctopiaBroker, target: str = "a.0") -> list[Confirm]:
    """Take everything that waits for a neighbour, and return the confirmations."""
    return [each for each in taken(broker, target) if isinstance(each, Confirm)]


def acknowledge(advertised: Advertise, version: Version) -> CivAck:
    """Return the acknowledgement of a bit."""
    return CivAck(((advertised.id, version),))


def version_sent(broker: OctopiaBroker, host: str) -> Version:
    """Take everything that waits for a host broker, and return the version of the only CIV update."""
    [update] = [each for each in taken(broker, host) if isinstance(each, CivSet | CivUnset | CivNone | CivState)]
    return update.version


class TestSubscriptionWaitsForPrimaryNeighbours:
    def test_an_edge_broker_confirms_at_once(self) -> None:
        broker = make("c.0")
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        assert taken(broker, "b.0") == [Confirm((wanted.id,))]

    def test_an_inner_broker_confirms_when_the_next_one_has(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        assert taken(broker, "c.0") == [wanted]
        assert not confirms(broker)
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker) == [Confirm((wanted.id,))]

    @pytest.mark.parametrize("order", [["c.0", "d.0"], ["d.0", "c.0"]])
    def test_every_neighbour_must_have_confirmed(self, order: list[str]) -> None:
        broker = make(tree=STAR)
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, order[0], Confirm((wanted.id,)))
        assert not confirms(broker)
        feed(broker, order[1], Confirm((wanted.id,)))
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_one_neighbour_confirming_twice_does_not_stand_for_two(self) -> None:
        broker = make(tree=STAR)
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)), Confirm((wanted.id,)))
        assert not confirms(broker)

    def test_the_confirmation_goes_to_the_hop_it_came_from_only(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker, "a.0") == [Confirm((wanted.id,))]
        assert confirms(broker, "c.0") == []

    def test_confirmations_of_several_subscriptions_may_come_together(self) -> None:
        broker = make()
        first, second = subscription("a.0", 0), subscription("a.0", 1)
        feed(broker, "a.0", first, second)
        feed(broker, "c.0", Confirm((second.id, first.id)))
        confirmed = [each for message in confirms(broker) for each in message.subscriptions]
        assert sorted(confirmed) == [first.id, second.id]

    def test_a_known_subscription_that_comes_again_is_confirmed_again(self) -> None:
        broker = make("c.0")
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        silence(broker)
        feed(broker, "b.0", wanted)
        assert taken(broker, "b.0") == [Confirm((wanted.id,))]

    def test_a_known_subscription_that_still_waits_is_not_confirmed_again(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted, wanted)
        assert confirms(broker) == []

    def test_a_client_is_told_when_all_have_confirmed(self) -> None:
        broker = make()
        join(broker, "S", want(7))
        wanted = taken(broker, "a.0")[0]
        assert isinstance(wanted, Subscribe)
        feed(broker, "a.0", Confirm((wanted.id,)))
        assert taken(broker, "S") == []
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 7)]

    def test_a_client_of_a_lone_broker_is_told_at_once(self) -> None:
        broker = make("a.0", tree="a", clusters=1)
        join(broker, "S", want(3), offer(4))
        assert taken(broker, "S") == [
            Confirmed(MessageKind.SUBSCRIPTION, 3),
            Confirmed(MessageKind.ADVERTISEMENT, 4),
        ]

    def test_a_client_that_repeats_its_request_is_told_again(self) -> None:
        broker = make()
        join(broker, "S", want(7))
        wanted = taken(broker, "a.0")[0]
        assert isinstance(wanted, Subscribe)
        feed(broker, "S", want(7))
        feed(broker, "a.0", Confirm((wanted.id,)))
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 7)]
        feed(broker, "S", want(7))
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 7)]
        broker.check()


class TestSubscriptionWaitsForBits:
    def test_the_host_broker_must_have_acknowledged(self) -> None:
        broker = make("c.0")
        offered, wanted = advertisement("c.1"), subscription("a.0")
        feed(broker, "c.1", offered)
        silence(broker)
        feed(broker, "b.0", wanted)
        [update] = taken(broker, "c.1")
        assert isinstance(update, CivSet)
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(offered, update.version))
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    def test_an_advertisement_that_does_not_intersect_is_not_waited_for(self) -> None:
        broker = make("c.0")
        feed(broker, "c.1", advertisement("c.1", text="y > 0"))
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    def test_an_advertisement_hosted_here_is_not_waited_for(self) -> None:
        broker = make("c.0")
        join(broker, "P", offer())
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_neighbours_and_all_bits_in_any_order(self, order: tuple[int, ...]) -> None:
        broker = make()
        one, two, wanted = advertisement("b.1"), advertisement("b.2"), subscription("a.0")
        feed(broker, "b.1", one)
        feed(broker, "b.2", two)
        silence(broker)
        feed(broker, "a.0", wanted)
        answers: list[tuple[str, Message]] = [
            ("c.0", Confirm((wanted.id,))),
            ("b.1", acknowledge(one, version_sent(broker, "b.1"))),
            ("b.2", acknowledge(two, version_sent(broker, "b.2"))),
        ]
        for number in order:
            assert confirms(broker) == []
            feed(broker, *answers[number])
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_several_advertisements_of_one_host_are_all_waited_for(self) -> None:
        broker = make("c.0")
        one, two, wanted = advertisement("c.1", 0), advertisement("c.1", 1), subscription("a.0")
        feed(broker, "c.1", one, two)
        silence(broker)
        feed(broker, "b.0", wanted)
        version = version_sent(broker, "c.1")
        feed(broker, "c.1", acknowledge(one, version))
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(two, version))
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]


class TestBitsThatAnEarlierSubscriptionSet:
    """A wait names a version, and an acknowledgement of that or a later one ends it."""

    @pytest.fixture
    def broker(self) -> OctopiaBroker:
        return make("c.0")

    offered = advertisement("c.1")
    first, second = subscription("a.0", 0), subscription("a.0", 1)

    def test_a_civ_set_still_on_its_way_is_waited_for(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        silence(broker)
        feed(broker, "b.0", self.first)
        version = version_sent(broker, "c.1")
        feed(broker, "b.0", self.second)
        assert taken(broker, "c.1") == [], "the bit was set already"
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(self.offered, version))
        assert [each.subscriptions for each in confirms(broker, "b.0")] == [(self.first.id, self.second.id)]

    def test_a_bit_that_was_acknowledged_is_not_waited_for(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        silence(broker)
        feed(broker, "b.0", self.first)
        feed(broker, "c.1", acknowledge(self.offered, version_sent(broker, "c.1")))
        silence(broker)
        feed(broker, "b.0", self.second)
        assert confirms(broker, "b.0") == [Confirm((self.second.id,))]

    def test_an_answer_to_an_advertisement_still_on_its_way_is_waited_for(self, broker: OctopiaBroker) -> None:
        feed(broker, "b.0", self.first)
        silence(broker)
        feed(broker, "c.1", self.offered)
        version = version_sent(broker, "c.1")
        feed(broker, "b.0", self.second)
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(self.offered, version))
        assert confirms(broker, "b.0") == [Confirm((self.second.id,))]

    def test_the_acknowledgement_of_an_older_version_does_not_end_it(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        answered = version_sent(broker, "c.1")
        feed(broker, "b.0", self.first)
        version = version_sent(broker, "c.1")
        assert answered < version
        feed(broker, "c.1", acknowledge(self.offered, answered))
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(self.offered, version))
        assert confirms(broker, "b.0") == [Confirm((self.first.id,))]

    def test_set_unset_and_set_again_waits_for_the_last(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        silence(broker)
        feed(broker, "b.0", self.first)
        set_first = version_sent(broker, "c.1")
        feed(broker, "b.0", Unsubscribe(self.first.id))
        unset = version_sent(broker, "c.1")
        feed(broker, "b.0", self.second)
        set_again = version_sent(broker, "c.1")
        for older in (set_first, unset):
            feed(broker, "c.1", acknowledge(self.offered, older))
            assert confirms(broker, "b.0") == []
        feed(broker, "c.1", acknowledge(self.offered, set_again))
        assert confirms(broker, "b.0") == [Confirm((self.second.id,))]

    def test_the_acknowledgement_of_a_later_version_ends_it(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        silence(broker)
        feed(broker, "b.0", self.first)
        version = version_sent(broker, "c.1")
        feed(broker, "c.1", acknowledge(self.offered, v(version.number + 5)))
        assert confirms(broker, "b.0") == [Confirm((self.first.id,))]

    def test_an_older_acknowledgement_that_comes_late_takes_nothing_back(self, broker: OctopiaBroker) -> None:
        feed(broker, "c.1", self.offered)
        silence(broker)
        feed(broker, "b.0", self.first)
        version = version_sent(broker, "c.1")
        feed(broker, "c.1", acknowledge(self.offered, version), acknowledge(self.offered, v(1)))
        silence(broker)
        feed(broker, "b.0", self.second)
        assert confirms(broker, "b.0") == [Confirm((self.second.id,))]


class TestAdvertisements:
    def test_an_unwanted_one_is_answered_too(self) -> None:
        broker = make()
        offered = advertisement("b.1")
        feed(broker, "b.1", offered)
        [answer] = taken(broker, "b.1")
        assert isinstance(answer, CivNone)
        assert answer.advertisements == (offered.id,)
        assert answer.kind is MessageKind.CONFIRMATION

    def test_a_wanted_one_is_answered_with_a_civ_set(self) -> None:
        broker = make()
        offered = advertisement("b.1")
        feed(broker, "a.0", subscription("a.0"))
        feed(broker, "b.1", offered)
        [answer] = taken(broker, "b.1")
        assert isinstance(answer, CivSet)
        assert answer.advertisements == (offered.id,)
        assert answer.kind is MessageKind.CIV_SET

    @pytest.mark.parametrize("order", [["b.1", "b.2"], ["b.2", "b.1"]])
    @pytest.mark.parametrize("answer", [CivSet, CivNone])
    def test_confirmed_when_all_secondaries_have_answered(
        self, order: list[str], answer: type[CivSet] | type[CivNone]
    ) -> None:
        broker = make()
        join(broker, "P", offer(4))
        named = hosted(broker, handle=4).id
        feed(broker, order[0], answer((named,), v(1)))
        assert taken(broker, "P") == []
        feed(broker, order[1], CivNone((named,), v(1)))
        assert taken(broker, "P") == [Confirmed(MessageKind.ADVERTISEMENT, 4)]

    def test_confirmed_at_once_where_there_is_one_cluster(self) -> None:
        broker = make(clusters=1)
        join(broker, "P", offer(4))
        assert taken(broker, "P") == [Confirmed(MessageKind.ADVERTISEMENT, 4)]

    def test_primary_neighbours_have_no_say(self) -> None:
        broker = make()
        join(broker, "P", offer(4))
        assert taken(broker, "a.0") == taken(broker, "c.0") == []

    @pytest.mark.parametrize("kind", [CivSet, CivUnset, CivNone])
    def test_the_host_acknowledges_every_kind_of_update(
        self, kind: type[CivSet] | type[CivUnset] | type[CivNone]
    ) -> None:
        broker = make()
        join(broker, "P", offer())
        named = hosted(broker).id
        silence(broker)
        feed(broker, "b.1", kind((named,), v(3)))
        assert taken(broker, "b.1") == [CivAck(((named, v(3)),))]

    def test_the_host_acknowledges_a_whole_state(self) -> None:
        broker = make()
        join(broker, "P", offer(0), offer(1, "y > 0"))
        one, two = hosted(broker, handle=0).id, hosted(broker, handle=1).id
        silence(broker)
        feed(broker, "b.1", CivState((one,), (two,), v(3)))
        assert taken(broker, "b.1") == [CivAck(((one, v(3)), (two, v(3))))]

    def test_what_is_no_longer_known_is_not_acknowledged(self) -> None:
        broker = make()
        join(broker, "P", offer(0), offer(1))
        gone, known = hosted(broker, handle=0).id, hosted(broker, handle=1).id
        feed(broker, "P", UnadvertiseRequest(0))
        silence(broker)
        feed(broker, "b.1", CivSet((gone,), v(1)))
        assert taken(broker, "b.1") == []
        feed(broker, "b.1", CivSet((gone, known), v(2)))
        assert taken(broker, "b.1") == [CivAck(((known, v(2)),))]

    def test_a_later_update_does_not_confirm_twice(self) -> None:
        broker = make(clusters=2)
        join(broker, "P", offer(4))
        named = hosted(broker, handle=4).id
        feed(broker, "b.1", CivNone((named,), v(1)), CivSet((named,), v(2)))
        assert taken(broker, "P") == [Confirmed(MessageKind.ADVERTISEMENT, 4)]


class TestReleases:
    """Whatever removes a CLT entry releases its waits."""

    def test_a_withdrawn_advertisement(self) -> None:
        broker = make("c.0")
        offered, wanted = advertisement("c.1"), subscription("a.0")
        feed(broker, "c.1", offered)
        feed(broker, "b.0", wanted)
        assert confirms(broker, "b.0") == []
        feed(broker, "c.1", Unadvertise(offered.id))
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    def test_an_advertisement_that_a_digest_does_not_name(self) -> None:
        broker = make("c.0")
        offered, wanted = advertisement("c.1"), subscription("a.0")
        feed(broker, "c.1", offered)
        feed(broker, "b.0", wanted)
        feed(broker, "c.1", AdvertisementDigest(()))
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    def test_other_waits_go_on(self) -> None:
        broker = make()
        one, two, wanted = advertisement("b.1"), advertisement("b.2"), subscription("a.0")
        feed(broker, "b.1", one)
        feed(broker, "b.2", two)
        silence(broker)
        feed(broker, "a.0", wanted)
        feed(broker, "b.1", Unadvertise(one.id))
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker) == []
        feed(broker, "b.2", acknowledge(two, version_sent(broker, "b.2")))
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_a_withdrawn_subscription_is_never_confirmed(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted, Unsubscribe(wanted.id))
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker) == []
        assert not broker.state.confirming

    def test_a_client_that_withdraws_is_told_nothing(self) -> None:
        broker = make()
        join(broker, "S", want(7, timeout_ms=10.0), offer(8, timeout_ms=10.0))
        feed(broker, "S", UnsubscribeRequest(7), UnadvertiseRequest(8))
        assert broker.next_deadline_ms is None
        broker.wake(20.0)
        assert taken(broker, "S") == []

    def test_a_client_that_leaves_leaves_no_wait_behind(self) -> None:
        broker = make()
        join(broker, "S", want(7, timeout_ms=10.0), offer(8, timeout_ms=10.0))
        broker.detach(ClientId("S"), 1.0)
        broker.check()
        assert not broker.state.requests
        assert not broker.state.confirming
        assert broker.next_deadline_ms is None


class TestWhatIsUnknownIsIgnored:
    def test_confirmations_of_unknown_subscriptions(self) -> None:
        broker = make()
        before = broker.fingerprint()
        feed(broker, "c.0", Confirm((subscription("a.0").id,)))
        assert broker.fingerprint() == before

    def test_acknowledgements_of_unknown_advertisements(self) -> None:
        broker = make()
        before = broker.fingerprint()
        feed(broker, "b.1", acknowledge(advertisement("b.1"), v(1)))
        assert broker.fingerprint() == before

    def test_acknowledgements_from_somebody_who_is_not_the_host(self) -> None:
        broker = make("c.0")
        offered, wanted = advertisement("c.1"), subscription("a.0")
        feed(broker, "c.1", offered)
        silence(broker)
        feed(broker, "b.0", wanted)
        feed(broker, "c.2", acknowledge(offered, version_sent(broker, "c.1")))
        assert confirms(broker, "b.0") == []

    def test_confirmations_of_what_was_confirmed(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        silence(broker)
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker) == []

    def test_one_unknown_id_does_not_spoil_the_others(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((subscription("a.0", 99).id, wanted.id)))
        assert confirms(broker) == [Confirm((wanted.id,))]


class TestLinkDown:
    """LinkDown makes that neighbour's confirmations pending again, and the exchange at LinkUp renews them."""

    def test_a_neighbours_confirmation_is_pending_again(self) -> None:
        broker = make(tree=STAR)
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        broker.link_down(at("c.0"), 1.0)
        feed(broker, "d.0", Confirm((wanted.id,)), now_ms=1.0)
        assert confirms(broker) == []
        silence(broker)
        broker.link_up(at("c.0"), 2.0)
        [digest] = taken(broker, "c.0")
        assert digest == SubscriptionDigest((wanted.id,), (wanted.id,), complete=True)
        feed(broker, "c.0", Confirm((wanted.id,)), now_ms=3.0)
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_an_acknowledged_bit_is_pending_again(self) -> None:
        broker = make()
        offered, wanted = advertisement("b.1"), subscription("a.0")
        feed(broker, "b.1", offered)
        silence(broker)
        feed(broker, "a.0", wanted)
        feed(broker, "b.1", acknowledge(offered, version_sent(broker, "b.1")))
        broker.link_down(at("b.1"), 1.0)
        feed(broker, "c.0", Confirm((wanted.id,)), now_ms=1.0)
        assert confirms(broker) == []
        broker.link_up(at("b.1"), 2.0)
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((offered.id,)), now_ms=2.0)
        renewed = version_sent(broker, "b.1")
        feed(broker, "b.1", acknowledge(offered, renewed), now_ms=3.0)
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_a_subscription_made_while_the_link_is_down_waits_for_it(self) -> None:
        broker = make()
        offered, wanted = advertisement("b.1"), subscription("a.0")
        feed(broker, "b.1", offered)
        silence(broker)
        for neighbour in ("b.1", "c.0"):
            broker.link_down(at(neighbour), 1.0)
        feed(broker, "a.0", wanted, now_ms=1.0)
        assert taken(broker, "b.1") == taken(broker, "c.0") == []
        broker.link_up(at("b.1"), 2.0)
        broker.link_up(at("c.0"), 2.0)
        assert taken(broker, "c.0") == [SubscriptionDigest((wanted.id,), (wanted.id,), complete=True)]
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((offered.id,)), now_ms=2.0)
        [state] = taken(broker, "b.1")
        assert isinstance(state, CivState)
        assert state.wanted == (offered.id,)
        feed(broker, "b.1", acknowledge(offered, state.version), now_ms=3.0)
        assert confirms(broker) == []
        feed(broker, "c.0", Confirm((wanted.id,)), now_ms=3.0)
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_the_hop_it_came_from_is_never_waited_for(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        broker.link_down(at("a.0"), 1.0)
        feed(broker, "c.0", Confirm((wanted.id,)), now_ms=1.0)
        assert wanted.id not in broker.state.confirming

    def test_a_confirmation_lost_with_the_link_is_repeated(self) -> None:
        broker = make("c.0")
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        broker.link_down(at("b.0"), 1.0)
        broker.link_up(at("b.0"), 2.0)
        assert confirms(broker, "b.0") == [], "it went with the control lane"
        feed(broker, "b.0", SubscriptionDigest((wanted.id,), (wanted.id,), complete=True), now_ms=2.0)
        assert confirms(broker, "b.0") == [Confirm((wanted.id,))]

    def test_what_is_not_asked_for_is_not_repeated(self) -> None:
        broker = make("c.0")
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted)
        silence(broker)
        feed(broker, "b.0", SubscriptionDigest((wanted.id,), (), complete=True))
        assert confirms(broker, "b.0") == []

    def test_what_is_asked_for_but_still_waits_is_confirmed_in_its_time(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "a.0", SubscriptionDigest((wanted.id,), (wanted.id,), complete=True))
        assert confirms(broker) == []
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert confirms(broker) == [Confirm((wanted.id,))]

    def test_an_advertisement_waits_for_the_secondary_again(self) -> None:
        broker = make()
        join(broker, "P", offer(4))
        named = hosted(broker, handle=4).id
        feed(broker, "b.1", CivNone((named,), v(1)))
        broker.link_down(at("b.1"), 1.0)
        feed(broker, "b.2", CivNone((named,), v(1)), now_ms=1.0)
        assert taken(broker, "P") == []
        broker.link_up(at("b.1"), 2.0)
        feed(broker, "b.1", CivState((), (named,), v(2)), now_ms=3.0)
        assert taken(broker, "P") == [Confirmed(MessageKind.ADVERTISEMENT, 4)]

    def test_a_whole_overlay_confirms_after_cut_and_heal(self) -> None:
        overlay = Overlay()
        overlay.ask("P", "c.1", offer())
        overlay.settle()
        overlay.cut("b.0", "c.0")
        overlay.cut("c.0", "c.1")
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        assert overlay.received("S", "a.0") == []
        overlay.heal("b.0", "c.0")
        overlay.settle()
        assert overlay.received("S", "a.0") == [], "the bit of cluster 0 is not set yet"
        overlay.heal("c.0", "c.1")
        overlay.settle()
        assert overlay.received("S", "a.0") == [Confirmed(MessageKind.SUBSCRIPTION, 1)]


class TestTimeouts:
    def test_the_error_names_the_brokers_still_missing(self) -> None:
        broker = make()
        offered, other = advertisement("b.1"), advertisement("b.2")
        feed(broker, "b.1", offered)
        feed(broker, "b.2", other)
        silence(broker)
        join(broker, "S", want(7, timeout_ms=100.0), now_ms=5.0)
        [wanted] = [each for each in taken(broker, "a.0") if isinstance(each, Subscribe)]
        feed(broker, "a.0", Confirm((wanted.id,)), now_ms=6.0)
        feed(broker, "b.2", acknowledge(other, version_sent(broker, "b.2")), now_ms=6.0)
        assert broker.next_deadline_ms == 105.0
        broker.wake(104.9)
        assert taken(broker, "S") == []
        broker.wake(105.0)
        assert taken(broker, "S") == [Unconfirmed(MessageKind.SUBSCRIPTION, 7, (at("b.1"), at("c.0")))]
        assert broker.next_deadline_ms is None

    def test_an_advertisement_names_the_secondaries_that_have_not_answered(self) -> None:
        broker = make()
        join(broker, "P", offer(4, timeout_ms=100.0))
        feed(broker, "b.1", CivNone((hosted(broker, handle=4).id,), v(1)))
        broker.wake(100.0)
        assert taken(broker, "P") == [Unconfirmed(MessageKind.ADVERTISEMENT, 4, (at("b.2"),))]

    def test_the_subscription_stays_in_force(self) -> None:
        broker = make()
        join(broker, "S", want(7, timeout_ms=100.0))
        broker.wake(100.0)
        silence(broker)
        feed(broker, "a.0", publication(1), now_ms=101.0)
        [delivered] = taken(broker, "S")
        assert isinstance(delivered, Deliver)
        assert delivered.handles == (7,)

    def test_the_advertisement_stays_in_force(self) -> None:
        broker = make()
        join(broker, "P", offer(4, timeout_ms=100.0))
        broker.wake(100.0)
        silence(broker)
        feed(broker, "P", say(0), now_ms=101.0)
        assert not any(isinstance(each, Refused) for each in taken(broker, "P"))
        assert [type(each) for each in taken(broker, "b.1")] == [Publish]

    def test_who_was_told_of_the_timeout_is_not_told_of_a_late_confirmation(self) -> None:
        broker = make("c.0")
        join(broker, "S", want(7, timeout_ms=100.0))
        [wanted] = taken(broker, "b.0")
        assert isinstance(wanted, Subscribe)
        broker.wake(100.0)
        silence(broker)
        feed(broker, "b.0", Confirm((wanted.id,)), now_ms=101.0)
        assert taken(broker, "S") == []

    def test_a_late_confirmation_ends_the_wait(self) -> None:
        broker = make("c.0")
        join(broker, "S", want(7, timeout_ms=100.0))
        [wanted] = taken(broker, "b.0")
        assert isinstance(wanted, Subscribe)
        broker.wake(100.0)
        feed(broker, "b.0", Confirm((wanted.id,)), now_ms=101.0)
        assert wanted.id not in broker.state.confirming

    def test_a_confirmation_in_time_ends_the_deadline(self) -> None:
        broker = make("c.0")
        join(broker, "S", want(7, timeout_ms=100.0))
        [wanted] = taken(broker, "b.0")
        assert isinstance(wanted, Subscribe)
        feed(broker, "b.0", Confirm((wanted.id,)), now_ms=99.0)
        assert broker.next_deadline_ms is None
        broker.wake(100.0)
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 7)]

    def test_zero_is_for_ever(self) -> None:
        broker = make()
        join(broker, "S", want(7), offer(8))
        assert broker.next_deadline_ms is None
        broker.wake(1e9)
        assert taken(broker, "S") == []

    def test_the_earliest_deadline_counts(self) -> None:
        broker = make()
        join(broker, "S", want(1, timeout_ms=300.0), want(2, timeout_ms=100.0), offer(3, timeout_ms=200.0))
        seen = []
        for _ in range(3):
            deadline_ms = broker.next_deadline_ms
            assert deadline_ms is not None
            broker.wake(deadline_ms)
            seen += [(deadline_ms, each.number) for each in taken(broker, "S") if isinstance(each, Unconfirmed)]
        assert seen == [(100.0, 2), (200.0, 3), (300.0, 1)]


class TestPendingBits:
    """With confirmations a secondary that has not answered, or whose link was lost since, counts as 1 (D4)."""

    @staticmethod
    def targets(broker: OctopiaBroker) -> list[str]:
        """Publish once, and return the secondary neighbours that got a copy."""
        silence(broker)
        feed(broker, "P", say(0))
        return [each for each in ("b.1", "b.2") if any(isinstance(one, Publish) for one in taken(broker, each))]

    @pytest.fixture
    def broker(self) -> OctopiaBroker:
        broker = make(algorithm="static")
        join(broker, "P", offer())
        return broker

    def test_until_they_answer_all_count_as_interested(self, broker: OctopiaBroker) -> None:
        assert str(hosted(broker).civ) == "001"
        assert str(hosted(broker).routing_civ) == "111"
        assert self.targets(broker) == ["b.1", "b.2"]

    def test_an_answer_says_how_it_is(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        feed(broker, "b.1", CivNone((named,), v(1)))
        assert self.targets(broker) == ["b.2"]
        feed(broker, "b.2", CivSet((named,), v(1)))
        assert self.targets(broker) == ["b.2"]
        feed(broker, "b.2", CivUnset((named,), v(2)))
        assert self.targets(broker) == []

    def test_a_lost_link_makes_it_count_as_interested_again(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        for secondary in ("b.1", "b.2"):
            feed(broker, secondary, CivNone((named,), v(1)))
        assert self.targets(broker) == []
        broker.link_down(at("b.1"), 1.0)
        assert str(hosted(broker).routing_civ) == "011"
        broker.link_up(at("b.1"), 2.0)
        assert self.targets(broker) == ["b.1"], "being up again is not an answer"

    def test_a_lost_alink_makes_no_bit_pending(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        for secondary in ("b.1", "b.2"):
            feed(broker, secondary, CivNone((named,), v(1)))
        broker.link_down(at("a.0"), 1.0)
        assert str(hosted(broker).routing_civ) == "001"

    def test_an_equal_version_only_ends_the_pending_state(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        feed(broker, "b.1", CivNone((named,), v(4)))
        broker.link_down(at("b.1"), 1.0)
        broker.link_up(at("b.1"), 2.0)
        silence(broker)
        # The same version never carries another value; if it did, the stored bit would stay.
        feed(broker, "b.1", CivSet((named,), v(4)), now_ms=3.0)
        assert taken(broker, "b.1") == [CivAck(((named, v(4)),))]
        assert list(hosted(broker).pending) == [at("b.2")]
        assert str(hosted(broker).routing_civ) == "101"

    def test_an_older_version_changes_nothing(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        feed(broker, "b.1", CivSet((named,), v(4)))
        broker.link_down(at("b.1"), 1.0)
        broker.link_up(at("b.1"), 2.0)
        silence(broker)
        feed(broker, "b.1", CivUnset((named,), v(3)), now_ms=3.0)
        assert taken(broker, "b.1") == [CivAck(((named, v(4)),))], "acknowledged with the version now stored"
        assert at("b.1") in hosted(broker).pending
        assert 1 in hosted(broker).civ

    def test_versions_that_overtook_each_other(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        feed(broker, "b.1", CivUnset((named,), v(3)), CivSet((named,), v(2)))
        assert 1 not in hosted(broker).civ
        assert hosted(broker).versions[at("b.1")] == v(3)

    def test_a_new_incarnation_is_later_than_all_of_an_old_one(self, broker: OctopiaBroker) -> None:
        named = hosted(broker).id
        feed(broker, "b.1", CivNone((named,), v(99)), CivSet((named,), v(1, incarnation=2)))
        assert 1 in hosted(broker).civ
        feed(broker, "b.1", CivUnset((named,), v(100)))
        assert 1 in hosted(broker).civ

    def test_versions_are_kept_per_advertisement_and_secondary(self, broker: OctopiaBroker) -> None:
        feed(broker, "P", offer(1))
        one, two = hosted(broker, handle=0).id, hosted(broker, handle=1).id
        feed(broker, "b.1", CivSet((one,), v(9)), CivSet((two,), v(8)))
        feed(broker, "b.2", CivSet((one,), v(1)))
        assert str(hosted(broker, handle=0).civ) == "111"
        assert str(hosted(broker, handle=1).civ) == "011"

    def test_each_update_of_a_secondary_is_later_than_the_one_before(self) -> None:
        broker = make()
        feed(broker, "b.1", advertisement("b.1", 0), advertisement("b.1", 1))
        feed(broker, "a.0", subscription("a.0"), Unsubscribe(subscription("a.0").id), subscription("a.0", 1))
        feed(broker, "b.1", AdvertisementDigest((AdvertisementId(at("b.1"), 1, 0),)))
        sent = taken(broker, "b.1")
        versions = [each.version for each in sent if isinstance(each, CivSet | CivUnset | CivNone | CivState)]
        assert [type(each) for each in sent] == [CivNone, CivNone, CivSet, CivUnset, CivSet, CivState]
        assert versions == sorted(set(versions))


class TestConfirmationsOff:
    def test_none_of_these_messages_exist(self) -> None:
        overlay = Overlay(confirmations=False)
        overlay.ask("P", "b.1", offer(0), offer(1, "y > 0"))
        overlay.ask("S", "a.0", want(2, timeout_ms=10.0))
        overlay.ask("T", "c.2", want(3))
        overlay.settle()
        overlay.ask("S", "a.0", UnsubscribeRequest(2))
        overlay.ask("P", "b.1", UnadvertiseRequest(1))
        overlay.settle()
        assert not [each for _, _, each in overlay.log if isinstance(each, CivNone | CivAck | Confirm)]
        assert any(isinstance(each, CivSet) for _, _, each in overlay.log)
        assert [overlay.received("P", "b.1"), overlay.received("S", "a.0"), overlay.received("T", "c.2")] == [[]] * 3

    def test_nothing_is_waited_for(self) -> None:
        broker = make(confirmations=False)
        join(broker, "S", want(7, timeout_ms=10.0), offer(8, timeout_ms=10.0))
        assert broker.next_deadline_ms is None
        assert not broker.state.confirming
        assert not broker.state.requests

    def test_bits_start_at_zero(self) -> None:
        broker = make(confirmations=False)
        join(broker, "P", offer())
        assert str(hosted(broker).routing_civ) == "001"

    def test_a_lost_link_makes_nothing_pending(self) -> None:
        broker = make(confirmations=False)
        join(broker, "P", offer())
        broker.link_down(at("b.1"), 1.0)
        broker.check()
        assert str(hosted(broker).routing_civ) == "001"

    def test_nothing_is_confirmed_again_in_an_exchange(self) -> None:
        broker = make("c.0", confirmations=False)
        wanted = subscription("a.0")
        feed(broker, "b.0", wanted, SubscriptionDigest((wanted.id,), (wanted.id,), complete=True))
        assert taken(broker, "b.0") == []


@pytest.mark.parametrize("seed", range(20))
def test_once_confirmed_everything_is_in_force_whatever_the_order(seed: int) -> None:
    """Links move in a random order, and some break and heal: no confirmation comes too early, and all come at last."""
    chance = random.Random(seed)
    overlay = Overlay("a-b, b-c, b-d", 3)
    breakable = [("a.0", "b.0"), ("b.0", "c.0"), ("b.0", "b.1"), ("c.0", "c.2"), ("d.0", "d.1")]
    broken: list[tuple[str, str]] = []
    asked = {"S": ("a.0", want(1)), "T": ("c.0", want(2, "x < 3")), "U": ("d.0", want(3, "x = 4 OR y > 1"))}
    for client, (broker, _) in asked.items():
        overlay.ask(client, broker)
    for number, publisher in enumerate(("b.1", "c.2", "d.1")):
        overlay.ask(f"P{number}", publisher, offer(number))
    told: dict[str, None] = {}
    waiting = list(asked)
    for _ in range(600):
        if waiting and chance.random() < 0.05:
            client = waiting.pop()
            overlay.ask(client, *asked[client])
        if chance.random() < 0.03:
            link = chance.choice(breakable)
            if link in broken:
                broken.remove(link)
                overlay.heal(*link)
            elif len(told) < 2:
                broken.append(link)
                overlay.cut(*link)
        overlay.step(*chance.choice(overlay.open_links))
        told |= _newly_told(overlay, asked)
    for client in waiting:
        overlay.ask(client, *asked[client])
    for link in broken:
        overlay.heal(*link)
    overlay.settle()
    assert sorted(told | _newly_told(overlay, asked)) == sorted(asked)


def _newly_told(overlay: Overlay, asked: dict[str, tuple[str, object]]) -> dict[str, None]:
    """Return the newly confirmed clients, and check that their requests are in force wherever they must be."""
    told: dict[str, None] = {}
    for client, (home, _) in asked.items():
        if any(isinstance(each, Confirmed) for each in overlay.received(client, home)):
            told[client] = None
            [wanted] = overlay[home].state.clients[ClientId(client)].subscriptions.values()
            assert all(wanted in overlay[f"{region}.0"].state.prt for region in "abcd")
            for number, publisher in enumerate(("b.1", "c.2", "d.1")):
                assert 0 in hosted(overlay[publisher], f"P{number}", number).routing_civ
    return told


def test_the_bit_of_a_confirmed_subscription_is_known_to_the_host_after_any_cut() -> None:
    overlay = Overlay()
    overlay.ask("P", "b.1", offer())
    overlay.settle()
    overlay.ask("S", "a.0", want())
    overlay.settle()
    held = entry(overlay["b.0"], Advertise(hosted(overlay["b.1"]).id, hosted(overlay["b.1"]).offer))
    assert held.acked == held.sent is not None
    assert not held.awaits_ack
    overlay.cut("b.0", "b.1")
    assert held.awaits_ack
    overlay.heal("b.0", "b.1")
    overlay.settle()
    assert not held.awaits_ack
    assert 0 in hosted(overlay["b.1"]).civ
