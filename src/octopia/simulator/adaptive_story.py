"""The story of a decision of adaptive routing, for explanations: which duty went where, and why."""

from __future__ import annotations

from collections.abc import Iterator

from octopia.broker.adaptive_routing import AdaptiveDecision, Reason, Step, Way
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Origin, clusters_of


def tell(decision: AdaptiveDecision, broker: BrokerId) -> Iterator[str]:
    """Yield the story of a decision at ``broker``, line by line."""
    if not decision.steps:
        yield from (f"to {each.link} on its static path" for each in decision.dispatches)
    ways: tuple[Way, ...] = ()
    for step in decision.steps:
        # Copies that leave together were compared together: the ways are told once.
        if step.ways and step.ways != ways:
            ways = step.ways
            yield f"ways for the rest: {', '.join(_way(each, broker) for each in _best_first(ways))}"
        yield _step(step, broker)


def _step(step: Step, broker: BrokerId) -> str:
    match step.reason:
        case Reason.LOST:
            [lost] = clusters_of(step.duties.enter)
            peer = BrokerId(broker.region, lost)
            return f"{peer} cannot be reached: a copy for its clients waits here, other regions enter cluster {lost}"
        case Reason.DOWN | Reason.NOWHERE:
            return f"waiting here: {_duties(step.duties, broker)}, since {step.reason}"
        case _:
            assert step.link is not None
            return f"to {step.link}: {_sent(step, broker)}, since {step.reason}"


def _sent(step: Step, broker: BrokerId) -> str:
    """Describe the duties of a copy as its sender sees them."""
    if step.link is not None and step.link.cluster == broker.cluster:
        return f"{_clusters(step.duties.enter)} behind {step.link.region}"
    return _duties(step.duties, broker)


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


def _way(way: Way, broker: BrokerId) -> str:
    name = f"over {way.link}" if way.link is not None else f"over the aLinks of {broker}"
    return f"{name} ({way.key[1]:g}{', rank ' + str(way.key[0]) if way.key[0] else ''})"
