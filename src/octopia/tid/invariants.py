"""The invariants of a TID broker, which hold between any two inputs.

Each check is one sentence of the design, as in ``octopia.broker.invariants``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from octopia.broker.common import Task
from octopia.broker.invariants import client_violations
from octopia.content import intersects
from octopia.errors import InvariantBroken
from octopia.ids import BrokerId, ClientId
from octopia.tid.messages import TidPublish
from octopia.tid.state import TidState
from octopia.tid.tables import BoundCopy, SrtEntry

if TYPE_CHECKING:
    from octopia.tid.core import TidBroker


def check(broker: TidBroker) -> None:
    """Raise InvariantBroken, with the broker's recent inputs, if an invariant does not hold."""
    for sentence in violations(broker.state):
        raise InvariantBroken(f"broker {broker.id}: {sentence}", broker.recent_inputs)


def violations(state: TidState) -> Iterator[str]:
    """Yield a sentence for each invariant that does not hold."""
    for entry in state.srt:
        yield from _srt_violations(state, entry)
    for copy in state.prt:
        yield from _copy_violations(state, copy)
    yield from _binding_violations(state)
    yield from _client_violations(state)
    yield from _queue_violations(state)
    if state.delivered and not state.is_dynamic:
        yield "deliveries are remembered, although static routing makes no duplicates"


def _srt_violations(state: TidState, entry: SrtEntry) -> Iterator[str]:
    if not state.srt.has_seen(entry.tid):
        yield f"the SRT holds {entry.tid}, which is not recorded as seen"
    if entry.is_hosted_here != (entry.tid.host_broker == state.id):
        yield f"{entry.tid} came from {entry.last_hop}, which does not fit its host broker"
    if not entry.is_hosted_here and entry.last_hop not in state.queues:
        yield f"{entry.tid} came from {entry.last_hop}, which is not a neighbour"


def _copy_violations(state: TidState, copy: BoundCopy) -> Iterator[str]:
    bound = f"{copy.subscription} bound to {copy.tid}"
    advertisement = state.srt.get(copy.tid)
    if advertisement is None:
        yield f"the PRT holds {bound}, which is not advertised"
    elif advertisement.last_hop == copy.last_hop and isinstance(copy.last_hop, BrokerId):
        yield f"{bound} came from {copy.last_hop}, which is nearer to the publisher"
    if isinstance(copy.last_hop, ClientId) != (copy.subscription.host_broker == state.id):
        yield f"{bound} came from {copy.last_hop}, which does not fit its host broker"
    is_leaving = (Task.LEAVE, copy.last_hop) in state.backlog
    if copy.last_hop not in state.queues and copy.last_hop not in state.clients and not is_leaving:
        yield f"{bound} came from {copy.last_hop}, which is not a neighbour"
    if copy not in state.prt.copies_of(copy.subscription):
        yield f"{bound} cannot be found by its subscription"


def _binding_violations(state: TidState) -> Iterator[str]:
    """Compare the local copies with all intersecting pairs of a local subscription and an advertisement."""
    local = [(copy.subscription, copy.tid) for copy in state.prt if isinstance(copy.last_hop, ClientId)]
    expected = [
        (subscription.id, entry.tid)
        for subscription in state.unbound
        for entry in state.srt
        if intersects(entry.offer, subscription.interest)
    ]
    if sorted(local) != sorted(expected):
        yield f"{len(local)} copies of local subscriptions are bound, but {len(expected)} pairs intersect"


def _client_violations(state: TidState) -> Iterator[str]:
    hosted = {entry.tid: entry.last_hop for entry in state.srt if entry.is_hosted_here}
    local = {subscription.id: subscription.subscriber for subscription in state.unbound}
    yield from client_violations(state, hosted, local)


def _queue_violations(state: TidState) -> Iterator[str]:
    for peer, queue in state.queues.items():
        for message in queue.waiting():
            if isinstance(message, TidPublish) and message.hop > state.settings.hop_limit:
                yield f"{message.id} waits for {peer} with {message.hop} hops, beyond the limit"
