"""The invariants of a broker, which hold between any two inputs.

Each check is one sentence of the design. The checks read tables and queues only, and take time in proportion to their
size, so drivers run them on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from octopia.broker import answers
from octopia.broker.adaptive_routing import Dispatch
from octopia.broker.common import CommonState, Subscriber, Task
from octopia.broker.rerouting import duties_taken_back
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.errors import InvariantBroken
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.protocol.duties import Duties, lane_of
from octopia.protocol.messages import Publish

if TYPE_CHECKING:
    from octopia.broker.core import OctopiaBroker


def check(broker: OctopiaBroker) -> None:
    """Raise InvariantBroken, with the broker's recent inputs, if an invariant does not hold."""
    for sentence in violations(broker.state):
        raise InvariantBroken(f"broker {broker.id}: {sentence}", broker.recent_inputs)


def violations(state: State) -> Iterator[str]:
    """Yield a sentence for each invariant that does not hold."""
    yield from _clt_violations(state)
    yield from _prt_violations(state)
    yield from _client_violations(state)
    yield from _queue_violations(state)
    yield from _confirmation_violations(state)
    yield from _placement_violations(state)
    yield from _duty_violations(state)


def _clt_violations(state: State) -> Iterator[str]:
    for entry in state.clt:
        if entry.id.host_broker.region != state.id.region:
            yield f"the CLT holds {entry.id}, which was advertised in another region"
        elif entry.is_hosted_here:
            yield from _hosted_violations(state, entry)
        else:
            yield from _secondary_violations(state, entry)


def _hosted_violations(state: State, entry: CltEntry) -> Iterator[str]:
    if entry.id.host_broker != state.id:
        yield f"{entry.id} came from client {entry.last_hop}, but another broker minted its id"
    if state.cluster not in entry.civ:
        yield f"the advertisement_civ {entry.civ} of {entry.id} lacks the host bit"
    for secondary in entry.pending:
        if not state.confirms or secondary not in state.neighbourhood.secondary_neighbours:
            yield f"{entry.id} waits for an answer from {secondary}, which owes none"
    for cluster in entry.civ:
        if cluster != state.cluster and state.neighbourhood.secondary_neighbour(cluster) not in entry.versions:
            yield f"bit {cluster} of {entry.id} is set, but no update from that cluster set it"
    for secondary, directions in entry.held.items():
        if secondary not in entry.versions or bool(directions) != (secondary.cluster in entry.civ):
            yield f"{entry.id} has the CIV {entry.civ}, but {secondary} answered {list(directions)}"


def _secondary_violations(state: State, entry: CltEntry) -> Iterator[str]:
    if entry.last_hop != entry.id.host_broker:
        yield f"{entry.id} came from {entry.last_hop}, which is not its host broker"
    wanted = answers.wanted(state, entry.offer)
    # After recovery, directions that are no longer wanted are removed in slices.
    is_behind = entry.id in state.backlog.get((Task.CLEAR, state.id), {})
    if wanted - entry.directions or (entry.directions - wanted and not is_behind):
        yield f"the answer to {entry.id} is {list(entry.directions)}, but the PRT says {list(wanted)}"
    expected = state.civ_of(entry.id.host_broker.cluster, *([state.cluster] if entry.directions else []))
    if entry.civ != expected:
        yield f"the subscription_civ of {entry.id} is {entry.civ}, but the PRT says {expected}"


def _prt_violations(state: State) -> Iterator[str]:
    for entry in state.prt:
        is_hosted_here = isinstance(entry.last_hop, ClientId)
        if entry.id.host_broker.cluster != state.cluster:
            yield f"the PRT holds {entry.id}, which was subscribed in another cluster"
        if is_hosted_here != (entry.id.host_broker == state.id):
            yield f"{entry.id} came from {entry.last_hop}, which does not fit its host broker"
        if not is_hosted_here and entry.last_hop not in state.neighbourhood.primary_neighbours:
            yield f"{entry.id} came from {entry.last_hop}, which is not a primary neighbour"


def _client_violations(state: State) -> Iterator[str]:
    hosted = {entry.id: entry.last_hop for entry in state.clt if entry.is_hosted_here}
    local = {entry.id: entry.last_hop for entry in state.prt if isinstance(entry.last_hop, ClientId)}
    yield from client_violations(state, hosted, local, state.leaving)


def client_violations(
    state: CommonState,
    hosted: Mapping[AdvertisementId, Peer],
    local: Mapping[SubscriptionId, Peer],
    leaving: Mapping[ClientId, Sequence[AdvertisementId]] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield a sentence for each difference between the tables and the requests of clients, for any kind of broker."""
    issued: dict[AdvertisementId, Peer] = {}
    wanted: dict[SubscriptionId, Peer] = {}
    for client, known in state.clients.items():
        issued.update(dict.fromkeys(known.advertisements.values(), client))
        wanted.update(dict.fromkeys(known.subscriptions.values(), client))
    # Clients that have left withdraw the rest in slices.
    for (task, peer), entries in state.backlog.items():
        if task is Task.LEAVE:
            issued.update({each: peer for each in entries if isinstance(each, AdvertisementId)})
            wanted.update({each: peer for each in entries if isinstance(each, SubscriptionId)})
    # The advertisements of others stay until all of their publications are routed.
    for client, advertisements in leaving.items():
        issued.update(dict.fromkeys(advertisements, client))
    if hosted != issued:
        yield f"tables hold {len(hosted)} advertisements of clients, but clients issued {len(issued)}"
    if local != wanted:
        yield f"tables hold {len(local)} subscriptions of clients, but clients issued {len(wanted)}"
    handles = {
        each: Subscriber.of(client, handle)
        for client, known in state.clients.items()
        for handle, each in known.subscriptions.items()
    }
    present = {each: known for each, known in state.subscribers.items() if known.client in state.clients}
    if present != handles or state.subscribers.keys() != wanted.keys():
        yield "the handles by subscription do not match the subscriptions of clients"


def _queue_violations(state: State) -> Iterator[str]:
    for peer, queue in state.queues.items():
        if queue.is_down != (peer in state.down):
            yield f"the queue to {peer} and the list of links that are down do not agree"
        if queue.is_closed and not state.is_adaptive:
            yield f"the link to {peer} is closed, which only adaptive routing knows"
        for message in queue.waiting():
            if isinstance(message, Publish) and not state.is_adaptive:
                yield from _publication_violations(state, peer, message)


def _publication_violations(state: State, peer: BrokerId, message: Publish) -> Iterator[str]:
    carried = message.publication_civ
    if message.hop > state.settings.hop_limit:
        yield f"{message.id} waits for {peer} with {message.hop} hops, beyond the limit"
    if carried is None:
        return
    if not carried:
        yield f"{message.id} waits for {peer} with an empty CIV, expected none"
    if state.cluster in carried or (state.kind_of(peer) is LinkKind.ILINK and peer.cluster in carried):
        yield f"{message.id} waits for {peer} with {carried}, which names a cluster that it reaches anyway"


def _duty_violations(state: State) -> Iterator[str]:
    """Check the duties that wait here: none twice, none for a closed or dead link, none back to where it came from."""
    owed: dict[PublicationId, list[Duties]] = {}
    for link, queue in state.queues.items():
        for copy, duties in queue.with_duties():
            owed.setdefault(copy.id, []).append(duties_taken_back(Dispatch(link, duties), state.id))
            if not state.carries_data(link):
                yield f"{copy.id} waits for {link}, which is closed or down"
            if link.region == duties.origin or duties.origin in dict(duties.cross):
                yield f"{copy.id} waits for {link} and would go back to {duties.origin}"
            if copy.traffic_class != lane_of(duties, link.cluster):
                yield f"{copy.id} waits for {link} in lane {copy.traffic_class} with {duties}"
    for known in state.inputs.values():
        for (link, _), (copy, waiting) in known.placing.items():
            if waiting is not None:
                owed.setdefault(copy.id, []).append(duties_taken_back(Dispatch(link, waiting), state.id))
    for each in state.room:
        owed.setdefault(each.publication.id, []).append(each.duties)
    regions = sorted(each.region for each in state.neighbourhood.primary_neighbours)
    for publication, parts in owed.items():
        pieces = [piece for duties in parts for piece in duties.pieces(regions)]
        if len(set(pieces)) < len(pieces):
            yield f"{publication} is owed twice: {parts}"


def _confirmation_violations(state: State) -> Iterator[str]:
    settling = state.backlog.get((Task.SETTLE, state.id), {})
    for subscription, waiting in state.confirming.items():
        entry = state.prt.get(subscription)
        if entry is None or entry.last_hop != waiting.last_hop:
            yield f"{subscription} is to be confirmed to {waiting.last_hop}, but that is not its last hop in the PRT"
        for neighbour in waiting.neighbours:
            if neighbour == waiting.last_hop or neighbour not in state.neighbourhood.primary_neighbours:
                yield f"{subscription} waits for {neighbour}, which it was never forwarded to"
        for advertisement in waiting.bits:
            if advertisement not in state.clt and subscription not in settling:
                yield f"{subscription} waits for the bit of {advertisement}, which is not known"
    for named, request in state.requests.items():
        known = named in state.prt if isinstance(named, SubscriptionId) else named in state.clt
        if not known:
            yield f"client {request.client} waits for the confirmation of {named}, which is not known"


def _placement_violations(state: State) -> Iterator[str]:
    waiting = {(place, key): None for place, keys in state.blocked.items() for key in keys}
    placing = {(place, key): None for key, known in state.inputs.items() for place in known.placing}
    if waiting != placing:
        yield "the copies that wait for room and the queues that they wait for do not agree"
    for link, traffic_class in state.blocked:
        if state.queues[link].has_room(traffic_class):
            yield f"copies of class {traffic_class} wait for {link}, which has room"
    for (peer, traffic_class), known in state.inputs.items():
        if not known.waiting and not known.placing:
            yield f"the input of class {traffic_class} from {peer} is empty and was not removed"
        if known.waiting and not known.placing and state.accepts_data:
            yield f"publications of class {traffic_class} from {peer} wait for nothing"
