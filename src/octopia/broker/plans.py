"""Delivery plans: the clients that want a publication, each with the handles of its matching subscriptions.

Plain Python that Cython compiles (``plans.pxd`` has the C types), since most sets of subscriptions are new.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from octopia.broker.interface import DeliveryPlan
from octopia.ids import ClientId, SubscriptionId

_number_of = operator.attrgetter("number")
_client_of = operator.itemgetter(0)


def plan_delivery(subscriptions: Sequence[SubscriptionId], subscribers: Mapping[SubscriptionId, Any]) -> DeliveryPlan:
    """Return the clients with these subscriptions, by name, each with its handles in order of subscription id.

    ``subscribers`` has the ``client``, the ``handle`` and the ``stop`` of each subscription.
    """
    plan = [subscribers[each].stop for each in subscriptions]
    size = len(plan)
    if size > 1:
        plan.sort(key=_client_of)
        for index in range(1, size):
            if plan[index][0] == plan[index - 1][0]:
                return _merged(subscriptions, subscribers)
    return tuple(plan)


def _merged(subscriptions: Sequence[SubscriptionId], subscribers: Mapping[SubscriptionId, Any]) -> DeliveryPlan:
    """Return the plan if clients have several of the subscriptions."""
    handles: dict[ClientId, tuple[int, ...]] = {}
    # This broker has minted the ids, so their numbers give the order.
    for each in sorted(subscriptions, key=_number_of):
        found = subscribers[each]
        handles[found.client] = (*handles.get(found.client, ()), found.handle)
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    plan = [(client, shared.setdefault(each, each)) for client, each in handles.items()]
    plan.sort(key=_client_of)
    return tuple(plan)
