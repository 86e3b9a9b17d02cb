"""The exchange of state at link up, and the recovery of a restarted broker.

Over an aLink both sides send a digest of the subscriptions that the other side should know from them. Over an iLink
both sides send a digest of the advertisements that they host. A broker fetches what it lacks, and removes what a
*complete* digest does not name. A secondary broker answers a digest of advertisements with its bits. A long digest
comes in parts. Entries issued meanwhile are sent on their own, withdrawn ones are left out of later parts, and the last
part says whether the digest is complete.

A broker that lost its state is *recovering*. It handles control messages, but routes no publications. Its digest to a
primary neighbour is complete once every other primary neighbour has sent it a complete one, and is then sent again. Its
PRT is complete when all primary neighbours have. Until then it answers that its cluster wants everything; afterwards it
unsets the bits that nobody needs. Under adaptive routing it does so for each direction on its own. So no broker forgets
what lies behind a restarted broker, and no bit is lost. If a neighbour stays silent beyond the grace period,
publications are admitted again and clients are notified of the gap, but incomplete digests stay incomplete.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from octopia.broker import advertising, answers, confirming, losses, placing, subscribing
from octopia.broker.state import Recovery, State, Task
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from octopia.protocol import Cause
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
    state.recovery = recovery = Recovery(
        dict.fromkeys(neighbourhood.primary_neighbours),
        dict.fromkeys(neighbourhood.secondary_neighbours),
        grace_until_ms=state.now_ms + state.settings.grace_ms,
        unheard=dict.fromkeys(neighbourhood.primary_neighbours),
    )
    _note_region(state, recovery)


def greet(state: State, peer: BrokerId) -> None:
    """Send the digest that opens a link."""
    if peer in state.neighbourhood.primary_neighbours:
        _send_subscription_digest(state, peer)
    else:
        hosted = [entry.id for entry in state.clt if entry.is_hosted_here]
        state.backlog.pop((Task.DIGEST, peer), None)
        first, rest = hosted[: state.settings.slice_max], hosted[state.settings.slice_max :]
        if rest:
            state.put_off(Task.DIGEST, peer, rest)
        _name_advertisements(state, peer, first, continues=False)


def on_subscription_digest(state: State, sender: BrokerId, digest: SubscriptionDigest) -> None:
    """Fetch missing subscriptions, remove those a complete digest does not name, and repeat confirmations."""
    if not digest.continues:
        state.unnamed[sender] = {entry.id: None for entry in state.prt if entry.last_hop == sender}
    unnamed = state.unnamed.get(sender)
    if unnamed is None:
        return  # The link was lost since its first part. The next digest names everything again.
    missing = [each for each in digest.subscriptions if each not in state.prt]
    if missing:
        state.send(sender, Fetch(subscriptions=tuple(missing)))
    for subscription in digest.subscriptions if unnamed else ():
        unnamed.pop(subscription, None)
    if digest.complete:
        del state.unnamed[sender]
        if unnamed:
            state.put_off(Task.REMOVE, sender, unnamed)
    confirming.confirm_again(state, sender, digest.unconfirmed)
    if state.recovery is not None:
        awaited = state.recovery.awaited.setdefault(sender, {})
        if awaited and not digest.continues:
            # Entries of the digest before have not arrived. Only a complete digest can name them all again.
            state.recovery.incomplete[sender] = None
            awaited.clear()
        awaited.update(dict.fromkeys(missing))
        if digest.complete:
            state.recovery.incomplete.pop(sender, None)
        progress(state)


def remove(state: State, sender: BrokerId, subscriptions: Iterable[SubscriptionId]) -> None:
    """Remove subscriptions that a complete digest did not name."""
    for subscription in subscriptions:
        entry = state.prt.get(subscription)
        if entry is not None and entry.last_hop == sender:
            subscribing.remove_and_spread(state, sender, subscription)


def on_advertisement_digest(state: State, host_broker: BrokerId, digest: AdvertisementDigest) -> None:
    """Fetch missing advertisements, answer with our bits for the rest, and remove those that no part has named."""
    foreign = [each for each in digest.advertisements if each.host_broker != host_broker]
    if foreign:
        raise ProtocolViolation(f"{host_broker} may name its own advertisements only, got {foreign[0]}")
    if not digest.continues:
        known = {entry.id: None for entry in state.clt if entry.last_hop == host_broker}
        state.unnamed_advertisements[host_broker] = known
    unnamed = state.unnamed_advertisements.get(host_broker)
    if unnamed is None:
        return  # The link was lost since its first part. The next digest names everything again.
    missing = [each for each in digest.advertisements if each not in state.clt]
    if missing:
        state.send(host_broker, Fetch(advertisements=tuple(missing)))
    for advertisement in digest.advertisements:
        unnamed.pop(advertisement, None)
    _send_civ_state(state, host_broker, digest.advertisements)
    if digest.complete:
        del state.unnamed_advertisements[host_broker]
        if unnamed:
            state.put_off(Task.REMOVE, host_broker, unnamed)
    if state.recovery is not None:
        awaited = state.recovery.awaited_advertisements.setdefault(host_broker, {})
        if awaited and not digest.continues:
            state.recovery.unmet[host_broker] = None
            awaited.clear()
        awaited.update(dict.fromkeys(missing))
        if digest.complete:
            state.recovery.unmet.pop(host_broker, None)
        _note_region(state, state.recovery)


def on_fetch(state: State, sender: BrokerId, message: Fetch) -> None:
    """Send what a neighbour lacks; anything withdrawn meanwhile needs no answer, its withdrawal is on its way."""
    if message.subscriptions:
        state.put_off(Task.ANSWER, sender, message.subscriptions)
    if message.advertisements:
        advertising.drop_answers(state, sender, message.advertisements)
        state.put_off(Task.ANSWER, sender, message.advertisements)


def continue_over_ilink(
    state: State, task: Task, secondary: BrokerId, advertisements: Sequence[AdvertisementId]
) -> None:
    """Handle a slice of the exchange with a secondary neighbour."""
    if task is Task.DIGEST:
        _name_advertisements(state, secondary, advertisements)
        return
    for advertisement in advertisements:
        entry = state.clt.get(advertisement)
        if entry is None:
            continue
        if task is Task.ANSWER and entry.is_hosted_here:
            state.send(secondary, Advertise(advertisement, entry.offer))
        elif task is Task.REMOVE and entry.last_hop == secondary:
            advertising.forget(state, advertisement)


def answer(state: State, neighbour: BrokerId, subscriptions: Iterable[SubscriptionId]) -> None:
    """Send fetched subscriptions to a neighbour."""
    for subscription in subscriptions:
        known = state.prt.get(subscription)
        if known is not None and known.last_hop != neighbour:
            state.send(neighbour, Subscribe(subscription, known.interest))


def link_lost(state: State, peer: BrokerId) -> None:
    """Stop an exchange with a neighbour; it starts again when the link is back."""
    state.unnamed.pop(peer, None)
    state.unnamed_advertisements.pop(peer, None)
    state.backlog.pop((Task.ANSWER, peer), None)
    state.backlog.pop((Task.DIGEST, peer), None)
    if state.recovery is not None:
        # The digest at link up may be incomplete again, if subscriptions are on their way here.
        state.recovery.told_complete.pop(peer, None)


def subscription_arrived(state: State, sender: BrokerId, subscription: SubscriptionId) -> None:
    """Record that a fetched subscription has arrived, or was withdrawn instead."""
    awaited = state.recovery.awaited.get(sender) if state.recovery is not None else None
    if awaited and subscription in awaited:
        del awaited[subscription]
        if not awaited:
            progress(state)


def advertisement_arrived(state: State, sender: BrokerId, advertisement: AdvertisementId) -> None:
    """Record that a fetched advertisement has arrived, or was withdrawn instead."""
    recovery = state.recovery
    awaited = recovery.awaited_advertisements.get(sender) if recovery is not None else None
    if recovery is not None and awaited and advertisement in awaited:
        del awaited[advertisement]
        if not awaited:
            _note_region(state, recovery)


def _note_region(state: State, recovery: Recovery) -> None:
    """Record whether the advertisements of all secondary neighbours are known; no subscription is confirmed before."""
    knew_region = recovery.knows_region
    recovery.knows_region = all(map(recovery.has_met, state.neighbourhood.secondary_neighbours))
    progress(state)
    if recovery.knows_region and not knew_region:
        confirming.settle_all(state)


def progress(state: State) -> None:
    """Take the recovery steps that have become possible."""
    recovery = state.recovery
    if recovery is None:
        return
    primary = state.neighbourhood.primary_neighbours
    unknown = answers.unknown(state)
    for neighbour in primary:
        # A digest under way says at its end that it is complete.
        is_told = neighbour in recovery.told_complete or (Task.DIGEST, neighbour) in state.backlog
        if not is_told and _is_complete_towards(state, neighbour):
            _send_subscription_digest(state, neighbour)
    known_again = [each for each in recovery.passed_by if recovery.knows_all_from(each) and recovery.has_met(each)]
    for neighbour in known_again:
        del recovery.passed_by[neighbour]
    losses.admitted_early(state, known_again)
    for neighbour in filter(recovery.knows_all_from, list(recovery.unheard)):
        del recovery.unheard[neighbour]
    knows_cluster = all(map(recovery.knows_all_from, primary))
    if knows_cluster and not recovery.knows_cluster:
        recovery.knows_cluster = True
        placing.resume_all(state)
    if answers.unknown(state) != unknown:
        received = [entry.id for entry in state.clt if not entry.is_hosted_here]
        if received:
            state.put_off(Task.CLEAR, state.id, received)
    if knows_cluster and recovery.knows_region:
        state.recovery = None


def pass_grace(state: State) -> None:
    """Continue without silent neighbours after the grace period: admit publications, and notify clients of the gap."""
    recovery = state.recovery
    if recovery is None or recovery.grace_passed or state.now_ms < recovery.grace_until_ms:
        return
    incomplete = not state.prt_is_complete
    recovery.grace_passed = True
    recovery.passed_by = dict.fromkeys(_unknown_neighbours(state, recovery))
    if incomplete:
        state.count_loss(Cause.GRACE, 0, None)
        for client in state.clients:
            tell_of_gap(state, client)
    placing.resume_all(state)
    confirming.settle_all(state)


def _unknown_neighbours(state: State, recovery: Recovery) -> list[BrokerId]:
    """Return the neighbours without which recovery ends its wait, and which cause losses by that.

    Under adaptive routing they include secondary neighbours. One that cannot reach this broker routes by the answers of
    its last incarnation, and they lack the directions of subscriptions that are confirmed from now on.
    """
    neighbourhood = state.neighbourhood
    secondary = neighbourhood.secondary_neighbours if state.is_adaptive else ()
    unknown = [each for each in neighbourhood.primary_neighbours if not recovery.knows_all_from(each)]
    return unknown + [each for each in secondary if not recovery.has_met(each)]


def tell_of_gap(state: State, client: ClientId) -> None:
    """Notify a client if this broker may miss publications."""
    if state.recovery is not None and state.recovery.grace_passed and not state.prt_is_complete:
        state.tell(client, Gap(Cause.GRACE))


def _is_complete_towards(state: State, neighbour: BrokerId) -> bool:
    recovery = state.recovery
    if recovery is None:
        return True
    others = [each for each in state.neighbourhood.primary_neighbours if each != neighbour]
    return all(recovery.knows_all_from(each) for each in others)


def _send_subscription_digest(state: State, neighbour: BrokerId) -> None:
    known = [entry.id for entry in state.prt if entry.last_hop != neighbour]
    state.backlog.pop((Task.DIGEST, neighbour), None)
    first, rest = known[: state.settings.slice_max], known[state.settings.slice_max :]
    if rest:
        state.put_off(Task.DIGEST, neighbour, rest)
    send_part(state, neighbour, first, continues=False)


def send_part(
    state: State, neighbour: BrokerId, subscriptions: Iterable[SubscriptionId], *, continues: bool = True
) -> None:
    """Send a part of a digest; only the last one can be complete.

    Subscriptions issued since the first part were sent on their own, and withdrawn ones must not be named.
    """
    named = sorted(each for each in subscriptions if each in state.prt)
    waiting = state.confirming
    unconfirmed = [each for each in named if each in waiting and neighbour in waiting[each].neighbours]
    complete = (Task.DIGEST, neighbour) not in state.backlog and _is_complete_towards(state, neighbour)
    if complete and state.recovery is not None and not state.queues[neighbour].is_down:
        state.recovery.told_complete[neighbour] = None
    state.send(neighbour, SubscriptionDigest(tuple(named), tuple(unconfirmed), complete, continues))


def _name_advertisements(
    state: State, secondary: BrokerId, advertisements: Sequence[AdvertisementId], *, continues: bool = True
) -> None:
    """Send a part of a digest of advertisements; the last one is complete."""
    named = sorted(each for each in advertisements if each in state.clt)
    complete = (Task.DIGEST, secondary) not in state.backlog
    state.send(secondary, AdvertisementDigest(tuple(named), complete, continues))


def _send_civ_state(state: State, host_broker: BrokerId, advertisements: Sequence[AdvertisementId]) -> None:
    """Send our bits for the advertisements of a digest that are known here."""
    known = filter(None, map(state.clt.get, advertisements))
    entries = [entry for entry in known if entry.last_hop == host_broker]
    if not entries:
        return
    version = state.mint_version()
    for entry in entries:
        entry.sent = version
    wanted = sorted([entry for entry in entries if entry.directions], key=operator.attrgetter("id"))
    unwanted = sorted(entry.id for entry in entries if not entry.directions)
    named = tuple([entry.id for entry in wanted])
    state.send(host_broker, CivState(named, tuple(unwanted), version, state.directions_in(wanted)))
