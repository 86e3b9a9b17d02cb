"""The story of a decision of adaptive routing, for explanations: which duty went where, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from octopia.broker import LinkView
from octopia.broker.adaptive_routing import AdaptiveDecision, Reason, Step, Way
from octopia.broker.congestion import Rule
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Origin, clusters_of


def tell(
    decision: AdaptiveDecision,
    broker: BrokerId,
    wanted_by: Mapping[BrokerId, str] | None = None,
    links: Sequence[LinkView] = (),
) -> Iterator[str]:
    """Yield the story of a decision at ``broker``, line by line.

    ``wanted_by`` has the subscriptions of the broker's own cluster behind its aLinks, as text. ``links`` are the links
    that the copy needs.
    """
    wanted_by = wanted_by or {}
    congested = {view.link: view for view in links if view.congested}
    if not decision.steps:
        for each in decision.dispatches:
            wanted = _wanted(each.duties, each.link, broker, wanted_by)
            yield f"> {_link(each.link, broker)}{wanted}, on its static path"
    has_lost = any(step.reason is Reason.LOST for step in decision.steps)
    ways: tuple[Way, ...] = ()
    for step in decision.steps:
        # Copies that leave together were compared together, so their ways are listed once.
        if step.ways and step.ways != ways:
            ways = step.ways
            yield from _obstacles(step, broker, congested)
            listed = ", ".join(_way(way, step.duties) for way in sorted(ways, key=lambda way: way.key))
            yield f"ways for the rest, by waiting work: {listed}"
        if step.reason is Reason.LOST:
            yield _lost(step.duties, broker, decision.steps)
            continue
        reason = "all other links are free" if has_lost and step.reason is Reason.STATIC else str(step.reason)
        yield _step(step, reason, broker, wanted_by)


def describe_congestion(view: LinkView) -> str:
    """Return the rule by which a link is congested, with its facts."""
    match view.rule:
        case Rule.TIME:
            return f"queue {view.queue_length}, takes {view.rule_ms:.0f} ms"
        case Rule.SLOW:
            return f"slow: {view.rule_ms:.0f} ms per copy"
        case Rule.HELD:
            return f"held for another {view.rule_ms:.0f} ms"
        case Rule.FORCED if not view.queue_length:
            return "as the scenario says"
    return f"queue {view.queue_length}"


def _obstacles(step: Step, broker: BrokerId, congested: Mapping[BrokerId, LinkView]) -> Iterator[str]:
    """Yield why the duties of a copy that goes over an iLink cannot take their static paths."""
    if step.link is None or step.link.region != broker.region:
        return
    for region, bits in step.duties.cross:
        link = BrokerId(region, broker.cluster)
        if link in congested:
            around = f"{_clusters(bits)} behind {region} must go around"
            yield f"the aLink to {link} is {_state(congested[link])}, so {around}"
    for cluster in clusters_of(step.duties.enter):
        link = BrokerId(broker.region, cluster)
        if link in congested and link != step.link:
            yield f"the iLink to {link} is {_state(congested[link])}, so cluster {cluster} must go around"


def _state(view: LinkView) -> str:
    return "down" if view.rule is Rule.DOWN else "congested"


def _lost(duties: Duties, broker: BrokerId, steps: Sequence[Step]) -> str:
    """Return the line about a broker that cannot be reached: what waits for it, and where its cluster is entered."""
    [cluster] = clusters_of(duties.clusters)
    peer = BrokerId(broker.region, cluster)
    regions = " and ".join(_regions_beyond(cluster, broker, steps))
    if not duties.enter:
        return f"no way to {peer}, where nobody wants it: cluster {cluster} can be entered in {regions}"
    waits = f"no way to {peer}: a copy for its clients waits here"
    return f"{waits}, and cluster {cluster} can be entered in {regions}" if regions else waits


def _regions_beyond(cluster: int, broker: BrokerId, steps: Sequence[Step]) -> list[str]:
    """Return the regions to which a decision sends a cluster over tree edges, or for which it lets it wait."""
    found = [region for step in steps for region, bits in step.duties.cross if bits >> cluster & 1]
    sent = [step.link for step in steps if step.link is not None and step.duties.enter >> cluster & 1]
    found += [link.region for link in sent if link.cluster == broker.cluster]
    return sorted(dict.fromkeys(found))


def _step(step: Step, reason: str, broker: BrokerId, wanted_by: Mapping[BrokerId, str]) -> str:
    link, duties = step.link, step.duties
    if step.reason is Reason.ELSEWHERE:
        return f"nobody in {broker.region} wants it in {_clusters(duties.clusters)}: {_entered(duties)}"
    if link is None:
        return f"waits here: {_duties(duties, broker)}, since {reason}"
    is_alink = link.cluster == broker.cluster
    sent = _clusters(duties.enter) if is_alink else _duties(duties, broker)
    return f"> {_link(link, broker)}, with {sent}{_wanted(duties, link, broker, wanted_by)}, since {reason}"


def _link(link: BrokerId, broker: BrokerId) -> str:
    return f"{link} over the {'aLink' if link.cluster == broker.cluster else 'iLink'}"


def _wanted(duties: Duties, link: BrokerId, broker: BrokerId, wanted_by: Mapping[BrokerId, str]) -> str:
    """Name the subscriptions of the own cluster behind an aLink; those of other clusters are not known here."""
    is_own = duties.enter >> broker.cluster & 1
    return f", wanted by {wanted_by[link]}" if is_own and link in wanted_by else ""


def _entered(duties: Duties) -> str:
    """Return the regions in which clusters can be entered that have no subscribers in this region."""
    count = duties.clusters.bit_count()
    if all(bits == duties.clusters for _, bits in duties.cross):
        return f"{('it', 'both')[count - 1] if count < 3 else 'all'} can be entered in {_regions(duties)}"
    return " and ".join(f"{_clusters(bits)} can be entered in {region}" for region, bits in duties.cross)


def _regions(duties: Duties) -> str:
    return " and ".join(region for region, _ in duties.cross)


def _duties(duties: Duties, broker: BrokerId) -> str:
    parts = []
    if duties.enter and duties.origin is Origin.LOCAL:
        parts.append("the clients of " + ", ".join(f"{broker.region}.{each}" for each in clusters_of(duties.enter)))
    elif duties.enter:
        parts.append(f"{_clusters(duties.enter)} from {broker.region} on")
    parts += [f"{_clusters(bits)} behind {region}" for region, bits in duties.cross]
    return " and ".join(parts)


def _clusters(bits: int) -> str:
    clusters = [str(each) for each in clusters_of(bits)]
    return f"cluster{'s' if len(clusters) > 1 else ''} {', '.join(clusters)}"


def _way(way: Way, duties: Duties) -> str:
    rank, work = way.key
    drawback = f", {_drawback(way, duties)}" if rank else ""
    return f"{way.link or 'the aLinks here'} ({work:g}{drawback})"


def _drawback(way: Way, duties: Duties) -> str:
    """Return why a way is taken only if there is none without drawbacks; ``duties`` are those that it would take."""
    rank, _ = way.key
    if not duties.enter:
        known = rank < len(duties.cross)
        return f"{rank} of {len(duties.cross)} aLinks down" if known else "nothing known of its aLinks"
    if way.link is not None and duties.enter >> way.link.cluster & 1:
        return "congested"
    return ("only a relay", "a relay to other relays", "back to the sender")[rank - 1]
