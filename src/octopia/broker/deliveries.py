"""Deliveries to local clients: one entry per publication, with a plan of who gets it.

Many publications are wanted by the very same subscriptions, so plans are kept by the identity of such a set.
"""

from __future__ import annotations

from octopia.broker.common import CommonState
from octopia.broker.interface import Delivered
from octopia.ids import SubscriptionId
from octopia.protocol.messages import Copy


def deliver_to(state: CommonState, publication: Copy, subscriptions: tuple[SubscriptionId, ...]) -> None:
    """Hand a publication to the local clients that have these subscriptions."""
    if subscriptions:
        plan = state.plans.of(subscriptions, state.plan_delivery)
        state.for_clients.append(Delivered(publication, subscriptions, plan))
