"""What must always hold at a broker, between any two inputs; callable from anywhere.

Each check is one sentence of the design. They read tables and queues only, and cost time in proportion to them, so
drivers call them on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from octopia.broker.messages import Publish
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.errors import InvariantBroken
from octopia.ids import BrokerId, ClientId, LinkKind

if TYPE_CHECKING:
    from octopia.broker.core import OctopiaBroker


def check(broker: OctopiaBroker) -> None:
    """Raise InvariantBroken, with the broker's recent inputs, if something that must always hold does not."""
    for sentence in violations(broker.state):
        raise InvariantBroken(f"broker {broker.id}: {sentence}", broker.recent_inputs)


def violations(state: State) -> Iterator[str]:
    """Yield a sentence for everything that must hold and does not."""
    yield from _clt_violations(state)
    yield from _prt_violations(state)
    yield from _client_violations(state)
    yield from _queue_violations(state)


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
        yield f"{entry.id} came from client {entry.last_hop}, but was named by another broker"
    if state.cluster not in entry.civ:
        yield f"the advertisement_civ {entry.civ} of {entry.id} lacks the host bit"
    for cluster in entry.civ:
        if cluster != state.cluster and state.neighbourhood.secondary_neighbour(cluster) not in entry.versions:
            yield f"bit {cluster} of {entry.id} is set, but no update from that cluster set it"


def _secondary_violations(state: State, entry: CltEntry) -> Iterator[str]:
    if entry.last_hop != entry.id.host_broker:
        yield f"{entry.id} came from {entry.last_hop}, which is not its host broker"
    wanted = state.prt.any_intersecting(entry.offer)
    expected = state.civ_of(entry.id.host_broker.cluster, *([state.cluster] if wanted else []))
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
    issued = {each: client for client, known in state.clients.items() for each in known.advertisements.values()}
    wanted = {each: client for client, known in state.clients.items() for each in known.subscriptions.values()}
    if hosted != issued:
        yield f"the CLT holds {len(hosted)} advertisements of clients, but clients issued {len(issued)}"
    if local != wanted:
        yield f"the PRT holds {len(local)} subscriptions of clients, but clients issued {len(wanted)}"
    for client, known in state.clients.items():
        if known.handles != {each: handle for handle, each in known.subscriptions.items()}:
            yield f"the handles of client {client} do not mirror its subscriptions"


def _queue_violations(state: State) -> Iterator[str]:
    for peer, queue in state.queues.items():
        waiting = queue.waiting()
        if isinstance(peer, ClientId):
            limit = state.settings.client_queue_limit
            if len(queue) > limit:
                yield f"{len(queue)} deliveries wait for client {peer}, more than the {limit} allowed"
            if peer not in state.clients:
                yield f"there is a queue for client {peer}, which is not attached"
            continue
        for message in waiting:
            if isinstance(message, Publish):
                yield from _publication_violations(state, peer, message)


def _publication_violations(state: State, peer: BrokerId, message: Publish) -> Iterator[str]:
    carried = message.publication_civ
    if message.hop > state.settings.hop_limit:
        yield f"{message.id} waits for {peer} with {message.hop} hops, beyond the limit"
    if carried is None:
        return
    if not carried:
        yield f"{message.id} waits for {peer} with an empty CIV where it should carry none"
    if state.cluster in carried or (state.kind_of(peer) is LinkKind.ILINK and peer.cluster in carried):
        yield f"{message.id} waits for {peer} with {carried}, which names a cluster that it reaches anyway"
