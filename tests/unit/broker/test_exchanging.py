"""The exchange of state at link up, and the rules of a recovering broker, one by one."""

from __future__ import annotations

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
from octopia.ids import ClientId
from octopia.protocol import Cause, MessageKind
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    Confirm,
    Confirmed,
    Deliver,
    Fetch,
    Gap,
    GapNotice,
    Message,
    Publish,
    Subscribe,
    SubscriptionDigest,
    Unadvertise,
    UnadvertiseRequest,
    Unconfirmed,
    Unsubscribe,
    UnsubscribeRequest,
)

STAR = "a-b, b-c, b-d"
GRACE_MS = 5000.0


def of(messages: list[Message], *kinds: type) -> list[Message]:
    """Return the messages of the given kinds."""
    return [each for each in messages if isinstance(each, kinds)]


def complete(*subscriptions: Subscribe) -> SubscriptionDigest:
    """Return a complete digest."""
    return SubscriptionDigest(tuple(each.id for each in subscriptions), (), complete=True)


def incomplete(*subscriptions: Subscribe) -> SubscriptionDigest:
    """Return a digest that does not claim to name everything."""
    return SubscriptionDigest(tuple(each.id for each in subscriptions), (), complete=False)


def restarted(name: str = "b.0", **settings: object) -> OctopiaBroker:
    """Return a broker without state, whose links have all come up and whose greetings are gone."""
    broker = make(name, incarnation=2, restarted_at_ms=0.0, **settings)  # type: ignore[arg-type]
    for neighbour in broker.state.neighbourhood.neighbours:
        broker.link_up(neighbour, 0.0)
    silence(broker)
    return broker


class TestGreetings:
    def test_an_alink_opens_with_the_subscriptions_that_the_other_should_know(self) -> None:
        broker = make()
        mine, theirs = subscription("c.0"), subscription("a.0")
        feed(broker, "c.0", mine)
        feed(broker, "a.0", theirs)
        join(broker, "S", want())
        [local] = broker.state.clients[ClientId("S")].subscriptions.values()
        broker.link_down(at("a.0"), 1.0)
        broker.link_up(at("a.0"), 2.0)
        [digest] = taken(broker, "a.0")
        assert isinstance(digest, SubscriptionDigest)
        assert digest.subscriptions == tuple(sorted([mine.id, local]))
        assert digest.complete

    def test_an_ilink_opens_with_the_advertisements_hosted_here(self) -> None:
        broker = make()
        feed(broker, "b.2", advertisement("b.2"))
        join(broker, "P", offer(0), offer(1))
        silence(broker)
        broker.link_down(at("b.1"), 1.0)
        broker.link_up(at("b.1"), 2.0)
        named = (hosted(broker, handle=0).id, hosted(broker, handle=1).id)
        assert taken(broker, "b.1") == [AdvertisementDigest(named)]

    def test_both_sides_speak(self) -> None:
        overlay = Overlay()
        for one, other in (("a.0", "b.0"), ("b.0", "b.1")):
            overlay.cut(one, other)
            overlay.heal(one, other)
        overlay.settle()
        assert len(overlay.said("a.0", "b.0", SubscriptionDigest)) == 1
        assert len(overlay.said("b.0", "a.0", SubscriptionDigest)) == 1
        assert len(overlay.said("b.0", "b.1", AdvertisementDigest)) == 1
        assert len(overlay.said("b.1", "b.0", AdvertisementDigest)) == 1

    def test_where_nothing_differs_nothing_is_sent_but_digests(self) -> None:
        overlay = Overlay()
        overlay.ask("S", "a.0", want())
        overlay.settle()
        overlay.log.clear()
        overlay.cut("b.0", "c.0")
        overlay.heal("b.0", "c.0")
        overlay.settle()
        assert [type(each) for _, _, each in overlay.log] == [SubscriptionDigest, SubscriptionDigest]


class TestSubscriptionDigests:
    def test_what_is_missing_is_fetched_and_spread(self) -> None:
        broker = make()
        known, unknown = subscription("a.0", 0), subscription("a.0", 1)
        feed(broker, "a.0", known)
        silence(broker)
        feed(broker, "a.0", complete(known, unknown))
        assert taken(broker, "a.0") == [Fetch(subscriptions=(unknown.id,))]
        feed(broker, "a.0", unknown)
        assert taken(broker, "c.0") == [unknown]
        assert unknown.id in broker.state.prt

    def test_what_is_fetched_is_sent(self) -> None:
        broker = make()
        wanted = subscription("c.0")
        feed(broker, "c.0", wanted)
        silence(broker)
        feed(broker, "a.0", Fetch(subscriptions=(wanted.id, subscription("c.0", 77).id)))
        assert taken(broker, "a.0") == [wanted]

    def test_what_came_from_the_one_who_fetches_is_not_sent_back(self) -> None:
        broker = make()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        silence(broker)
        feed(broker, "a.0", Fetch(subscriptions=(wanted.id,)))
        assert taken(broker, "a.0") == []

    def test_what_a_complete_digest_does_not_name_is_removed_and_spread(self) -> None:
        broker = make()
        gone, stays = subscription("a.0", 0), subscription("a.0", 1)
        feed(broker, "a.0", gone, stays)
        silence(broker)
        feed(broker, "a.0", complete(stays))
        assert gone.id not in broker.state.prt
        assert stays.id in broker.state.prt
        assert taken(broker, "c.0") == [Unsubscribe(gone.id)]
        assert of(taken(broker, "a.0"), Unsubscribe) == []

    def test_its_bits_are_cleared(self) -> None:
        broker = make()
        gone, offered = subscription("a.0"), advertisement("b.1")
        feed(broker, "a.0", gone)
        feed(broker, "b.1", offered)
        silence(broker)
        feed(broker, "a.0", complete())
        [update] = taken(broker, "b.1")
        assert isinstance(update, CivUnset)
        assert update.advertisements == (offered.id,)

    def test_an_incomplete_digest_removes_nothing(self) -> None:
        broker = make()
        known, unknown = subscription("a.0", 0), subscription("a.0", 1)
        feed(broker, "a.0", known)
        silence(broker)
        feed(broker, "a.0", incomplete(unknown))
        assert known.id in broker.state.prt
        assert taken(broker, "c.0") == []
        assert taken(broker, "a.0") == [Fetch(subscriptions=(unknown.id,))], "but what it names is fetched"

    def test_what_came_from_elsewhere_is_not_removed(self) -> None:
        broker = make()
        theirs = subscription("c.0")
        feed(broker, "c.0", theirs)
        join(broker, "S", want())
        silence(broker)
        feed(broker, "a.0", complete())
        assert len(broker.state.prt) == 2
        assert taken(broker, "c.0") == []

    def test_what_was_withdrawn_while_the_link_was_down_goes_after_heal(self) -> None:
        overlay = Overlay("a-b, b-c, c-d", 2)
        overlay.ask("P", "d.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        assert 0 in hosted(overlay["d.1"]).civ
        overlay.cut("b.0", "c.0")
        overlay.ask("S", "a.0", UnsubscribeRequest(1))
        overlay.settle()
        assert len(overlay["d.0"].state.prt) == 1
        overlay.heal("b.0", "c.0")
        overlay.settle()
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0", "d.0")] == [0, 0, 0, 0]
        assert 0 not in hosted(overlay["d.1"]).routing_civ

    def test_withdrawn_after_the_digest_and_before_the_fetch(self) -> None:
        overlay = Overlay("a-b", 1)
        overlay.cut("a.0", "b.0")
        overlay.ask("S", "a.0", want(1))
        overlay.heal("a.0", "b.0")
        overlay.step("a.0", "b.0")
        overlay.ask("S", "a.0", UnsubscribeRequest(1))
        overlay.settle()
        assert len(overlay["a.0"].state.prt) == len(overlay["b.0"].state.prt) == 0
        assert not overlay["b.0"].state.confirming

    def test_withdrawn_after_it_was_sent_again(self) -> None:
        overlay = Overlay("a-b", 1)
        overlay.cut("a.0", "b.0")
        overlay.ask("S", "a.0", want(1))
        overlay.heal("a.0", "b.0")
        for link in (("a.0", "b.0"), ("b.0", "a.0"), ("b.0", "a.0")):
            overlay.step(*link)
        overlay.ask("S", "a.0", UnsubscribeRequest(1))
        overlay.settle()
        assert any(isinstance(each, Subscribe) for each in overlay.said("a.0", "b.0"))
        assert len(overlay["b.0"].state.prt) == 0


class TestAdvertisementDigests:
    def test_what_is_missing_is_fetched_and_answered(self) -> None:
        broker = make()
        offered = advertisement("b.1")
        feed(broker, "b.1", AdvertisementDigest((offered.id,)))
        assert taken(broker, "b.1") == [Fetch(advertisements=(offered.id,))]
        feed(broker, "b.1", offered)
        assert of(taken(broker, "b.1"), CivNone)

    def test_what_is_fetched_is_sent(self) -> None:
        broker = make()
        join(broker, "P", offer())
        foreign = advertisement("b.2")
        feed(broker, "b.2", foreign)
        silence(broker)
        named = hosted(broker)
        feed(broker, "b.1", Fetch(advertisements=(named.id, foreign.id, advertisement("b.0", 77).id)))
        assert taken(broker, "b.1") == [Advertise(named.id, named.offer)], "only what is hosted here"

    def test_what_it_does_not_name_is_removed(self) -> None:
        broker = make()
        gone, stays, other = advertisement("b.1", 0), advertisement("b.1", 1), advertisement("b.2")
        feed(broker, "b.1", gone, stays)
        feed(broker, "b.2", other)
        feed(broker, "b.1", AdvertisementDigest((stays.id,)))
        assert [each.id for each in broker.state.clt] == [stays.id, other.id]

    def test_they_are_complete_even_from_a_broker_that_lost_its_memory(self) -> None:
        overlay = Overlay("a-b, b-c", 2)
        overlay.ask("P", "b.1", offer())
        overlay.settle()
        overlay.cut("b.1", "c.1")
        overlay.crash("b.1")
        overlay.restart("b.1")
        overlay.settle()
        assert not overlay["b.1"].state.prt_is_complete
        assert len(overlay["b.0"].state.clt) == 0

    def test_the_answer_tells_our_bit_of_every_entry(self) -> None:
        broker = make()
        wanted, unwanted = advertisement("b.1", 0), advertisement("b.1", 1, "y > 0")
        feed(broker, "b.1", wanted, unwanted)
        feed(broker, "a.0", subscription("a.0"))
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((wanted.id, unwanted.id)))
        [state] = taken(broker, "b.1")
        assert isinstance(state, CivState)
        assert (state.wanted, state.unwanted) == ((wanted.id,), (unwanted.id,))
        assert entry(broker, wanted).sent == entry(broker, unwanted).sent == state.version

    def test_the_host_takes_the_answer(self) -> None:
        broker = make()
        join(broker, "P", offer(0), offer(1))
        one, two = hosted(broker, handle=0), hosted(broker, handle=1)
        feed(broker, "b.1", CivSet((one.id, two.id), v(1)))
        feed(broker, "b.1", CivState((two.id,), (one.id,), v(2)))
        assert (1 in one.civ, 1 in two.civ) == (False, True)

    def test_bits_that_changed_while_the_link_was_down_are_right_after_heal(self) -> None:
        overlay = Overlay()
        overlay.ask("P", "b.1", offer(0), offer(1, "y > 0"))
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        overlay.cut("b.0", "b.1")
        overlay.ask("S", "a.0", UnsubscribeRequest(1), want(2, "y > 3"))
        overlay.ask("P", "b.1", offer(3, "y >= 0 AND z > 0"))
        overlay.settle()
        overlay.heal("b.0", "b.1")
        overlay.settle()
        civs = [str(hosted(overlay["b.1"], handle=each).routing_civ) for each in (0, 1, 3)]
        assert civs == ["010", "011", "011"]

    def test_advertisements_withdrawn_while_the_link_was_down_go_after_heal(self) -> None:
        overlay = Overlay()
        overlay.ask("P", "b.1", offer(0), offer(1))
        overlay.settle()
        overlay.cut("b.0", "b.1")
        overlay.ask("P", "b.1", UnadvertiseRequest(0))
        overlay.heal("b.0", "b.1")
        overlay.settle()
        assert [each.id for each in overlay["b.0"].state.clt] == [hosted(overlay["b.1"], handle=1).id]

    def test_withdrawn_between_digest_and_fetch(self) -> None:
        overlay = Overlay("a", 2)
        overlay.cut("a.0", "a.1")
        overlay.ask("P", "a.0", offer(0))
        overlay.heal("a.0", "a.1")
        overlay.step("a.0", "a.1")
        overlay.ask("P", "a.0", UnadvertiseRequest(0))
        overlay.settle()
        assert len(overlay["a.1"].state.clt) == 0


class TestRecoveringBrokerTakesControlOnly:
    def test_it_is_not_ready_for_publications(self) -> None:
        broker = restarted()
        assert not broker.accepts_data
        assert make().accepts_data

    def test_it_stores_and_spreads_subscriptions(self) -> None:
        broker = restarted()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        assert wanted.id in broker.state.prt
        assert taken(broker, "c.0") == [wanted]

    def test_it_takes_requests_of_its_clients(self) -> None:
        broker = restarted()
        join(broker, "S", want(), offer(1))
        assert len(broker.state.prt) == len(broker.state.clt) == 1

    def test_publications_of_clients_wait_until_it_is_ready(self) -> None:
        broker = restarted()
        join(broker, "P", offer(), want(1))
        silence(broker)
        effects = feed(broker, "P", say(0), say(1))
        assert effects.placed == []
        assert [len(of(taken(broker, each), Publish, Deliver)) for each in ("P", "b.1", "a.0")] == [0, 0, 0]
        feed(broker, "a.0", complete())
        effects = feed(broker, "c.0", complete())
        assert sum(each.frames for each in effects.placed) == 2
        assert len(of(taken(broker, "P"), Deliver)) == 2

    def test_publications_of_neighbours_wait_until_it_is_ready(self) -> None:
        broker = restarted()
        feed(broker, "c.0", subscription("c.0"))
        silence(broker)
        assert feed(broker, "a.0", publication(1)).placed == []
        assert taken(broker, "c.0") == []
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete(subscription("c.0")))
        assert [type(each) for each in taken(broker, "c.0")].count(Publish) == 1

    def test_with_nobody_to_ask_it_is_ready_at_once(self) -> None:
        broker = make("a.0", tree="a", clusters=1, incarnation=2, restarted_at_ms=0.0)
        assert broker.accepts_data
        assert broker.state.recovery is None
        assert broker.next_deadline_ms is None
        join(broker, "S", want(1))
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 1)]

    def test_in_a_single_region_it_is_ready_at_once_but_must_meet_the_others(self) -> None:
        broker = restarted("a.0", tree="a", clusters=3)
        assert broker.accepts_data
        join(broker, "S", want(1))
        assert taken(broker, "S") == []
        feed(broker, "a.1", AdvertisementDigest(()))
        assert taken(broker, "S") == []
        feed(broker, "a.2", AdvertisementDigest(()))
        assert taken(broker, "S") == [Confirmed(MessageKind.SUBSCRIPTION, 1)]
        assert broker.state.recovery is None

    def test_in_a_single_cluster_it_needs_primary_neighbours_only(self) -> None:
        broker = restarted(clusters=1)
        assert not broker.accepts_data
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete())
        assert broker.accepts_data
        assert broker.state.recovery is None


class TestRecoveringBrokerAndItsDigests:
    def test_its_first_digests_are_incomplete(self) -> None:
        broker = make(incarnation=2, restarted_at_ms=0.0)
        for neighbour in ("a.0", "c.0"):
            broker.link_up(at(neighbour), 0.0)
            [digest] = taken(broker, neighbour)
            assert digest == SubscriptionDigest((), (), complete=False)

    def test_complete_towards_one_when_every_other_has_sent_a_complete_one(self) -> None:
        broker = restarted(tree=STAR)
        feed(broker, "a.0", complete())
        assert [of(taken(broker, each), SubscriptionDigest) for each in ("a.0", "c.0", "d.0")] == [[], [], []]
        feed(broker, "c.0", complete())
        assert taken(broker, "d.0") == [complete()]
        assert [of(taken(broker, each), SubscriptionDigest) for each in ("a.0", "c.0")] == [[], []]
        feed(broker, "d.0", complete())
        assert taken(broker, "a.0") == taken(broker, "c.0") == [complete()]
        assert taken(broker, "d.0") == [], "once is enough"

    def test_it_names_what_it_has_learned_meanwhile(self) -> None:
        broker = restarted()
        wanted = subscription("a.0")
        feed(broker, "a.0", complete(wanted))
        assert of(taken(broker, "c.0"), SubscriptionDigest) == [], "what it was told of has not come yet"
        feed(broker, "a.0", wanted)
        digest = SubscriptionDigest((wanted.id,), (wanted.id,), complete=True)
        assert taken(broker, "c.0") == [wanted, digest], "the digest comes behind what it names"

    def test_what_was_withdrawn_instead_of_coming_is_not_waited_for(self) -> None:
        broker = restarted()
        wanted = subscription("a.0")
        feed(broker, "a.0", complete(wanted))
        feed(broker, "a.0", Unsubscribe(wanted.id))
        assert taken(broker, "c.0") == [complete()]

    def test_an_incomplete_digest_does_not_count(self) -> None:
        broker = restarted()
        feed(broker, "a.0", incomplete())
        assert of(taken(broker, "c.0"), SubscriptionDigest) == []
        assert not broker.accepts_data

    def test_its_prt_is_complete_when_all_have(self) -> None:
        broker = restarted()
        feed(broker, "a.0", complete())
        assert not broker.state.prt_is_complete
        feed(broker, "c.0", complete())
        assert broker.state.prt_is_complete
        assert broker.accepts_data

    def test_and_when_all_that_they_named_has_come(self) -> None:
        broker = restarted()
        wanted = subscription("c.0")
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete(wanted))
        assert not broker.accepts_data
        feed(broker, "c.0", wanted)
        assert broker.accepts_data

    def test_a_leaf_has_nothing_behind_it_and_is_complete_at_once(self) -> None:
        broker = make("c.0", incarnation=2, restarted_at_ms=0.0)
        broker.link_up(at("b.0"), 0.0)
        assert taken(broker, "b.0") == [complete()]
        assert not broker.accepts_data
        feed(broker, "b.0", complete())
        assert broker.accepts_data
        assert taken(broker, "b.0") == []

    def test_a_link_that_comes_up_late_is_greeted_with_what_holds_then(self) -> None:
        broker = make(incarnation=2, restarted_at_ms=0.0)
        broker.link_up(at("a.0"), 0.0)
        feed(broker, "a.0", complete())
        broker.link_up(at("c.0"), 1.0)
        assert taken(broker, "c.0", 1.0) == [complete()]

    def test_a_fetch_lost_with_its_link_is_made_again(self) -> None:
        broker = restarted()
        wanted = subscription("a.0")
        feed(broker, "a.0", complete(wanted))
        broker.link_down(at("a.0"), 1.0)
        broker.link_up(at("a.0"), 2.0)
        silence(broker)
        feed(broker, "a.0", complete(wanted), now_ms=2.0)
        assert taken(broker, "a.0") == [Fetch(subscriptions=(wanted.id,))]
        feed(broker, "a.0", wanted, now_ms=2.0)
        feed(broker, "c.0", complete(), now_ms=2.0)
        assert broker.accepts_data

    def test_its_neighbours_remove_its_old_subscriptions_and_nothing_else(self) -> None:
        overlay = Overlay("a-b, b-c", 2)
        for client, broker in {"S": "a.0", "T": "b.0", "U": "c.0"}.items():
            overlay.ask(client, broker, want(1))
        overlay.settle()
        [old] = overlay["b.0"].state.clients[ClientId("T")].subscriptions.values()
        overlay.log.clear()
        overlay.crash("b.0")
        overlay.restart("b.0")
        overlay.settle()
        assert [old in overlay[each].state.prt for each in ("a.0", "b.0", "c.0")] == [False] * 3
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0")] == [2, 2, 2]
        assert not [each for _, _, each in overlay.log if isinstance(each, Unsubscribe)]

    def test_two_neighbours_that_restart_together(self) -> None:
        overlay = Overlay("a-b, b-c, c-d", 2)
        overlay.ask("P", "b.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.ask("T", "d.0", want(1))
        overlay.settle()
        before = {each: [one.id for one in overlay[each].state.prt] for each in ("a.0", "b.0", "c.0", "d.0")}
        overlay.log.clear()
        overlay.crash("b.0")
        overlay.crash("c.0")
        overlay.restart_all("b.0", "c.0")
        overlay.settle()
        after = {each: [one.id for one in overlay[each].state.prt] for each in before}
        assert {key: sorted(value) for key, value in after.items()} == {
            key: sorted(value) for key, value in before.items()
        }
        assert not [each for _, _, each in overlay.log if isinstance(each, Unsubscribe | CivUnset | CivNone)]
        assert str(hosted(overlay["b.1"]).routing_civ) == "11"
        assert overlay["b.0"].state.recovery is overlay["c.0"].state.recovery is None

    def test_a_whole_cluster_that_restarts_together_forgets_what_its_clients_wanted(self) -> None:
        overlay = Overlay("a-b, b-c", 2)
        overlay.ask("P", "b.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        for broker in ("a.0", "b.0", "c.0"):
            overlay.crash(broker)
        overlay.restart_all("a.0", "b.0", "c.0")
        overlay.settle()
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0")] == [0, 0, 0]
        assert str(hosted(overlay["b.1"]).routing_civ) == "10"
        assert all(broker.state.recovery is None for broker in overlay.brokers.values())


class TestRecoveringBrokerAndBits:
    def test_it_answers_every_advertisement_with_1(self) -> None:
        broker = restarted()
        offered = advertisement("b.1")
        feed(broker, "b.1", AdvertisementDigest((offered.id,)), offered)
        answers = of(taken(broker, "b.1"), CivSet, CivNone, CivUnset, CivState)
        assert [type(each) for each in answers] == [CivSet]

    def test_it_says_so_in_a_whole_state_too(self) -> None:
        broker = restarted()
        offered = advertisement("b.1")
        feed(broker, "b.1", offered)
        silence(broker)
        feed(broker, "b.1", AdvertisementDigest((offered.id,)))
        [state] = taken(broker, "b.1")
        assert isinstance(state, CivState)
        assert (state.wanted, state.unwanted) == ((offered.id,), ())

    def test_a_withdrawn_subscription_unsets_nothing(self) -> None:
        broker = restarted()
        wanted, offered = subscription("a.0"), advertisement("b.1")
        feed(broker, "a.0", wanted)
        feed(broker, "b.1", offered)
        silence(broker)
        feed(broker, "a.0", Unsubscribe(wanted.id))
        assert taken(broker, "b.1") == []

    def test_it_unsets_later_what_nobody_wants(self) -> None:
        broker = restarted()
        wanted, unwanted = advertisement("b.1", 0), advertisement("b.1", 1, "y > 0")
        needed = subscription("c.0")
        feed(broker, "b.1", wanted, unwanted)
        silence(broker)
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete(needed), needed)
        [update] = taken(broker, "b.1")
        assert isinstance(update, CivUnset)
        assert update.advertisements == (unwanted.id,)

    def test_once_complete_it_may_say_0(self) -> None:
        broker = restarted()
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete())
        silence(broker)
        assert broker.state.recovery is not None, "the secondary neighbours have not been met"
        feed(broker, "b.1", advertisement("b.1"))
        assert of(taken(broker, "b.1"), CivNone)


class TestRecoveringBrokerAndConfirmations:
    def ready_but_unmet(self) -> OctopiaBroker:
        broker = restarted()
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete())
        silence(broker)
        return broker

    def test_it_confirms_nothing_until_it_has_met_every_secondary_neighbour(self) -> None:
        broker = self.ready_but_unmet()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        feed(broker, "b.1", AdvertisementDigest(()))
        assert of(taken(broker, "a.0"), Confirm) == []
        feed(broker, "b.2", AdvertisementDigest(()))
        assert of(taken(broker, "a.0"), Confirm) == [Confirm((wanted.id,))]

    def test_to_have_met_is_to_have_all_its_advertisements(self) -> None:
        broker = self.ready_but_unmet()
        wanted, offered = subscription("a.0"), advertisement("b.2")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        feed(broker, "b.1", AdvertisementDigest(()))
        feed(broker, "b.2", AdvertisementDigest((offered.id,)))
        assert of(taken(broker, "a.0"), Confirm) == []
        feed(broker, "b.2", Unadvertise(offered.id))
        assert of(taken(broker, "a.0"), Confirm) == [Confirm((wanted.id,))]

    @pytest.mark.parametrize("seed", range(10))
    def test_whoever_is_confirmed_is_counted_in_at_every_host(self, seed: int) -> None:
        """An advertisement learned after a subscription needs no wait: until answered, it counts as wanted."""
        chance = random.Random(seed)
        overlay = Overlay("a-b, b-c", 3)
        overlay.ask("P", "b.1", offer())
        overlay.ask("Q", "b.2", offer())
        overlay.settle()
        overlay.crash("b.0")
        overlay.ask("S", "a.0", want(1))
        overlay.restart("b.0")
        while not of(overlay.received("S", "a.0"), Confirmed):
            if overlay.step(*chance.choice(overlay.open_links)) is None and not _anything_waits(overlay):
                pytest.fail("it was never confirmed")
        assert 0 in hosted(overlay["b.1"], "P").routing_civ
        assert 0 in hosted(overlay["b.2"], "Q").routing_civ
        overlay.settle()
        assert str(hosted(overlay["b.1"], "P").routing_civ) == "011"

    def test_the_grace_period_ends_that(self) -> None:
        broker = self.ready_but_unmet()
        wanted = subscription("a.0")
        feed(broker, "a.0", wanted)
        feed(broker, "c.0", Confirm((wanted.id,)))
        assert broker.next_deadline_ms == GRACE_MS
        broker.wake(GRACE_MS - 1)
        assert of(taken(broker, "a.0"), Confirm) == []
        broker.wake(GRACE_MS)
        assert of(taken(broker, "a.0"), Confirm) == [Confirm((wanted.id,))]

    def test_a_timeout_names_the_secondary_neighbours_it_has_not_met(self) -> None:
        broker = self.ready_but_unmet()
        join(broker, "S", want(1, timeout_ms=100.0))
        feed(broker, "b.2", AdvertisementDigest(()))
        broker.wake(100.0)
        assert taken(broker, "S") == [Unconfirmed(MessageKind.SUBSCRIPTION, 1, (at("a.0"), at("b.1"), at("c.0")))]

    def test_a_timeout_names_a_secondary_neighbour_whose_advertisements_have_not_come(self) -> None:
        broker = self.ready_but_unmet()
        join(broker, "S", want(1, timeout_ms=100.0))
        [wanted] = [each for each in taken(broker, "a.0") if isinstance(each, Subscribe)]
        for neighbour in ("a.0", "c.0"):
            feed(broker, neighbour, Confirm((wanted.id,)))
        feed(broker, "b.1", AdvertisementDigest((advertisement("b.1").id,)))
        feed(broker, "b.2", AdvertisementDigest(()))
        broker.wake(100.0)
        assert taken(broker, "S") == [Unconfirmed(MessageKind.SUBSCRIPTION, 1, (at("b.1"),))]


class TestGrace:
    def after_grace(self) -> OctopiaBroker:
        """Let a neighbour, c.0, stay silent beyond the grace period."""
        broker = restarted()
        join(broker, "S", want())
        feed(broker, "a.0", complete())
        silence(broker)
        broker.wake(GRACE_MS)
        broker.check()
        return broker

    def test_it_admits_publications_and_counts_that(self) -> None:
        broker = self.after_grace()
        assert broker.accepts_data
        assert broker.counters.occasions[Cause.GRACE] == 1
        assert broker.next_deadline_ms is None
        broker.wake(2 * GRACE_MS)
        assert broker.counters.occasions[Cause.GRACE] == 1

    def test_it_tells_its_clients_of_the_gap(self) -> None:
        assert taken(self.after_grace(), "S") == [Gap(Cause.GRACE)]

    def test_it_is_not_over_before_its_time(self) -> None:
        broker = restarted()
        broker.wake(GRACE_MS - 0.1)
        assert not broker.accepts_data
        assert broker.counters.occasions[Cause.GRACE] == 0

    def test_its_length_is_a_setting(self) -> None:
        broker = restarted(grace_ms=70.0)
        assert broker.next_deadline_ms == 70.0
        broker.wake(70.0)
        assert broker.accepts_data

    def test_publications_that_waited_are_routed(self) -> None:
        broker = restarted()
        join(broker, "S", want())
        feed(broker, "a.0", publication(1))
        effects = broker.wake(GRACE_MS)
        assert [each.frames for each in effects.placed] == [1]
        assert [type(each) for each in taken(broker, "S")] == [Gap, Deliver]

    def test_it_makes_no_digest_complete(self) -> None:
        broker = self.after_grace()
        assert of(taken(broker, "a.0"), SubscriptionDigest) == []
        broker.link_down(at("a.0"), GRACE_MS + 1)
        broker.link_up(at("a.0"), GRACE_MS + 2)
        [digest] = taken(broker, "a.0")
        assert isinstance(digest, SubscriptionDigest)
        assert not digest.complete

    def test_it_permits_no_0(self) -> None:
        broker = self.after_grace()
        offered = advertisement("b.1", text="y > 0")
        feed(broker, "b.1", offered, now_ms=GRACE_MS + 1)
        assert [type(each) for each in taken(broker, "b.1")] == [CivSet]
        feed(broker, "b.1", AdvertisementDigest((offered.id,)), now_ms=GRACE_MS + 1)
        [state] = taken(broker, "b.1")
        assert isinstance(state, CivState)
        assert state.unwanted == ()

    def test_recovery_still_comes_to_its_end_afterwards(self) -> None:
        broker = self.after_grace()
        offered = advertisement("b.1", text="y > 0")
        feed(broker, "b.1", offered, now_ms=GRACE_MS + 1)
        assert taken(broker, "S") == [Gap(Cause.GRACE)]
        silence(broker)
        feed(broker, "c.0", complete(), now_ms=GRACE_MS + 2)
        assert broker.state.prt_is_complete
        assert of(taken(broker, "b.1"), CivUnset)
        assert [type(each) for each in taken(broker, "a.0")] == [SubscriptionDigest]
        assert of(taken(broker, "c.0"), GapNotice) == [GapNotice(Cause.GRACE, 0)], (
            "publications passed by its subscribers"
        )
        for secondary in ("b.1", "b.2"):
            named = (offered.id,) if secondary == "b.1" else ()
            feed(broker, secondary, AdvertisementDigest(named), now_ms=GRACE_MS + 3)
        assert broker.state.recovery is None
        assert of(taken(broker, "S"), Gap) == [], "that was told when it happened"

    def test_a_broker_that_knows_its_cluster_has_no_gap(self) -> None:
        broker = restarted()
        join(broker, "S", want())
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete())
        silence(broker)
        broker.wake(GRACE_MS)
        assert broker.counters.occasions[Cause.GRACE] == 0
        assert of(taken(broker, "S"), Gap) == []

    def test_who_recovered_in_time_has_no_deadline(self) -> None:
        broker = restarted(clusters=1)
        feed(broker, "a.0", complete())
        feed(broker, "c.0", complete())
        assert broker.next_deadline_ms is None

    def test_nobody_forgets_what_lies_behind_a_broker_whose_grace_has_passed(self) -> None:
        overlay = Overlay("a-b, b-c", 2)
        overlay.ask("P", "b.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.ask("T", "c.0", want(1, "x < 3"))
        overlay.settle()
        overlay.cut("b.0", "c.0")
        overlay.crash("b.0")
        overlay.restart("b.0")
        overlay.settle()
        overlay.now_ms = GRACE_MS
        overlay["b.0"].wake(GRACE_MS)
        overlay.settle()
        assert overlay["b.0"].accepts_data
        assert len(overlay["a.0"].state.prt) == 2, "a.0 still knows what lies behind b.0"
        assert 0 in hosted(overlay["b.1"]).routing_civ
        overlay.heal("b.0", "c.0")
        overlay.settle()
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0")] == [2, 2, 2]


class TestWithdrawalsDuringRecovery:
    def test_a_subscription_withdrawn_at_the_far_end_while_the_broker_was_down(self) -> None:
        overlay = Overlay("a-b, b-c", 2)
        overlay.ask("P", "b.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        overlay.crash("b.0")
        overlay.ask("S", "a.0", UnsubscribeRequest(1))
        overlay.restart("b.0")
        overlay.settle()
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0")] == [0, 0, 0]
        assert 0 not in hosted(overlay["b.1"]).routing_civ

    @pytest.mark.parametrize("steps", range(14))
    def test_a_subscription_withdrawn_after_any_number_of_steps(self, steps: int) -> None:
        overlay = Overlay("a-b, b-c", 2)
        overlay.ask("P", "b.1", offer())
        overlay.ask("S", "a.0", want(1))
        overlay.ask("T", "c.0", want(1, "x = 7"))
        overlay.settle()
        overlay.crash("b.0")
        overlay.restart("b.0")
        for _ in range(steps):
            for link in overlay.open_links:
                if overlay.step(*link) is not None:
                    break
        overlay.ask("S", "a.0", UnsubscribeRequest(1))
        overlay.ask("T", "c.0", want(2))
        overlay.settle()
        assert [len(overlay[each].state.prt) for each in ("a.0", "b.0", "c.0")] == [2, 2, 2]
        assert overlay["b.0"].state.recovery is None
        assert str(hosted(overlay["b.1"]).routing_civ) == "11"
        assert overlay.received("T", "c.0")[-1] == Confirmed(MessageKind.SUBSCRIPTION, 2)

    @pytest.mark.parametrize("steps", range(10))
    def test_an_advertisement_withdrawn_after_any_number_of_steps(self, steps: int) -> None:
        overlay = Overlay("a-b", 2)
        overlay.ask("P", "b.1", offer(0), offer(1, "y > 0"))
        overlay.ask("S", "a.0", want(1))
        overlay.settle()
        overlay.crash("b.0")
        overlay.restart("b.0")
        for _ in range(steps):
            for link in overlay.open_links:
                if overlay.step(*link) is not None:
                    break
        overlay.ask("P", "b.1", UnadvertiseRequest(0))
        overlay.settle()
        assert [each.id for each in overlay["b.0"].state.clt] == [hosted(overlay["b.1"], handle=1).id]
        assert str(hosted(overlay["b.1"], handle=1).routing_civ) == "10"
        assert overlay["b.0"].state.recovery is None


def _anything_waits(overlay: Overlay) -> bool:
    states = [broker.state for broker in overlay.brokers.values()]
    return any(state.for_clients or not all(queue.is_empty for queue in state.queues.values()) for state in states)


def test_with_confirmations_off_a_broker_recovers_all_the_same() -> None:
    overlay = Overlay("a-b, b-c", 2, confirmations=False)
    overlay.ask("P", "b.1", offer(0), offer(1, "y > 0"))
    overlay.ask("S", "a.0", want(1))
    overlay.settle()
    overlay.crash("b.0")
    overlay.restart("b.0")
    overlay.settle()
    assert overlay["b.0"].state.recovery is None
    assert len(overlay["b.0"].state.prt) == 1
    assert [str(hosted(overlay["b.1"], handle=each).civ) for each in (0, 1)] == ["11", "10"]
    assert {each.kind for _, _, each in overlay.log}.isdisjoint({MessageKind.CONFIRMATION})


def test_a_complete_digest_that_was_lost_with_its_link_is_sent_again() -> None:
    """The digest at link up is incomplete, since a subscription is on its way here: another must follow."""
    broker = make(incarnation=2, restarted_at_ms=0.0)
    for neighbour in ("a.0", "c.0", "b.1", "b.2"):
        broker.link_up(at(neighbour), 0.0)
    feed(broker, "c.0", SubscriptionDigest((), (), complete=True))
    broker.link_down(at("a.0"), 0.0)
    known = subscription("c.0")
    feed(broker, "c.0", SubscriptionDigest((known.id,), (), complete=True))
    broker.link_up(at("a.0"), 0.0)
    feed(broker, "c.0", known)
    digests = [each for each in taken(broker, "a.0") if isinstance(each, SubscriptionDigest)]
    assert [each.complete for each in digests] == [False, True]


def test_a_neighbour_that_crashes_before_it_sent_what_it_named_is_not_known() -> None:
    """Its next digest is incomplete, and names nothing: what is missing here still lies behind it."""
    broker = make(incarnation=2, restarted_at_ms=0.0, tree="a-b")
    for neighbour in ("a.0", "b.1", "b.2"):
        broker.link_up(at(neighbour), 0.0)
    known = subscription("a.0")
    feed(broker, "a.0", SubscriptionDigest((known.id,), (), complete=True))
    broker.link_down(at("a.0"), 0.0)
    broker.link_up(at("a.0"), 0.0)
    feed(broker, "a.0", SubscriptionDigest((), (), complete=False))
    assert not broker.state.prt_is_complete
    feed(broker, "a.0", SubscriptionDigest((known.id,), (), complete=True))
    assert not broker.state.prt_is_complete
    feed(broker, "a.0", known)
    assert broker.state.prt_is_complete


def test_a_secondary_is_met_when_all_parts_of_its_next_digest_have_arrived() -> None:
    broker = make(incarnation=2, restarted_at_ms=0.0, tree="b", clusters=2)
    broker.link_up(at("b.1"), 0.0)
    first, second = advertisement("b.1", 0), advertisement("b.1", 1)
    feed(broker, "b.1", AdvertisementDigest((first.id, second.id)), first)
    broker.link_down(at("b.1"), 0.0)
    broker.link_up(at("b.1"), 0.0)
    feed(broker, "b.1", AdvertisementDigest((first.id,), complete=False))
    assert not broker.state.knows_region
    feed(broker, "b.1", AdvertisementDigest((second.id,), complete=True, continues=True), second)
    assert broker.state.knows_region
