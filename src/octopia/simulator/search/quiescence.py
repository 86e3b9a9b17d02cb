"""The requirements for an overlay at rest: everything is whole, and nothing is under way.

The tables are compared with the requests that clients have in force, computed directly from scripts and filters. After
any faults, an overlay at rest must look as if nothing ever went wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from octopia.broker.common import Client as IssuedBy
from octopia.broker.core import OctopiaBroker
from octopia.content import Disjunction, intersects
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.overlay import Scot
from octopia.protocol.directions import Directions
from octopia.protocol.duties import HERE
from octopia.simulator.search.model import Model, State


class QuiescenceChecker:
    """A check of states that are at rest."""

    def __init__(self, model: Model):
        self._model = model
        self._clients = model.scenario.clients
        self._next_hops = dict(_next_hops(model.scot))

    def complaints(self, state: State) -> Iterator[str]:
        """Yield a sentence for every requirement that does not hold."""
        brokers = self._brokers(state)
        yield from self._unfinished(state, brokers)
        subscriptions = dict(self._subscriptions(state, brokers))
        advertisements = dict(self._advertisements(state, brokers))
        for broker in brokers.values():
            yield from self._prt_complaints(broker, subscriptions)
            yield from self._clt_complaints(broker, advertisements, subscriptions)
        yield from self._ledger_complaints(state)

    def _brokers(self, state: State) -> dict[BrokerId, OctopiaBroker]:
        running = [self._model.stations[number].broker for number in state.stations]
        return {broker.id: broker for broker in running if broker is not None}

    def _unfinished(self, state: State, brokers: dict[BrokerId, OctopiaBroker]) -> Iterator[str]:
        """Yield a sentence for everything that is still pending and can never finish."""
        for number in state.stations:
            station = self._model.stations[number]
            for neighbour, link in station.node.links.items() if station.node is not None else ():
                if not link.is_up or (link.session is not None and link.session.awaits_acknowledgement):
                    yield f"the link from {station.id} to {neighbour} never settled"
                if link.session is not None and link.session.owes_credit:
                    yield f"{station.id} never returned the credit of {neighbour}"
            for client in station.node.clients.values() if station.node is not None else ():
                if not client.mailbox.is_empty:
                    yield f"the mailbox of {client.peer} at {station.id} is never emptied"
                if client.session is not None and client.session.owes_credit:
                    yield f"{station.id} never returned the credit of {client.peer}"
        for broker in brokers.values():
            if broker.state.recovery is not None:
                yield f"{broker.id} never recovered"
            if broker.state.owed:
                yield f"{broker.id} owes notices of losses forever"
            if broker.state.inputs or broker.state.blocked or broker.state.leaving:
                yield f"publications wait at {broker.id} forever"
            for peer, queue in broker.state.queues.items():
                if not queue.is_empty or queue.is_down or queue.is_closed:
                    yield f"the queue from {broker.id} to {peer} is never emptied"

    def _subscriptions(
        self, state: State, brokers: dict[BrokerId, OctopiaBroker]
    ) -> Iterator[tuple[SubscriptionId, tuple[Disjunction, str]]]:
        """Yield the subscriptions in force: id, filter and client."""
        for index, client in enumerate(self._clients):
            issued = _client_of(brokers[client.broker], client.name).subscriptions
            for handle, request in self._model.witness.in_force(index, state.scripts[index]).subscriptions.items():
                yield issued[handle], (request.interest, client.name)

    def _advertisements(
        self, state: State, brokers: dict[BrokerId, OctopiaBroker]
    ) -> Iterator[tuple[AdvertisementId, tuple[Disjunction, str]]]:
        """Yield the advertisements in force: id, filter and client."""
        for index, client in enumerate(self._clients):
            issued = _client_of(brokers[client.broker], client.name).advertisements
            for handle, request in self._model.witness.in_force(index, state.scripts[index]).advertisements.items():
                yield issued[handle], (request.offer, client.name)

    def _prt_complaints(
        self, broker: OctopiaBroker, subscriptions: dict[SubscriptionId, tuple[Disjunction, str]]
    ) -> Iterator[str]:
        """Check that the PRT holds exactly the subscriptions of the cluster in force, each with the right last hop."""
        found = {entry.id: (entry.interest, entry.last_hop) for entry in broker.state.prt}
        for subscription, (interest, client) in subscriptions.items():
            if subscription.host_broker.cluster != broker.id.cluster:
                continue
            entry = found.pop(subscription, None)
            last_hop = self._last_hop(broker.id, subscription.host_broker, client)
            if entry is None:
                yield f"the PRT of {broker.id} lacks {subscription} of {client}"
            elif (entry[0], _without_session(entry[1])) != (interest, last_hop):
                yield f"the PRT of {broker.id} has {subscription} of {client} from {entry[1]}, expected {last_hop}"
        for subscription in found:
            yield f"the PRT of {broker.id} holds {subscription}, which was withdrawn"

    def _clt_complaints(
        self,
        broker: OctopiaBroker,
        advertisements: dict[AdvertisementId, tuple[Disjunction, str]],
        subscriptions: dict[SubscriptionId, tuple[Disjunction, str]],
    ) -> Iterator[str]:
        """Check that the CLT holds exactly the advertisements of the region in force, with the right CIVs."""
        found = {entry.id: entry for entry in broker.state.clt}
        for advertisement, (offer, client) in advertisements.items():
            if advertisement.host_broker.region != broker.id.region:
                continue
            entry = found.pop(advertisement, None)
            if entry is None:
                yield f"the CLT of {broker.id} lacks {advertisement} of {client}"
                continue
            if not entry.is_hosted_here:
                continue
            wanted = {
                each.host_broker.cluster for each, (interest, _) in subscriptions.items() if intersects(offer, interest)
            }
            expected = broker.state.civ_of(broker.id.cluster, *sorted(wanted))
            if entry.civ != expected:
                yield f"the CIV of {advertisement} is {entry.civ} at {broker.id}, expected {expected}"
            if entry.pending:
                yield f"{advertisement} waits at {broker.id} for answers that never come"
            for secondary in broker.state.neighbourhood.secondary_neighbours if broker.state.is_adaptive else ():
                held, owed = entry.held.get(secondary), self._directions(secondary, offer, subscriptions)
                if held != owed:
                    yield f"{broker.id} holds the answer {held} of {secondary} to {advertisement}, expected {owed}"
        for advertisement in found:
            yield f"the CLT of {broker.id} holds {advertisement}, which was withdrawn"

    def _directions(
        self, broker: BrokerId, offer: Disjunction, subscriptions: dict[SubscriptionId, tuple[Disjunction, str]]
    ) -> Directions:
        """Return the directions of a broker's cluster with a subscription that intersects an advertisement."""
        hosts = [each.host_broker for each, (interest, _) in subscriptions.items() if intersects(offer, interest)]
        own = [host for host in hosts if host.cluster == broker.cluster]
        return Directions.of(HERE if host == broker else self._next_hops[broker, host].region for host in own)

    def _ledger_complaints(self, state: State) -> Iterator[str]:
        for index, client in enumerate(self._clients):
            if not self._model.witness.is_confirmed(state.ledger, index, state.scripts[index]):
                yield f"a request of {client.name} was never confirmed"
        for number, index, handle in state.ledger.owed:
            name = self._clients[index].name
            yield f"publication {number} never reached subscription {handle} of {name}, which was told of no loss"

    def _last_hop(self, broker: BrokerId, host_broker: BrokerId, client: str) -> Peer:
        return ClientId(client) if broker == host_broker else self._next_hops[broker, host_broker]


def _client_of(broker: OctopiaBroker, name: str) -> IssuedBy:
    return next(issued for client, issued in broker.state.clients.items() if client.name == name)


def _without_session(peer: Peer) -> Peer:
    return ClientId(peer.name) if isinstance(peer, ClientId) else peer


def _next_hops(scot: Scot) -> Iterator[tuple[tuple[BrokerId, BrokerId], BrokerId]]:
    """Yield, for every two brokers of a cluster, the neighbour of the first that lies towards the second."""
    for broker in scot.brokers:
        for neighbour in scot.neighbourhood(broker).primary_neighbours:
            behind = [(neighbour, broker)]
            while behind:
                reached, source = behind.pop()
                yield (broker, reached), neighbour
                onward = scot.neighbourhood(reached).primary_neighbours
                behind += [(each, reached) for each in onward if each != source]
