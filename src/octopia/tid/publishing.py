"""The routing of a publication at one TID broker (paper section 2).

The host broker binds the publication to the TID of one advertisement. From there on, every broker matches content and
TID, serves its own clients and passes copies on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from octopia.broker.clients import advertised_by, refuse
from octopia.content.nonconformance import explain_nonconformance
from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol import Cause
from octopia.protocol.messages import PublishRequest
from octopia.settings import PathSelection
from octopia.tid.deliveries import deliver_locally
from octopia.tid.messages import TidPublish
from octopia.tid.path_selection import Path, select_dynamically
from octopia.tid.state import TidState
from octopia.tid.tables import BoundCopy


class View:
    """The view of a broker for path selection: it reads everything and changes only counters."""

    __slots__ = ("_state",)

    def __init__(self, state: TidState):
        self._state = state

    def congested(self, link: BrokerId) -> bool:
        """Apply Eq. 3 to the queue of a link."""
        return self._state.queues[link].congested(self._state.now_ms)

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of a queue as routing sees it."""
        return self._state.queues[link].length

    def copies_of(self, subscriptions: Sequence[SubscriptionId]) -> Mapping[SubscriptionId, Sequence[BoundCopy]]:
        """Find bound copies by lookup or by scan, as set; both find the same, and count the entries they read."""
        state = self._state
        state.counters.searches += 1
        if state.settings.routing.path_selection is PathSelection.LINEAR:
            state.counters.entries_scanned += len(state.prt)
            return state.prt.scan_for(subscriptions)
        found = {each: state.prt.copies_of(each) for each in subscriptions}
        state.counters.entries_scanned += sum(map(len, found.values()))
        return found


def publish_for_client(state: TidState, publisher: ClientId, request: PublishRequest) -> None:
    """Bind a local publisher's publication to the lowest conforming TID and route it, or refuse it."""
    advertisements = state.srt.conforming(request.publication, publisher)
    if not advertisements:
        own = (entry.offer for each in advertised_by(state, publisher) if (entry := state.srt.get(each)))
        reason = explain_nonconformance(own, request.publication)
        refuse(state, publisher, TidPublish.kind, request.sequence, reason)
        return
    tid = advertisements[0].tid
    publication = TidPublish(state.mint_publication(), request.publication, tid, 0, request.published_ms)
    state.trace_request(
        publisher, publication.kind, publication.id, request.sequence, published_ms=request.published_ms
    )
    route(state, publisher, publication)


def route(state: TidState, came_from: Peer, publication: TidPublish) -> None:
    """Serve local subscribers, and send copies on."""
    advertisement = state.srt.get(publication.tid)
    if advertisement is None:
        state.counters.orphaned += 1
        state.trace_drop(publication, None, 1, "its tree has been withdrawn")
        return
    matched = state.prt.matching(publication.publication, publication.tid)
    deliver_locally(state, publication, matched)
    paths = _select(state, came_from, matched, dynamically=state.is_dynamic and not advertisement.ordered)
    if publication.hop < state.settings.hop_limit:
        _forward(state, publication, paths)
    elif paths:
        state.count_loss(Cause.HOP_LIMIT, len(paths), None)
        limit = state.settings.hop_limit
        reason = f"its {len(paths)} copies would go beyond the hop limit of {limit}"
        state.trace_drop(publication, None, len(paths), reason)


def _select(state: TidState, came_from: Peer, matched: tuple[BoundCopy, ...], *, dynamically: bool) -> Sequence[Path]:
    choices = state.kept_choices.of(matched, state.choices_for)
    if not dynamically:
        return choices.select_statically(came_from)
    routing = state.settings.routing
    if routing.path_selection is PathSelection.LINEAR:
        return select_dynamically(matched, came_from, View(state), routing.tid_copies)
    paths, read = choices.select_dynamically(came_from, View(state), routing.tid_copies)
    if read is not None:
        state.counters.searches += 1
        state.counters.entries_scanned += read
    return paths


def _forward(state: TidState, publication: TidPublish, paths: Sequence[Path]) -> None:
    hop = publication.hop + 1
    for path in paths:
        copy = TidPublish(publication.id, publication.publication, path.tid, hop, publication.published_ms)
        if path.tid != publication.tid:
            state.counters.rewritten += 1
            state.queues[path.next_hop].sent_rerouted += 1
        state.forward(path.next_hop, copy, copy.traffic_class)
