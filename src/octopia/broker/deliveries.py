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
    if state.backlog:  # Some may be of clients that have left.
        subscriptions = tuple(each for each in subscriptions if state.subscribers[each].client in state.clients)
    if subscriptions:
        plan = state.plans.of(subscriptions, state.plan_delivery)
        state.for_clients.append(Delivered(publication, subscriptions, plan))
