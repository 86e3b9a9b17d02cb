"""Deliveries to local clients: one entry per publication, with the plan of its recipients.

Many publications match the same set of subscriptions, so plans are cached by the identity of that set.
"""

from __future__ import annotations

from octopia.broker.common import CommonState
from octopia.broker.interface import Delivered
from octopia.ids import SubscriptionId
from octopia.protocol.messages import Copy


def deliver_to(state: CommonState, publication: Copy, subscriptions: tuple[SubscriptionId, ...]) -> None:
    """Queue a publication for the local clients with these subscriptions."""
    subscriptions = still_served(state, subscriptions)
    if subscriptions:
        plan = state.plans.of(subscriptions, state.plan_delivery)
        state.for_clients.append(Delivered(publication, subscriptions, plan))
        state.counters.delivered += len(subscriptions)


def still_served(state: CommonState, subscriptions: tuple[SubscriptionId, ...]) -> tuple[SubscriptionId, ...]:
    """Return the subscriptions whose clients have not left; those of others may still be in the backlog."""
    if not state.backlog:
        return subscriptions
    return tuple(each for each in subscriptions if state.subscribers[each].client in state.clients)
