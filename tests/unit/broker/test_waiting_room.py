"""The waiting room of adaptive routing: when copies are routed again, and that refused ones do not relay for ever.

Both edges from region b to region c are down, and b.0 and b.1 have not been told so by each other. Each takes the other
for the way to c. A copy relays between them until it has crossed 2k iLinks, and then waits for a link.
"""

from __future__ import annotations

import pytest
from links_support import Overlay, at, feed, make, numbers, publication, say, silence, subscription, taken

from octopia.broker import OctopiaBroker, adapting
from octopia.broker.adaptive_routing import AdaptiveDecision, from_waiting_room, route_adaptively
from octopia.broker.waiting_room import Place
from octopia.content import parse_filter
from octopia.protocol import Cause, ClusterIndexVector
from octopia.protocol.duties import Lane
from octopia.protocol.messages import (
    AdvertiseRequest,
    Deliver,
    Detour,
    LinkStatuses,
    Message,
    Publish,
    SubscribeRequest,
)

CLUSTERS = 2
PUBLICATIONS = 8
MOST_STEPS = 1_000


class Untold(Overlay):
    """Brokers that never hear of the statuses of each other's links."""

    def step(self, source: str, target: str) -> Message | None:
        """Carry the next message, unless it tells statuses."""
        message = self[source].take(at(target), self.now_ms)
        if message is not None and not isinstance(message, LinkStatuses):
            self.log.append((source, target, message))
            assert len(self.log) < MOST_STEPS, "copies relay for ever"
            feed(self[target], source, message, now_ms=self.now_ms)
        return message


def crowded() -> Untold:
    """Return an overlay with lanes for one copy, in which publications of a.0 and a.1 cannot leave region b."""
    overlay = Untold("a-b, b-c", CLUSTERS, algorithm="adaptive", queue_capacity=1)
    for cluster in range(CLUSTERS):
        overlay.ask(f"S{cluster}", f"c.{cluster}", SubscribeRequest(0, parse_filter("x > 0")))
        overlay.ask(f"P{cluster}", f"a.{cluster}", AdvertiseRequest(0, parse_filter("x > 0")))
    overlay.settle()
    for cluster in range(CLUSTERS):
        overlay.cut(f"b.{cluster}", f"c.{cluster}")
    for number in range(PUBLICATIONS):
        overlay.ask(f"P{number % CLUSTERS}", f"a.{number % CLUSTERS}", say(number, x=1))
    return overlay


def relays(overlay: Overlay) -> list[int]:
    """Return how many iLinks each copy had crossed that went between b.0 and b.1."""
    between = [each for source, target, each in overlay.log if {source, target} == {"b.0", "b.1"}]
    return [each.detour.ilinks for each in between if isinstance(each, Publish) and each.detour is not None]


class TestLivelock:
    def test_refused_copies_do_not_relay_for_ever(self):
        overlay = crowded()
        overlay.settle()
        assert max(relays(overlay)) == 2 * CLUSTERS
        assert sum(len(overlay[f"b.{cluster}"].state.room) for cluster in range(CLUSTERS)) > 0

    def test_they_would_if_their_ilinks_counted_from_0_again(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(adapting, "taken_back", from_waiting_room)
        with pytest.raises(AssertionError, match="for ever"):
            crowded().settle()

    def test_they_go_when_their_links_come_up(self):
        overlay = crowded()
        overlay.settle()
        for cluster in range(CLUSTERS):
            overlay.heal(f"b.{cluster}", f"c.{cluster}")
        overlay.settle()
        for cluster in range(CLUSTERS):
            received = [each for each in overlay.received(f"S{cluster}", f"c.{cluster}") if isinstance(each, Deliver)]
            assert len(received) == PUBLICATIONS
            assert len(overlay[f"b.{cluster}"].state.room) == 0


class TestRefusedCopies:
    """The broker b.0: its aLink to c.0 is down, and its lanes to b.1 hold one copy each."""

    def cut_off(self) -> OctopiaBroker:
        """Return the broker without any copies."""
        broker = make(clusters=CLUSTERS, algorithm="adaptive", queue_capacity=1)
        feed(broker, "c.0", subscription("c.0", text="x > 0"))
        broker.link_down(at("c.0"), 0.0)
        silence(broker)
        return broker

    def refusing(self) -> OctopiaBroker:
        """Return the broker with a refused copy: the part for cluster 1 has left it, that for cluster 0 waits."""
        broker = self.cut_off()
        feed(broker, "a.0", publication(0, clusters=CLUSTERS, x=1))
        feed(broker, "b.1", self.rerouted(1, ilinks=3))
        return broker

    def rerouted(self, number: int, ilinks: int) -> Publish:
        """Return a copy from b.1 that is only to cross to region c, for both clusters."""
        plain = publication(number, clusters=CLUSTERS, x=1)
        detour = Detour(Lane.REROUTED, ilinks, "a", (("c", 0b11),))
        return plain.copy(ClusterIndexVector(0, CLUSTERS), detour, 0)

    def refused_by(self, broker: OctopiaBroker) -> list[Place | None]:
        """Return the lanes that refused the copies in the waiting room."""
        return [each.refused_by for each in broker.state.room]

    def test_they_wait_for_the_lane_that_refused_them(self):
        assert self.refused_by(self.refusing()) == [(at("b.1"), Lane.REROUTED)]

    def test_they_keep_their_ilinks_when_it_has_room(self):
        broker = self.refusing()
        broker.take(at("b.1"), 0.0, 1 << Lane.REROUTED)
        assert self.refused_by(broker) == []
        [copy] = taken(broker, "b.1", classes=1 << Lane.REROUTED)
        assert isinstance(copy, Publish)
        assert copy.detour == Detour(Lane.REROUTED, 4, "a", (("c", 0b01),))

    def test_another_lane_does_not_matter(self):
        broker = self.refusing()
        assert len(taken(broker, "b.1", classes=1 << Lane.PLAIN)) == 1
        assert self.refused_by(broker) == [(at("b.1"), Lane.REROUTED)]

    def test_they_do_not_wait_for_a_lane_of_a_link_that_went_down(self):
        broker = self.refusing()
        broker.link_down(at("b.1"), 0.0)
        assert set(self.refused_by(broker)) == {None}

    def test_copies_that_no_lane_refused_wait_for_a_link(self):
        broker = self.cut_off()
        feed(broker, "b.1", self.rerouted(0, ilinks=2 * CLUSTERS))
        assert self.refused_by(broker) == [None]
        assert len(taken(broker, "b.1")) == 0
        assert self.refused_by(broker) == [None]


class TestManyCopies:
    """b.0 has been dead for long, and b.1 has a copy of every publication for the clients of b.0."""

    COPIES = 300

    def crowded(self, **settings: int) -> OctopiaBroker:
        broker = make("b.1", clusters=CLUSTERS, algorithm="adaptive", **settings)
        broker.link_down(at("b.0"), 0.0)
        for number in range(self.COPIES):
            copy = publication(number, 0, host="a.1", clusters=CLUSTERS, x=1)
            feed(broker, "a.1", copy.copy(copy.publication_civ, Detour(Lane.REROUTED), 0), now_ms=float(number))
        silence(broker)
        return broker

    def test_they_leave_in_slices_when_the_link_comes_up(self):
        broker = self.crowded(slice_max=50)
        broker.link_up(at("b.0"), 5_000.0)
        assert len(broker.state.room) == self.COPIES - 50
        assert broker.is_behind
        assert broker.next_deadline_ms == 5_000.0
        while broker.is_behind:
            broker.wake(5_000.0)
        assert len(broker.state.room) == broker.state.room.size_bytes == 0
        assert numbers(taken(broker, "b.0")) == list(range(self.COPIES))

    def test_a_full_lane_takes_the_next_one_with_each_that_leaves(self, monkeypatch: pytest.MonkeyPatch):
        routed = 0

        def count(*arguments: object) -> AdaptiveDecision:
            nonlocal routed
            routed += 1
            return route_adaptively(*arguments)

        broker = self.crowded(slice_max=self.COPIES, queue_capacity=10)
        monkeypatch.setattr(adapting, "route_adaptively", count)
        broker.link_up(at("b.0"), 5_000.0)
        assert len(broker.state.room) == self.COPIES - 10
        assert numbers(taken(broker, "b.0")) == list(range(self.COPIES))
        assert routed == 2 * self.COPIES - 10, "each that was refused is routed once more, and no other"

    def test_the_oldest_are_dropped(self):
        broker = self.crowded(down_limit_ms=10_000.0)
        assert broker.state.room.oldest_ms == 0.0
        broker.wake(10_000.0 + 99)
        assert [each.publication.id.number for each in broker.state.room] == list(range(100, self.COPIES))
        assert broker.state.counters.lost[Cause.UNREACHABLE_BROKER] == 100

    def test_too_many_are_dropped(self):
        full = self.crowded().state.room.size_bytes
        broker = self.crowded(down_limit_bytes=full // 2)
        assert len(broker.state.room) == self.COPIES // 2
        assert broker.state.counters.lost[Cause.UNREACHABLE_BROKER] == self.COPIES // 2
