"""The short cuts of adaptive routing while nothing is congested: they agree with the readable reference, always."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from octopia.broker import BrokerSettings, Verdict, adapting
from octopia.broker.adaptive_routing import Audience, published, route_adaptively
from octopia.broker.core import OctopiaBroker
from octopia.broker.queues import OutputQueue
from octopia.broker.state import State
from octopia.content import Publication
from octopia.ids import BrokerId, ClientId, Peer, PublicationId
from octopia.overlay import Scot, parse_tree
from octopia.protocol.directions import Directions
from octopia.protocol.duties import clusters_of
from octopia.protocol.messages import Publish
from octopia.settings import Algorithm, RoutingSettings

ROUTING = RoutingSettings(Algorithm.ADAPTIVE)
CLIENT = ClientId("P")


@st.composite
def states(draw: st.DrawFn) -> State:
    """Draw a broker with links that are free, congested, or down."""
    scot = Scot(parse_tree(draw(st.sampled_from(["a", "a-b", "a-b, b-c, b-d"]))), draw(st.integers(1, 4)))
    broker = OctopiaBroker(
        scot.neighbourhood(draw(st.sampled_from(scot.brokers))), BrokerSettings(ROUTING, hop_limit=2)
    )
    for link, queue in broker.state.queues.items():
        queue.verdict = draw(st.sampled_from([Verdict.FREE, Verdict.FREE, Verdict.CONGESTED]))
        if draw(st.integers(0, 9)) == 0:
            broker.link_down(link, 0.0)
            queue.verdict = Verdict.AUTO
    return broker.state


def audience_at(state: State, targets: int) -> Audience:
    directions = Directions(here=True)
    wanted = dict.fromkeys(clusters_of(targets), directions)
    return Audience(targets, wanted, wanted)


@given(st.data())
def test_copies_are_those_of_the_reference_unless_a_link_is_congested(data: st.DataObject):
    state = data.draw(states())
    source: Peer = data.draw(st.sampled_from([CLIENT, *state.neighbourhood.neighbours]))
    hop = data.draw(st.integers(0, 3)) if source != CLIENT else 0
    publication = Publish(PublicationId(BrokerId("a", 0), 1, 0), Publication({"x": 1}), None, hop, 0.0)
    primary = state.neighbourhood.primary_neighbours
    alinks = [link for link in primary if link != source and data.draw(st.booleans())]
    clusters = [each for each in range(state.neighbourhood.clusters) if each != state.cluster]
    targets = sum(1 << each for each in clusters if source == CLIENT and data.draw(st.booleans()))
    if isinstance(source, BrokerId):
        arrival = adapting.arrival_of(state, source, publication)
    else:
        arrival = published(state.cluster, audience_at(state, targets))
    decision = route_adaptively(arrival, alinks, adapting.View(state))
    expected = adapting.copies_of(state, publication, decision.dispatches) if decision.dispatches else []
    beyond, state.counters.beyond_hop_bound = state.counters.beyond_hop_bound, 0

    plain = adapting.plain_duties(state, source)
    found = adapting.static_copies(state, adapting.View(state), publication, plain, alinks, targets)

    if decision.steps:
        assert found is None
    else:
        assert decision.delivers
        assert not decision.waiting
        assert found == expected
        assert state.counters.beyond_hop_bound == beyond


class Twins:
    """Two queues to which the same happens: one uses the short cut, the other always looks at the whole load."""

    def __init__(self) -> None:
        self.queue, self.reference = OutputQueue(ROUTING), OutputQueue(ROUTING)
        self.now_ms = 0.0
        self._numbers = itertools.count()

    def put(self, count: int) -> None:
        for _ in range(count):
            number = PublicationId(BrokerId("a", 0), 1, next(self._numbers))
            for each in (self.queue, self.reference):
                each.put_data(Publish(number, Publication({"x": 1}), None, 1, 0.0), 0, self.now_ms)

    def take(self, count: int) -> None:
        for each in (self.queue, self.reference) * count:
            each.take(self.now_ms)

    def finish(self, count: int, *, is_acknowledgement: bool) -> None:
        for each in (self.queue, self.reference):
            each.pace.finish(self.now_ms, count, is_acknowledgement=is_acknowledgement)

    def verdicts(self) -> tuple[bool, bool]:
        load = self.reference.load(self.now_ms)
        return self.queue.congested(self.now_ms), self.reference.hold.is_congested(load, self.now_ms)


@given(st.integers(0, 2**32))
def test_verdicts_are_those_of_the_formula(seed: int):
    rng, twins = random.Random(seed), Twins()
    for _ in range(150):
        twins.now_ms += rng.choice([0.0, 0.0, 0.5, 3.0, 20.0, 49.0, 60.0, 200.0, 600.0, 6_000.0])
        match rng.randrange(4):
            case 0:
                twins.put(rng.choice([1, 3, 12]))
            case 1:
                twins.take(rng.choice([1, 3, 30]))
            case 2:
                twins.finish(rng.choice([1, 3, 30]), is_acknowledgement=rng.random() < 0.5)
        if rng.random() < 0.7:
            short, whole = twins.verdicts()
            assert short == whole
