"""Where the publications of a workload go: every broker that one visits, and what it did there.

A workload is played in virtual time with all links free, so that every algorithm of a system takes the same paths. What
is left is the brokers with their full tables, and the visits: one at its host broker for each publication, and one for
each copy that a broker received.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from octopia.broker import Broker, Detail, Event, Fact, Routed, Verdict
from octopia.broker.interface import Delivered
from octopia.broker.messages import ClientReply
from octopia.content import Publication
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, Peer, PublicationId, SubscriptionId
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.agenda import to_ns
from octopia.simulator.profiles import UNIT
from octopia.simulator.run import run_scenario
from octopia.workloads.simulated_run import scenario_of
from octopia.workloads.workload import Workload


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """A publication at a broker: where it came from, and who got it from there, each by id."""

    id: PublicationId
    publication: Publication
    publisher: ClientId
    broker: BrokerId
    came_from: Peer
    sent_to: tuple[BrokerId, ...]
    delivered: tuple[SubscriptionId, ...]

    @property
    def is_at_host(self) -> bool:
        """Whether this is the host broker of the publisher."""
        return self.came_from == self.publisher


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """A workload after it was played: all queues are empty, and Eq. 3 judges all links."""

    brokers: Mapping[BrokerId, Broker]
    now_ms: float
    publications: int
    visits: tuple[Visit, ...]

    @property
    def visits_each(self) -> float:
        """How many brokers a publication visits, on average."""
        return len(self.visits) / self.publications

    def force_links(self, verdict: Verdict) -> None:
        """Let all links of all brokers count as congested or free, or let Eq. 3 judge them again."""
        for broker in self.brokers.values():
            for neighbour in broker.link_status_table(self.now_ms):
                broker.force(neighbour, verdict, None, self.now_ms)


def play_for_visits(workload: Workload, algorithm: Algorithm, first: int, seed: int) -> Played:
    """Play the first so many publications of a workload, and note where they go."""
    journeys = _Journeys()
    scenario = scenario_of(workload, RoutingSettings(algorithm), first=first, uncongested=True)
    # Control messages are far too many to be kept; the observer takes what belongs to publications.
    run = run_scenario(scenario, seed=seed, profile=UNIT, detail=Detail.HOPS, keep=False, observers=[journeys])
    # Publications are numbered as they are due.
    due = sorted(workload.timed(first), key=lambda each: to_ns(each.at_ms))
    contents = {id_: due[run.names.publication(id_)].publication for id_ in journeys.publishers}
    if not contents:
        raise UsageError(f"expected publications that some broker takes in workload {workload.name}, got none")
    played = Played(run.world.brokers, run.world.agenda.now_ms, len(contents), tuple(journeys.visits(contents)))
    played.force_links(Verdict.AUTO)
    return played


@dataclasses.dataclass(frozen=True, slots=True)
class _Journeys:
    """Notes what happens to publications in a world."""

    publishers: dict[PublicationId, ClientId] = dataclasses.field(default_factory=dict)
    received: list[tuple[PublicationId, BrokerId, Peer]] = dataclasses.field(default_factory=list)
    sent: dict[tuple[PublicationId, BrokerId], list[BrokerId]] = dataclasses.field(default_factory=dict)
    delivered: dict[tuple[PublicationId, BrokerId], list[SubscriptionId]] = dataclasses.field(default_factory=dict)

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Note what was received and sent."""
        if isinstance(fact, Routed) or not isinstance(fact.message_id, PublicationId) or fact.peer is None:
            return
        if fact.event is Event.RECEIVE:
            self.received.append((fact.message_id, broker.id, fact.peer))
            if isinstance(fact.peer, ClientId):
                self.publishers[fact.message_id] = fact.peer
        elif fact.event is Event.SEND and isinstance(fact.peer, BrokerId):
            self.sent.setdefault((fact.message_id, broker.id), []).append(fact.peer)

    def on_reply(self, client: ClientId, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Ignore single replies: brokers deliver together here."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Note the subscriptions that a publication reached at a broker."""
        self.delivered.setdefault((delivered.id, broker), []).extend(delivered.subscriptions)

    def visits(self, contents: Mapping[PublicationId, Publication]) -> Iterator[Visit]:
        """Yield all visits in the order in which they happened."""
        for id_, broker, came_from in self.received:
            sent, delivered = self.sent.get((id_, broker), ()), self.delivered.get((id_, broker), ())
            publisher = self.publishers[id_]
            yield Visit(id_, contents[id_], publisher, broker, came_from, tuple(sorted(sent)), tuple(sorted(delivered)))
