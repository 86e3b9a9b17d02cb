"""The story of a decision of adaptive routing, for explanations: which duty went where, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from octopia.broker.adaptive_routing import AdaptiveDecision, Reason, Step, Way
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Origin, clusters_of

_CHOICES = ("", ", second choice", ", third choice")
"""The ranks of ways: a way of a higher rank is taken only if there is no other."""


def tell(
    decision: AdaptiveDecision, broker: BrokerId, wanted_by: Mapping[BrokerId, str] | None = None
) -> Iterator[str]:
    """Yield the story of a decision at ``broker``, line by line.

    ``wanted_by`` has the subscriptions of the broker's own cluster behind its aLinks, as text.
    """
    wanted_by = wanted_by or {}
    if not decision.steps:
        for each in decision.dispatches:
            wanted = _wanted(each.duties, each.link, broker, wanted_by)
            yield f"> {_link(each.link, broker)}{wanted}, on its static path"
    ways: tuple[Way, ...] = ()
    for step in decision.steps:
        # Copies that leave together were compared together: the ways are told once.
        if step.ways and step.ways != ways:
            ways = step.ways
            yield f"ways for the rest, by waiting work: {', '.join(map(_way, _best_first(ways)))}"
        yield _step(step, broker, wanted_by)


def _step(step: Step, broker: BrokerId, wanted_by: Mapping[BrokerId, str]) -> str:
    link, duties = step.link, step.duties
    if step.reason is Reason.LOST:
        [lost] = clusters_of(duties.enter)
        peer = BrokerId(broker.region, lost)
        return f"{peer} cannot be reached: a copy for its clients waits here, and other regions enter cluster {lost}"
    if link is None:
        return f"waits here: {_duties(duties, broker)}, since {step.reason}"
    is_alink = link.cluster == broker.cluster
    sent = _clusters(duties.enter) if is_alink else _duties(duties, broker)
    return f"> {_link(link, broker)}, with {sent}{_wanted(duties, link, broker, wanted_by)}, since {step.reason}"


def _link(link: BrokerId, broker: BrokerId) -> str:
    return f"{link} over the {'aLink' if link.cluster == broker.cluster else 'iLink'}"


def _wanted(duties: Duties, link: BrokerId, broker: BrokerId, wanted_by: Mapping[BrokerId, str]) -> str:
    """Name the subscriptions of the own cluster behind an aLink; those of other clusters are not known here."""
    is_own = duties.enter >> broker.cluster & 1
    return f", wanted by {wanted_by[link]}" if is_own and link in wanted_by else ""


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


def _best_first(ways: tuple[Way, ...]) -> list[Way]:
    return sorted(ways, key=lambda way: way.key)


def _way(way: Way) -> str:
    rank, work = way.key
    choice = _CHOICES[rank] if rank < len(_CHOICES) else ", last choice"
    return f"{way.link or 'the aLinks here'} ({work:g}{choice})"
