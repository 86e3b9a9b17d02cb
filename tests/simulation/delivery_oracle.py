"""The expected results of a random scenario, computed without any routing code.

Matches are found by evaluating the expression trees that were drawn. Conformance is computed from its definition, and
target clusters from the intersections of all advertisements and subscriptions. Phases are the only clock. A request
that was issued in an earlier phase and is withdrawn in a later one, or never, is *certain* to be in force. A request
that changes in the phase itself is *possible*. If nothing overlaps, both are the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from random_scenarios import Offer, RandomScenario

from octopia.broker import Broker, Case, Event, Fact, OctopiaBroker, Routed, invariants
from octopia.broker.common import Client
from octopia.broker.state import State
from octopia.content import Value, evaluate, intersects, normalise
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.protocol import Cause, MessageKind
from octopia.protocol.messages import ClientReply, UnadvertiseRequest, UnsubscribeRequest
from octopia.scenario import AdvertiseItem, LinkChange, PublishItem, SubscribeItem, UnadvertiseItem, UnsubscribeItem
from octopia.settings import Algorithm
from octopia.simulator.record import Delivery, Hop
from octopia.simulator.run import Run, run_scenario

SECOND_OPINION = "the simulator's own checkers say: "


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario that was run and judged."""

    run: Run
    complaints: list[str]
    cases: Counter[Case]

    @property
    def publications(self) -> int:
        """The number of attempted publications."""
        return self.run.ledger.attempted


def play(drawn: RandomScenario, *, check: bool = False) -> Outcome:
    """Run a scenario and judge it; with ``check``, test the invariants of every broker after every step too."""
    watch = TableWatch()
    run = run_scenario(drawn.scenario, check=check, observers=[watch])
    cases: Counter[Case] = Counter()
    for broker in run.world.brokers.values():
        cases.update(broker.counters.cases)
    complaints = [
        *(SECOND_OPINION + each for each in run.complaints()),
        *watch.complaints,
        *Oracle(drawn).complaints(run),
        *_withdrawal_complaints(run, drawn),
    ]
    return Outcome(run, complaints, cases)


# Tables and publications.

Tables = tuple[tuple[object, ...], tuple[object, ...]]


def _state(broker: Broker) -> State:
    """Return the state of a broker, which must be of the one class that this oracle knows."""
    assert isinstance(broker, OctopiaBroker)
    return broker.state


def _tables(broker: Broker) -> Tables:
    state = _state(broker)
    return (
        tuple((entry.id, entry.civ, entry.last_hop) for entry in state.clt),
        tuple((entry.id, entry.last_hop) for entry in state.prt),
    )


class TableWatch:
    """An observer that checks that only control messages change the tables of a broker."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._tables: dict[BrokerId, Tables] = {}

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Check the tables of a broker that has just handled a message."""
        if isinstance(fact, Routed) or fact.event is not Event.RECEIVE:
            return
        tables = _tables(broker)
        if fact.kind is MessageKind.PUBLICATION and tables != self._tables.get(broker.id, ((), ())):
            self.complaints.append(f"publication {fact.message_id} changed the tables of broker {broker.id}")
        self._tables[broker.id] = tables

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Replies change no tables."""


# Requests in force, and publications.


@dataclasses.dataclass(slots=True)
class _Span:
    """An advertisement or subscription, and the phases in which it was issued and withdrawn."""

    name: str
    client: str
    since: int
    until: float = math.inf
    is_ordered: bool = False

    def is_certain(self, phase: int) -> bool:
        return self.since < phase < self.until

    def is_possible(self, phase: int) -> bool:
        return self.since <= phase <= self.until

    @property
    def is_left(self) -> bool:
        return self.until == math.inf


@dataclasses.dataclass(frozen=True, slots=True)
class _Attempt:
    number: int
    client: str
    attributes: Mapping[str, Value]
    phase: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Expectation:
    """The bounds for a publication: the subscriptions that get it, and the clusters it enters."""

    must_pass: bool
    may_pass: bool
    must_reach: set[tuple[str, str]]
    may_reach: set[tuple[str, str]]
    must_enter: set[int]
    may_enter: set[int]
    is_static: bool | None
    """True if its paths are static; None if that depends on overlapping requests."""


class Oracle:
    """The expected results of a scenario."""

    def __init__(self, drawn: RandomScenario):
        self._drawn = drawn
        self._hosts = drawn.hosts
        self._scot = drawn.scenario.overlay.scot
        self._offers: dict[str, _Span] = {}
        self._interests: dict[str, _Span] = {}
        self._attempts: list[_Attempt] = []
        self._overlaps = False
        self._read_history()
        self._intersects = functools.cache(self._compute_intersects)
        self._matching = functools.cache(self._compute_matching)

    def complaints(self, run: Run) -> Iterator[str]:
        """Yield a sentence for every difference from the expected results."""
        if run.ledger.attempted != len(self._attempts):
            yield f"{run.ledger.attempted} publications were attempted instead of {len(self._attempts)}"
            return
        deliveries = _grouped(run.recorder.deliveries)
        journeys = _grouped(run.recorder.hops)
        refused = Counter(each.publication for each in run.recorder.refused)
        if None in refused:
            yield "a request that was no publication was refused"
        expectations = {attempt.number: self._expect(attempt) for attempt in self._attempts}
        for attempt in self._attempts:
            number = attempt.number
            expected = expectations[number]
            yield from self._refusal_complaints(number, refused[number], expected)
            yield from self._delivery_complaints(attempt, deliveries.get(number, []), expected)
            yield from self._journey_complaints(attempt, journeys.get(number, []), expected)
            yield from self._needless_copies(attempt, journeys.get(number, []), deliveries.get(number, []))
        yield from self._order_complaints(run.recorder.deliveries, expectations)
        yield from self._counter_complaints(run, refused.total(), journeys)
        yield from self._bit_complaints(run)
        yield from _invariant_complaints(run)

    # The history of a scenario.

    def _read_history(self) -> None:
        for client in self._drawn.scenario.clients:
            for item in client.items:
                self._take(item, phase=0)
        for phase, happenings in enumerate(self._drawn.phases, start=1):
            for each in happenings:
                self._take(each.item, phase)
            kinds = {isinstance(each.item, PublishItem) for each in happenings if not isinstance(each.item, LinkChange)}
            self._overlaps = self._overlaps or len(kinds) > 1

    def _take(self, item: object, phase: int) -> None:
        match item:
            case AdvertiseItem():
                self._offers[item.id] = _Span(item.id, item.client, phase, is_ordered=item.ordered)
            case SubscribeItem():
                self._interests[item.id] = _Span(item.id, item.client, phase)
            case UnadvertiseItem():
                self._offers[item.id].until = phase
            case UnsubscribeItem():
                self._interests[item.id].until = phase
            case PublishItem():
                attributes = item.publication.attributes
                self._attempts.append(_Attempt(len(self._attempts), item.client, attributes, phase))
            case _:
                pass

    # Relations, from their definitions.

    def _compute_intersects(self, offer: str, interest: str) -> bool:
        advertised = normalise(self._drawn.offers[offer].expression)
        return intersects(advertised, normalise(self._drawn.interests[interest]))

    def _compute_matching(self, number: int) -> list[_Span]:
        attributes = self._attempts[number].attributes
        interests = self._drawn.interests
        return [each for each in self._interests.values() if evaluate(interests[each.name], attributes) is True]

    def _expect(self, attempt: _Attempt) -> _Expectation:
        phase = attempt.phase
        own = [each for each in self._offers.values() if each.client == attempt.client]
        announcing = [each for each in own if announces(self._drawn.offers[each.name], attempt.attributes)]
        certain = [each for each in announcing if each.is_certain(phase)]
        possible = [each for each in announcing if each.is_possible(phase)]
        matching = self._matching(attempt.number)
        return _Expectation(
            must_pass=bool(certain),
            may_pass=bool(possible),
            must_reach={(each.client, each.name) for each in matching if certain and each.is_certain(phase)},
            may_reach={(each.client, each.name) for each in matching if possible and each.is_possible(phase)},
            must_enter=self._clusters_for(certain, [s for s in self._interests.values() if s.is_certain(phase)]),
            may_enter=self._clusters_for(possible, [s for s in self._interests.values() if s.is_possible(phase)])
            | self._clusters_not_heard_of(possible, phase),
            is_static=self._is_static(certain, possible),
        )

    def _clusters_for(self, offers: Sequence[_Span], interests: Sequence[_Span]) -> set[int]:
        """Return the clusters, except the publisher's, where one of the interests intersects an offer."""
        return {
            self._cluster(interest)
            for offer in offers
            for interest in interests
            if self._cluster(interest) != self._cluster(offer) and self._intersects(offer.name, interest.name)
        }

    def _clusters_not_heard_of(self, offers: Sequence[_Span], phase: int) -> set[int]:
        """Return all other clusters if an offer is so new that some may not have answered: they count as interested."""
        if not self._drawn.scenario.routing.confirmations:
            return set()
        fresh = [offer for offer in offers if offer.since == phase]
        return {each for offer in fresh for each in range(self._scot.clusters) if each != self._cluster(offer)}

    def _is_static(self, certain: list[_Span], possible: list[_Span]) -> bool | None:
        if self._drawn.scenario.routing.algorithm is Algorithm.STATIC or any(each.is_ordered for each in certain):
            return True
        return None if any(each.is_ordered for each in possible) else False

    def _cluster(self, issued: _Span) -> int:
        return self._hosts[issued.client].cluster

    # Complaints.

    def _refusal_complaints(self, number: int, refusals: int, expected: _Expectation) -> Iterator[str]:
        if refusals > 1:
            yield f"publication {number} was refused {refusals} times"
        if refusals and expected.must_pass:
            yield f"publication {number} was refused, although it conforms"
        if not refusals and not expected.may_pass:
            yield f"publication {number} was not refused, although it conforms to nothing"

    def _delivery_complaints(
        self, attempt: _Attempt, deliveries: list[Delivery], expected: _Expectation
    ) -> Iterator[str]:
        reached = Counter((each.client, each.subscription) for each in deliveries)
        for (client, subscription), times in reached.items():
            if times > 1:
                yield f"publication {attempt.number} was delivered {times} times to {subscription} of {client}"
        for client, subscription in sorted(reached.keys() - expected.may_reach):
            yield f"publication {attempt.number} was delivered to {subscription} of {client}, which does not want it"
        for client, subscription in sorted(expected.must_reach - reached.keys()):
            yield f"publication {attempt.number} was not delivered to {subscription} of {client}, which wants it"
        for delivery in deliveries:
            yield from self._path_complaints(attempt, delivery, expected)

    def _path_complaints(self, attempt: _Attempt, delivery: Delivery, expected: _Expectation) -> Iterator[str]:
        home, target = self._hosts[attempt.client], self._hosts[delivery.client]
        hops = len(delivery.path) - 1
        what = f"publication {attempt.number} to {delivery.subscription} took {' > '.join(delivery.path)}"
        if (delivery.path[0], delivery.path[-1]) != (str(home), str(target)):
            yield f"{what}, which does not lead from {home} to {target}"
        bound = self._scot.clusters * (self._scot.diameter + 1)
        if hops > bound:
            yield f"{what}, {hops} hops where at most {bound} are allowed"
        shortest = _distances(self._scot)[home.region][target.region] + (home.cluster != target.cluster)
        if expected.is_static and hops != shortest:
            yield f"{what}, {hops} hops where static routing takes {shortest}"

    def _journey_complaints(self, attempt: _Attempt, journey: list[Hop], expected: _Expectation) -> Iterator[str]:
        home = self._hosts[attempt.client]
        ends = [(BrokerId.parse(hop.sender), BrokerId.parse(hop.receiver)) for hop in journey]
        received = Counter(receiver for _, receiver in ends)
        received[home] += 1
        for broker, times in received.items():
            if times > 1:
                yield f"publication {attempt.number} came to broker {broker} {times} times"
        entered = Counter(receiver.cluster for sender, receiver in ends if sender.cluster != receiver.cluster)
        for cluster, times in entered.items():
            if times > 1:
                yield f"publication {attempt.number} entered cluster {cluster} {times} times"
        if home.cluster in entered:
            yield f"publication {attempt.number} came back to its host cluster"
        for cluster in sorted(entered.keys() - expected.may_enter):
            yield f"publication {attempt.number} entered cluster {cluster}, where nobody intersects"
        for cluster in sorted(expected.must_enter - entered.keys()):
            yield f"publication {attempt.number} did not enter cluster {cluster}, where somebody intersects"

    def _needless_copies(self, attempt: _Attempt, journey: list[Hop], deliveries: list[Delivery]) -> Iterator[str]:
        """Within a cluster, copies go only where a client wants them: no path ends over an aLink without a delivery."""
        if self._overlaps:
            return
        useful = {hop.sender for hop in journey} | {each.path[-1] for each in deliveries}
        for hop in journey:
            is_alink = BrokerId.parse(hop.sender).cluster == BrokerId.parse(hop.receiver).cluster
            if is_alink and hop.receiver not in useful:
                yield f"publication {attempt.number} went from {hop.sender} to {hop.receiver} for nothing"

    def _order_complaints(
        self, deliveries: Sequence[Delivery], expectations: Mapping[int, _Expectation]
    ) -> Iterator[str]:
        """Static paths keep the order of one publisher's publications."""
        latest: dict[tuple[str, str], int] = {}
        for each in deliveries:
            if not expectations[each.publication].is_static:
                continue
            key = (self._attempts[each.publication].client, each.subscription)
            if each.publication < latest.get(key, -1):
                yield f"publication {each.publication} reached {each.subscription} after {latest[key]}"
            latest[key] = max(each.publication, latest.get(key, -1))

    def _counter_complaints(self, run: Run, refused: int, journeys: Mapping[int, list[Hop]]) -> Iterator[str]:
        counters = [broker.counters for broker in run.world.brokers.values()]
        if any(each.lost[Cause.HOP_LIMIT] for each in counters):
            yield "a publication ran into the hop limit"
        if sum(each.refused for each in counters) != refused:
            yield f"brokers counted other refusals than the {refused} that clients heard of"
        sent = sum(each.sent[MessageKind.PUBLICATION] for each in counters)
        if sent != sum(map(len, journeys.values())):
            yield "brokers counted other publication messages than were seen"
        # Where requests overlap with publications, interest changes during the run and cannot be reconstructed
        # afterwards.
        counted = sum(each.false_positives for each in counters)
        if not self._overlaps and counted != self._false_positives():
            yield f"brokers counted {counted} false positives instead of {self._false_positives()}"
        if self._drawn.scenario.routing.algorithm is Algorithm.STATIC and any(sum(c.cases.values()) for c in counters):
            yield "static routing took a case of dynamic routing"

    def _false_positives(self) -> int:
        """Return the number of target clusters in which no client wants the publication."""
        total = 0
        for attempt in self._attempts:
            expected = self._expect(attempt)
            wanted = {self._hosts[client].cluster for client, _ in expected.must_reach}
            total += len(expected.must_enter - wanted)
        return total

    def _bit_complaints(self, run: Run) -> Iterator[str]:
        """Compare the CIVs at the end with the requests in force then."""
        left = [each for each in self._interests.values() if each.is_left]
        for offer in self._offers.values():
            found = run.world.civs(*run.advertisements[offer.name])
            if not offer.is_left:
                if found is not None:
                    yield f"advertisement {offer.name} was withdrawn and is still there"
                continue
            if found is None:
                yield f"advertisement {offer.name} is gone"
                continue
            wanted = {self._cluster(each) for each in left if self._intersects(offer.name, each.name)}
            if set(found[0]) != wanted | {self._cluster(offer)} or set(found[1]) != wanted:
                clusters = ", ".join(map(str, sorted(wanted))) or "none"
                yield f"the CIVs of {offer.name} are {found[0]} and {found[1]}, but the clusters are {clusters}"


def announces(offer: Offer, attributes: Mapping[str, Value]) -> bool:
    """Return whether a publication conforms, by the definition.

    Some alternative declares every attribute that is carried, and all its predicates on carried attributes hold.
    """
    return any(
        all(
            any(each.attribute == carried for each in alternative)
            and all(evaluate(each, attributes) is True for each in alternative if each.attribute == carried)
            for carried in attributes
        )
        for alternative in offer.alternatives
    )


def _issued_by(broker: Broker, name: str) -> Client:
    return next(issued for client, issued in _state(broker).clients.items() if client.name == name)


def _withdrawal_complaints(run: Run, drawn: RandomScenario) -> Iterator[str]:
    """Withdraw everything that is left, one half by request and one half by leaving; nothing may remain anywhere."""
    brokers = run.world.brokers
    for number, (name, home) in enumerate(drawn.hosts.items()):
        if number % 2:
            run.world.detach(name)
            continue
        issued = _issued_by(brokers[home], name)
        for handle in list(issued.subscriptions):
            run.world.request(name, UnsubscribeRequest(handle))
        for handle in list(issued.advertisements):
            run.world.request(name, UnadvertiseRequest(handle))
    run.world.run()
    for broker in brokers.values():
        sizes = broker.table_sizes()
        if any(sizes.values()):
            yield f"after everything was withdrawn, broker {broker.id} still holds {sizes}"
        if _state(broker).for_clients or not all(queue.is_empty for queue in _state(broker).queues.values()):
            yield f"after everything settled, something waits in a queue of broker {broker.id}"
    yield from _invariant_complaints(run)


def _invariant_complaints(run: Run) -> Iterator[str]:
    for broker in run.world.brokers.values():
        yield from (f"broker {broker.id}: {sentence}" for sentence in invariants.violations(_state(broker)))


_Record = TypeVar("_Record", Delivery, Hop)


def _grouped(records: Sequence[_Record]) -> dict[int, list[_Record]]:
    """Return records by publication; those of control messages are left out."""
    grouped: dict[int, list[_Record]] = {}
    for each in records:
        if each.publication is not None:
            grouped.setdefault(each.publication, []).append(each)
    return grouped


@functools.lru_cache(maxsize=512)
def _distances(scot: Scot) -> dict[str, dict[str, int]]:
    """Return the number of tree edges between any two regions."""
    near: dict[str, list[str]] = {region: [] for region in scot.tree.regions}
    for low, high in scot.tree.edges:
        near[low].append(high)
        near[high].append(low)
    distances: dict[str, dict[str, int]] = {}
    for start in near:
        found = {start: 0}
        for region in (frontier := [start]):
            for other in near[region]:
                if other not in found:
                    found[other] = found[region] + 1
                    frontier.append(other)
        distances[start] = found
    return distances
