"""Rerouted copies in output queues: merging, taking back, and the fallback to static parts.

All functions replace duties by a partition of them, as routing does. Ordered publications take no part in this: their
copies are always plain, and stay where they are.
"""

from __future__ import annotations

import msgspec

from octopia.broker.adaptive_routing import AdaptiveView, Dispatch
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Lane, Origin, clusters_of, crossings, lane_of


def merged(waiting: Dispatch, new: Dispatch) -> Dispatch | None:
    """Return one copy for two of the same publication on the same link, or None if they must not be joined.

    The waiting copy must be a rerouted one; the new one may be plain. Copies of different origins stay apart, since all
    duties of a copy share its origin. Copies for the clients of one broker (``Origin.LOCAL``) are never joined.
    """
    if waiting.link != new.link or lane_of(waiting.duties, waiting.link.cluster) is Lane.PLAIN:
        return None
    if waiting.duties.origin != new.duties.origin or new.duties.origin is Origin.LOCAL:
        return None
    return Dispatch(new.link, waiting.duties.union(new.duties))


def duties_taken_back(copy: Dispatch, broker: BrokerId) -> Duties:
    """Return the duties, at the sender, of a copy that was queued for a link and never written."""
    duties = copy.duties
    if copy.link.cluster == broker.cluster:
        return Duties(0, ((copy.link.region, duties.enter),), duties.origin, duties.ilinks)
    return msgspec.structs.replace(duties, ilinks=duties.ilinks - 1)


def static_parts(copy: Dispatch, at: AdaptiveView) -> tuple[list[Dispatch], Duties]:
    """Split a rerouted copy whose lane is full into copies for plain lanes, and the duties that must wait.

    The duties of this broker's cluster go over its aLinks, and those of every other cluster over its iLink. A part
    goes only if its link is up and if, as told, the edge that it is to cross is up there.
    """
    duties = duties_taken_back(copy, at.broker)
    copies = [
        Dispatch(at.alink(region), Duties(1 << at.broker.cluster, (), duties.origin, duties.ilinks))
        for region, bits in duties.cross
        if bits >> at.broker.cluster & 1 and at.is_up(at.alink(region))
    ]
    for cluster in clusters_of(duties.clusters & ~(1 << at.broker.cluster)):
        part = _part_over_ilink(duties, cluster, at)
        if part and at.is_up(at.ilink(cluster)):
            copies.append(Dispatch(at.ilink(cluster), part))
    return copies, _rest(duties, copies, at.broker)


def _part_over_ilink(duties: Duties, cluster: int, at: AdaptiveView) -> Duties:
    part = duties.part(1 << cluster)
    cross = tuple([(region, bits) for region, bits in part.cross if at.told(cluster, region).is_up])
    return Duties(part.enter, cross, duties.origin, duties.ilinks + 1)


def _rest(duties: Duties, copies: list[Dispatch], broker: BrokerId) -> Duties:
    """Return the duties that no copy has."""
    enter, cross = duties.enter, dict(duties.cross)
    for copy in copies:
        part = duties_taken_back(copy, broker)
        enter &= ~part.enter
        for region, bits in part.cross:
            cross[region] &= ~bits
    return Duties(enter, crossings({key: bits for key, bits in cross.items() if bits}), duties.origin, duties.ilinks)
