"""The visits of publications at brokers: the origin of each, and the links and deliveries that it caused.

A workload is played in virtual time with all links free, so that every algorithm of a system takes the same paths. The
result is the brokers with their full tables, and the visits: one at its host broker per publication, and one per copy
that a broker received.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from octopia.broker import Broker, Detail, Event, Fact, Routed, Verdict
from octopia.broker.interface import Delivered
from octopia.content import Publication
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, Peer, PublicationId, SubscriptionId
from octopia.protocol.messages import ClientReply
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.agenda import to_ns
from octopia.simulator.profiles import UNIT, Profile
from octopia.simulator.run import run_scenario
from octopia.workloads.simulated_run import scenario_of
from octopia.workloads.workload import Workload


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """A publication at a broker: its last hop, and the brokers and subscriptions that it was sent to."""

    id: PublicationId
    publication: Publication
    publisher: ClientId
    broker: BrokerId
    came_from: Peer
    sent_to: tuple[BrokerId, ...]
    delivered: tuple[SubscriptionId, ...]

    @property
    def is_at_host(self) -> bool:
        """True at the host broker of the publisher."""
        return self.came_from == self.publisher


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """A workload after it was played: all queues are empty, and Eq. 3 decides which links are congested."""

    brokers: Mapping[BrokerId, Broker]
    now_ms: float
    publications: int
    visits: tuple[Visit, ...]

    @property
    def visits_each(self) -> float:
        """The mean number of brokers that a publication visits."""
        return len(self.visits) / self.publications

    def force_links(self, verdict: Verdict) -> None:
        """Make all links of all brokers count as congested or free, or let Eq. 3 decide again."""
        for broker in self.brokers.values():
            for neighbour in broker.link_status_table(self.now_ms):
                broker.force(neighbour, verdict, None, self.now_ms)


def play_for_visits(workload: Workload, algorithm: Algorithm, first: int, seed: int, profile: Profile = UNIT) -> Played:
    """Play the first publications of a workload, and record their visits."""
    journeys = _Journeys()
    scenario = scenario_of(workload, RoutingSettings(algorithm), first=first, uncongested=True)
    # There are too many control messages to keep; the observer records publications only.
    run = run_scenario(scenario, seed=seed, profile=profile, detail=Detail.HOPS, keep=False, observers=[journeys])
    # Publications are numbered in the order in which they are due.
    due = sorted(workload.timed(first), key=lambda each: to_ns(each.at_ms))
    contents = {id_: due[run.names.publication(id_)].publication for id_ in journeys.publishers}
    if not contents:
        raise UsageError(f"expected publications that brokers accept in workload {workload.name}, got none")
    played = Played(run.world.brokers, run.world.agenda.now_ms, len(contents), tuple(journeys.visits(contents)))
    played.force_links(Verdict.AUTO)
    return played


@dataclasses.dataclass(frozen=True, slots=True)
class _Journeys:
    """An observer that records the visits of publications."""

    publishers: dict[PublicationId, ClientId] = dataclasses.field(default_factory=dict)
    received: list[tuple[PublicationId, BrokerId, Peer]] = dataclasses.field(default_factory=list)
    sent: dict[tuple[PublicationId, BrokerId], list[BrokerId]] = dataclasses.field(default_factory=dict)
    delivered: dict[tuple[PublicationId, BrokerId], list[SubscriptionId]] = dataclasses.field(default_factory=dict)

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Record a publication that was received or sent."""
        if isinstance(fact, Routed) or not isinstance(fact.message_id, PublicationId) or fact.peer is None:
            return
        if fact.event is Event.RECEIVE:
            self.received.append((fact.message_id, broker.id, fact.peer))
            if isinstance(fact.peer, ClientId):
                self.publishers[fact.message_id] = fact.peer
        elif fact.event is Event.SEND and isinstance(fact.peer, BrokerId):
            self.sent.setdefault((fact.message_id, broker.id), []).append(fact.peer)

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Ignore single replies: brokers deliver together here."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Record the subscriptions that a publication reached at a broker."""
        self.delivered.setdefault((delivered.copy.id, broker), []).extend(delivered.subscriptions)

    def visits(self, contents: Mapping[PublicationId, Publication]) -> Iterator[Visit]:
        """Yield all visits in order."""
        for id_, broker, came_from in self.received:
            sent, delivered = self.sent.get((id_, broker), ()), self.delivered.get((id_, broker), ())
            publisher = self.publishers[id_]
            yield Visit(id_, contents[id_], publisher, broker, came_from, tuple(sorted(sent)), tuple(sorted(delivered)))
