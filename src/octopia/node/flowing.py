"""The movement of messages from the queues of a broker and the mailboxes of clients into the sessions of links.

Plain Python that Cython compiles (``flowing.pxd`` has the C types).
"""

from __future__ import annotations

from collections.abc import Sequence

from octopia.broker import Broker
from octopia.node.links import ClientLink, Link, NeighbourLink
from octopia.node.pouring import pour, pour_replies, take_all
from octopia.node.settings import NodeSettings
from octopia.protocol import ALL_CLASSES, CONTROL, CONTROL_ONLY, Item, MessageKind
from octopia.protocol.messages import Message

_FLOW_MAX = 1000
"""The number of messages that one call moves to a link."""


def flow(broker: Broker, link: NeighbourLink, now_ms: float) -> bool:
    """Move messages to a neighbour as far as its credit goes; return whether more would move if called again."""
    peer, session = link.peer, link.session
    if session is None:
        _flow_freely(broker, link, now_ms)
        return False
    if not session.is_up or link.is_paused:
        return False
    if link.in_service is not None and not link.is_paced:  # It was taken before the link ceased to be paced.
        session.send(link.in_service, now_ms)
        link.in_service = None
    left = _FLOW_MAX
    while left:
        queue = None if link.is_paced else broker.outlet(peer, now_ms)
        if queue is not None and not queue.has_control:
            poured = pour(queue, *session.begin_output(now_ms), now_ms, left)
            broker.counters.sent[MessageKind.PUBLICATION] += poured
            return poured == left
        taken = broker.take(peer, now_ms, CONTROL_ONLY if link.is_paced else session.classes)
        if taken is None:
            return False
        session.send(taken, now_ms)
        left -= 1
    return True


def _flow_freely(broker: Broker, link: NeighbourLink, now_ms: float) -> None:
    """Move all messages to a neighbour without a session, only control messages if the link is paced."""
    peer = link.peer
    if link.is_paced:
        if broker.has_control(peer):
            link.taken += broker.take_all(peer, now_ms, CONTROL_ONLY)
        return
    queue = broker.outlet(peer, now_ms)
    if queue is not None and not queue.has_control:
        copies = take_all(queue, link.taken, now_ms)
        broker.counters.sent[MessageKind.PUBLICATION] += copies
    else:
        batch = broker.take_all(peer, now_ms, ALL_CLASSES)
        copies = sum([each.traffic_class != CONTROL for each in batch])
        link.taken += batch
    if broker.reroutes:
        broker.carried(peer, copies, now_ms)


def flow_to_client(link: ClientLink, settings: NodeSettings, now_ms: float) -> None:
    """Move what waits for a client into its session, if it can be sent more."""
    mailbox = link.mailbox
    if link.session is None:
        taken: list[Message] = mailbox.take_answers() if link.is_paced else mailbox.take_all()  # type: ignore[assignment]
        link.taken = link.taken + taken if link.taken else taken
    elif not mailbox.is_empty and can_write(link, settings):
        pour_replies(mailbox.take_all(), *link.session.begin_output(now_ms))


def can_write(link: ClientLink, settings: NodeSettings) -> bool:
    """Return whether a client can be sent more; not while it has left too many replies unacknowledged."""
    session = link.session
    if session is None:
        return True
    if link.is_paused or not session.is_up:
        return False
    return session.unacknowledged < settings.client_queue_limit and session.kept_bytes < settings.client_queue_bytes


def output_of(link: Link, now_ms: float, acknowledge: bool) -> Sequence[Item] | Sequence[Message]:
    """Return what a link wants written; without acknowledgements, also without a greeting, which is one too."""
    session = link.session
    if session is None:
        taken, link.taken = link.taken, []
        return taken
    # Acknowledgements do not pile up for a peer that reads nothing.
    if link.is_paused:
        return ()
    if not acknowledge and not session.has_output:
        return []
    if not acknowledge and session.has_greeting:
        return ()
    return session.drain(now_ms, acknowledge=acknowledge)
