"""The exchange of state at link up, and the recovery of a restarted broker.

Over an aLink both sides send a digest of the subscriptions that the other side should know from them. Over an iLink
both sides send a digest of the advertisements that they host. A broker fetches what it lacks, and removes what a
*complete* digest does not name. A secondary broker answers a digest of advertisements with its bits.

A broker that lost its state is *recovering*. It handles control messages, but routes no publications. Its digest to a
primary neighbour is complete once every other primary neighbour has sent it a complete one, and is then sent again. Its
PRT is complete when all primary neighbours have. Until then it answers that its cluster wants everything; afterwards it
unsets the bits that nobody needs. So no broker forgets what lies behind a restarted broker, and no bit is lost. If a
neighbour stays silent beyond the grace period, publications are admitted again and clients are notified of the gap, but
incomplete digests stay incomplete.
"""

from __future__ import annotations

from octopia.broker import advertising, confirming, placing, subscribing
from octopia.broker.state import Recovery, State
from octopia.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    CivState,
    Fetch,
    Gap,
    Subscribe,
    SubscriptionDigest,
)


def begin_recovery(state: State) -> None:
    """Start recovery without any state; a broker without neighbours has nothing to recover."""
    neighbourhood = state.neighbourhood
    state.recovery = Recovery(
        dict.fromkeys(neighbourhood.primary_neighbours),
        dict.fromkeys(neighbourhood.secondary_neighbours),
        grace_until_ms=state.now_ms + state.settings.grace_ms,
    )
    progress(state)


def greet(state: State, peer: BrokerId) -> None:
    """Send the digest that opens a link."""
    if peer in state.neighbourhood.primary_neighbours:
        _send_subscription_digest(state, peer)
    else:
        hosted = sorted(entry.id for entry in state.clt if entry.is_hosted_here)
        state.send(peer, AdvertisementDigest(tuple(hosted)))


def on_subscription_digest(state: State, sender: BrokerId, digest: SubscriptionDigest) -> None:
    """Fetch missing subscriptions, remove those a complete digest does not name, and repeat confirmations."""
    named = dict.fromkeys(digest.subscriptions)
    missing = [each for each in digest.subscriptions if each not in state.prt]
    if missing:
        state.send(sender, Fetch(subscriptions=tuple(missing)))
    if digest.complete:
        gone = sorted(entry.id for entry in state.prt if entry.last_hop == sender and entry.id not in named)
        for subscription in gone:
            subscribing.remove_and_spread(state, sender, subscription)
    confirming.confirm_again(state, sender, digest.unconfirmed)
    if state.recovery is not None:
        state.recovery.awaited[sender] = dict.fromkeys(missing)
        if digest.complete:
            state.recovery.incomplete.pop(sender, None)
        progress(state)


def on_advertisement_digest(state: State, host_broker: BrokerId, digest: AdvertisementDigest) -> None:
    """Remove advertisements that are gone, fetch missing ones, and answer with our bits for the rest."""
    named = dict.fromkeys(digest.advertisements)
    gone = [entry.id for entry in state.clt if entry.last_hop == host_broker and entry.id not in named]
    for advertisement in gone:
        advertising.forget(state, advertisement)
    missing = [each for each in digest.advertisements if each not in state.clt]
    if missing:
        state.send(host_broker, Fetch(advertisements=tuple(missing)))
    _send_civ_state(state, host_broker)
    if state.recovery is not None:
        state.recovery.unmet.pop(host_broker, None)
        state.recovery.awaited_advertisements[host_broker] = dict.fromkeys(missing)
        progress(state)


def on_fetch(state: State, sender: BrokerId, message: Fetch) -> None:
    """Send what a neighbour lacks; anything withdrawn meanwhile needs no answer, its withdrawal is on its way."""
    for subscription in message.subscriptions:
        known = state.prt.get(subscription)
        if known is not None and known.last_hop != sender:
            state.send(sender, Subscribe(subscription, known.interest))
    for advertisement in message.advertisements:
        entry = state.clt.get(advertisement)
        if entry is not None and entry.is_hosted_here:
            state.send(sender, Advertise(advertisement, entry.offer))


def subscription_arrived(state: State, sender: BrokerId, subscription: SubscriptionId) -> None:
    """Record that a fetched subscription has arrived, or was withdrawn instead."""
    if state.recovery is not None:
        state.recovery.awaited.get(sender, {}).pop(subscription, None)
        progress(state)


def advertisement_arrived(state: State, sender: BrokerId, advertisement: AdvertisementId) -> None:
    """Record that a fetched advertisement has arrived, or was withdrawn instead."""
    if state.recovery is not None:
        state.recovery.awaited_advertisements.get(sender, {}).pop(advertisement, None)
        progress(state)


def progress(state: State) -> None:
    """Take the recovery steps that have become possible."""
    recovery = state.recovery
    if recovery is None:
        return
    primary, secondary = state.neighbourhood.primary_neighbours, state.neighbourhood.secondary_neighbours
    for neighbour in primary:
        if neighbour not in recovery.told_complete and _is_complete_towards(state, neighbour):
            _send_subscription_digest(state, neighbour)
    knows_cluster = all(recovery.knows_all_from(each) for each in primary)
    if knows_cluster and not recovery.knows_cluster:
        recovery.knows_cluster = True
        subscribing.clear_unwanted_bits(state, [entry for entry in state.clt if not entry.is_hosted_here])
        placing.resume_all(state)
    if knows_cluster and all(recovery.has_met(each) for each in secondary):
        state.recovery = None
    confirming.settle_all(state)


def pass_grace(state: State) -> None:
    """Continue without silent neighbours after the grace period: admit publications, and notify clients of the gap."""
    recovery = state.recovery
    if recovery is None or recovery.grace_passed or state.now_ms < recovery.grace_until_ms:
        return
    incomplete = not state.prt_is_complete
    recovery.grace_passed = True
    if incomplete:
        state.counters.admitted_by_grace += 1
        for client in state.clients:
            tell_of_gap(state, client)
    placing.resume_all(state)
    confirming.settle_all(state)


def tell_of_gap(state: State, client: ClientId) -> None:
    """Notify a client if this broker may miss publications."""
    if state.recovery is not None and state.recovery.grace_passed and not state.prt_is_complete:
        state.tell(client, Gap())


def _is_complete_towards(state: State, neighbour: BrokerId) -> bool:
    recovery = state.recovery
    if recovery is None:
        return True
    others = [each for each in state.neighbourhood.primary_neighbours if each != neighbour]
    return all(recovery.knows_all_from(each) for each in others)


def _send_subscription_digest(state: State, neighbour: BrokerId) -> None:
    known = sorted(entry.id for entry in state.prt if entry.last_hop != neighbour)
    unconfirmed = [each for each in sorted(state.confirming) if neighbour in state.confirming[each].neighbours]
    complete = _is_complete_towards(state, neighbour)
    if complete and state.recovery is not None and not state.queues[neighbour].is_down:
        state.recovery.told_complete[neighbour] = None
    state.send(neighbour, SubscriptionDigest(tuple(known), tuple(unconfirmed), complete))


def _send_civ_state(state: State, host_broker: BrokerId) -> None:
    entries = [entry for entry in state.clt if entry.last_hop == host_broker]
    if not entries:
        return
    version = state.mint_version()
    for entry in entries:
        entry.sent = version
    wanted = sorted(entry.id for entry in entries if state.cluster in entry.civ)
    unwanted = sorted(entry.id for entry in entries if state.cluster not in entry.civ)
    state.send(host_broker, CivState(tuple(wanted), tuple(unwanted), version))
