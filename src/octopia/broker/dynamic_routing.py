"""Inter-cluster dynamic routing, IDR (paper section 9.2, Alg. 4, as ruled in D7 to D9).

Congested iLinks get no copy. The clusters behind them are named in the header of *one* copy, the carrier. The broker
that receives it tries again with its own links. The carrier depends on the case:

- case I, some target iLinks are free: the free target iLink with the shortest queue;
- case II, no target iLink is free, but an interested aLink is: the free aLink with the shortest queue;
- case III, everything is congested: the target iLink with the shortest queue, which also reaches its own cluster.

Interested primary neighbours always get their copy, congested or not: the tree has no other path to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from octopia.broker.interface import Case, Decision, Forward
from octopia.broker.static_routing import RoutingView, Wanted, route_statically
from octopia.ids import BrokerId
from octopia.protocol import ClusterIndexVector


def route_dynamically(wanted: Wanted, at: RoutingView) -> Decision:
    """Route statically, except that one copy also carries the targets behind congested iLinks."""
    if not wanted.targets.bits:
        return route_statically(wanted, at)
    free, waiting = _split(wanted.targets, at)
    if not waiting:
        return route_statically(wanted, at)
    free_ilinks = [at.ilink(cluster) for cluster in free]
    case, carrier = _pick_carrier(wanted.alinks, free_ilinks, waiting, at)
    if case is Case.THREE:
        free_ilinks = [carrier]
        waiting = waiting.without_bit(carrier.cluster)
    carried = waiting or None
    links = (*wanted.alinks, *free_ilinks)
    return Decision(tuple(Forward(link, carried if link == carrier else None) for link in links), case)


def _split(targets: ClusterIndexVector, at: RoutingView) -> tuple[ClusterIndexVector, ClusterIndexVector]:
    """Split the targets into those whose iLink is free and those whose iLink is congested."""
    free, waiting = targets, targets
    for cluster in targets:
        if at.congested(at.ilink(cluster)):
            free = free.without_bit(cluster)
        else:
            waiting = waiting.without_bit(cluster)
    return free, waiting


def _pick_carrier(
    alinks: Sequence[BrokerId], free_ilinks: Sequence[BrokerId], waiting: ClusterIndexVector, at: RoutingView
) -> tuple[Case, BrokerId]:
    if free_ilinks:
        return Case.ONE, _shortest_queue(free_ilinks, at)
    free_alinks = [link for link in alinks if not at.congested(link)]
    if free_alinks:
        return Case.TWO, _shortest_queue(free_alinks, at)
    # D7: the paper's text and Fig. 7(d) take the iLink here, although Alg. 4 prints the aLink.
    return Case.THREE, _shortest_queue([at.ilink(cluster) for cluster in waiting], at)


def _shortest_queue(links: Sequence[BrokerId], at: RoutingView) -> BrokerId:
    """Return the link with the shortest queue; the lower broker id wins a tie (D8)."""
    return min(links, key=lambda link: (at.queue_length(link), link))
