"""Losses of publications: counted by cause, and told to every subscriber that may have missed something.

A publication is lost for the subscribers behind the place of the loss. So a *gap notice* goes the way that the
publication would have gone, as an ordinary control message:

- Publications that were for a link are followed over this link. While the link is down, the notice is *owed*; it is
  sent once the link is up. If the link goes down, or the neighbour loses its state, before the notice arrived, it is
  owed again. A notice for several clusters enters the others from the receiver's region.
- Under adaptive routing, copies for the clients of one broker that cannot be reached may expire at another broker of
  its region. Their notice is for that broker alone: everybody else got the publications another way.
- A neighbour that lost its state may have held publications for everybody on this side of the link. The same is true of
  one that cannot be reached for ``down_limit_ms``: beyond that time, other brokers drop what waits for it. Every
  neighbour of such a broker tells its own side, so that everybody is told once.
- A recovering broker that went on without a primary neighbour did not know the subscriptions behind it. The notice is
  sent once the neighbour has named them all. Under adaptive routing, a secondary neighbour that it went on without does
  not know the subscriptions confirmed since. The notice goes to this cluster once the neighbour can be reached.

So a subscriber that was told nothing has missed nothing. The reverse does not hold: a notice names no publications, and
most of those who are told have missed none.
"""

from __future__ import annotations

from collections.abc import Iterable

from octopia.broker.state import Owed, State
from octopia.ids import BrokerId, Peer
from octopia.protocol.causes import Cause
from octopia.protocol.duties import Duties, Origin, clusters_of
from octopia.protocol.messages import Gap, GapNotice, Message, Publish, PublishRequest


def follow(state: State, link: BrokerId, cause: Cause, count: int, clusters: int = 0) -> None:
    """Send a notice after publications that were lost on their way over a link, now or when the link is up."""
    if link in state.down:
        owed = state.owed.setdefault(link, {}).setdefault(cause, Owed())
        owed.count += count
        owed.clusters |= clusters
    else:
        state.send(link, GapNotice(cause, count, clusters))


def tell_subscribers(state: State, cause: Cause, count: int) -> None:
    """Notify the subscribers of this broker."""
    for client, known in state.clients.items():
        if known.subscriptions:
            state.tell(client, Gap(cause, count))


def tell_beyond(state: State, source: Peer | None, cause: Cause, count: int, clusters: int = 0) -> None:
    """Send notices to everybody whom a publication from ``source`` could have reached through this broker."""
    tell_subscribers(state, cause, count)
    for neighbour in state.neighbourhood.primary_neighbours:
        if neighbour != source:
            follow(state, neighbour, cause, count)
    for secondary in state.neighbourhood.secondary_neighbours:
        if secondary != source and clusters >> secondary.cluster & 1:
            follow(state, secondary, cause, count)


def found_no_way(state: State, duties: Duties) -> None:
    """Count a publication that was lost here with its duties, and send notices wherever it still had to go.

    What was for the clients of one broker is counted apart, since that broker may have none that want it.
    """
    if duties.origin is Origin.LOCAL:
        for cluster in clusters_of(duties.enter):
            broker = state.neighbourhood.secondary_neighbour(cluster)
            state.count_loss(Cause.UNREACHABLE_BROKER, 1, broker)
            follow(state, broker, Cause.UNREACHABLE_BROKER, 1)
        return
    cause = Cause.LINK_DOWN
    state.count_loss(cause, 1, None)
    for neighbour in state.neighbourhood.primary_neighbours:
        clusters = dict(duties.cross).get(neighbour.region, 0)
        if clusters:
            follow(state, neighbour, cause, 1, clusters)
    for secondary in state.neighbourhood.secondary_neighbours:
        if duties.enter >> secondary.cluster & 1:
            follow(state, secondary, cause, 1)


def on_notice(state: State, sender: BrokerId, notice: GapNotice) -> None:
    """Pass a notice on, unless it concerns the clients of this broker alone."""
    if notice.cause is Cause.UNREACHABLE_BROKER:
        tell_subscribers(state, notice.cause, notice.count)
    else:
        tell_beyond(state, sender, notice.cause, notice.count, notice.clusters)


def dropped_for(state: State, link: BrokerId, cause: Cause, dropped: Iterable[Message]) -> None:
    """Count the publications that were lost on their way over a link, and follow them; notices among them go again."""
    count = clusters = 0
    for message in dropped:
        if isinstance(message, Publish):
            count += 1
            clusters |= _clusters_of([message])
        elif isinstance(message, GapNotice):
            follow(state, link, message.cause, message.count, message.clusters)
    if count:
        state.count_loss(cause, count, link)
        follow(state, link, cause, count, clusters)


def dropped_from(state: State, source: Peer, cause: Cause, dropped: Iterable[Message]) -> None:
    """Count publications from a link that were lost here, and tell those whom they could have reached."""
    publications = [each for each in dropped if isinstance(each, Publish | PublishRequest)]
    if publications:
        state.count_loss(cause, len(publications), source)
        clusters = _clusters_of(publications) if isinstance(source, BrokerId) else _everywhere(state)
        tell_beyond(state, source, cause, len(publications), clusters)


def beyond_hop_limit(state: State, source: Peer, publication: Publish, copies: int) -> None:
    """Count the copies of a publication that has come too far, and tell those whom they could have reached."""
    state.count_loss(Cause.HOP_LIMIT, copies, source)
    tell_beyond(state, source, Cause.HOP_LIMIT, 1, _clusters_of([publication]))


def neighbour_restarted(state: State, neighbour: BrokerId) -> None:
    """Send notices on this side of a link: the neighbour has lost its state, and whatever it held."""
    state.count_loss(Cause.RESTART, 0, neighbour)
    tell_beyond(state, neighbour, Cause.RESTART, 0)


def left_behind(state: State, count: int) -> None:
    """Send notices to everybody: this broker stops with publications that it could not pass on."""
    state.count_loss(Cause.SHUTDOWN, count, None)
    tell_beyond(state, None, Cause.SHUTDOWN, count, _everywhere(state))


def admitted_early(state: State, missing: Iterable[BrokerId]) -> None:
    """Send notices about neighbours that were not known while publications were admitted.

    Subscriptions behind a primary neighbour were not known here. Those of this cluster were not known to a secondary
    neighbour.
    """
    for neighbour in missing:
        if neighbour in state.neighbourhood.primary_neighbours:
            follow(state, neighbour, Cause.GRACE, 0)
        else:
            state.count_loss(Cause.GRACE, 0, neighbour)
            tell_beyond(state, neighbour, Cause.GRACE, 0)


def link_came_up(state: State, link: BrokerId) -> None:
    """Send the notices that are owed to a neighbour."""
    state.overdue.pop(link, None)
    for cause, owed in state.owed.pop(link, {}).items():
        state.send(link, GapNotice(cause, owed.count, owed.clusters))


def pass_limit(state: State) -> None:
    """Send notices on this side of every link that has now been down for longer than publications wait for it."""
    for link in state.down:
        due_ms = overdue_at_ms(state, link)
        if due_ms is not None and state.now_ms >= due_ms:
            state.overdue[link] = None
            state.count_loss(Cause.LINK_DOWN, 0, link)
            tell_beyond(state, link, Cause.LINK_DOWN, 0)


def overdue_at_ms(state: State, link: BrokerId) -> float | None:
    """Return when a link that is down has been so for too long, or None if that was already told."""
    since_ms = state.queues[link].down_since_ms
    return None if since_ms is None or link in state.overdue else since_ms + state.settings.down_limit_ms


def _clusters_of(messages: Iterable[Message]) -> int:
    clusters = 0
    for message in messages:
        if isinstance(message, Publish) and message.publication_civ is not None:
            clusters |= message.publication_civ.bits
        if isinstance(message, Publish) and message.detour is not None:
            for _, carried in message.detour.cross:
                clusters |= carried
    return clusters


def _everywhere(state: State) -> int:
    return (1 << state.neighbourhood.clusters) - 1
