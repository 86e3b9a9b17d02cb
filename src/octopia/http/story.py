"""The status sentence of an overlay: problems first, then where publications go instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from octopia.http.meter import LinkRate, Scene

CONGESTED_SHARE = 0.3
"""The share of time at which a link counts as congested."""
REROUTED_RATE = 0.5
"""The rate at which rerouted publications are mentioned."""
QUEUE = 3
"""The queue length at which a congested link matters more than one without a queue."""
ALL_THE_TIME = 0.9
"""The share of time at which a link counts as congested all the time."""
MOST_NAMED = 3
"""The number of links, or of brokers, that a sentence names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    """The sentence, with all links that it names or counts, as ``b.3>b.0``."""

    text: str
    congested: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()


def tell(scene: Scene) -> Story:
    """Return the sentence about a scene."""
    missing = set(scene.missing)
    links = [link for link in scene.links if link.target not in missing]
    down = [link for link in links if not link.is_up]
    congested = _worst([link for link in links if link.is_up and link.congested >= CONGESTED_SHARE])
    carriers = _nearest([link for link in links if link.is_up and link.rerouted >= REROUTED_RATE], congested)
    troubles = [*_missing(scene.missing), *_down(down), *_congested(congested)]
    if not troubles:
        return Story(_all_well(scene, links, carriers), (), _names(carriers))
    troubles += _way_out(scene, congested, carriers)
    return Story(" ".join(troubles), _names(congested), _names(carriers))


def _worst(congested: Sequence[LinkRate]) -> list[LinkRate]:
    """Return the links that count as congested: those that are limited, have a queue, or are congested all the time.

    On a busy machine, other links are slow for a moment. They count only if there are no such links. The map shows the
    same links in red.
    """
    grave = [link for link in congested if link.limit or link.queue >= QUEUE or link.congested >= ALL_THE_TIME]
    return sorted(grave or congested, key=lambda link: (not link.limit, -link.queue, link.source, link.target))


def _nearest(carriers: Sequence[LinkRate], congested: Sequence[LinkRate]) -> list[LinkRate]:
    """Return the links that carry rerouted publications: those of the same brokers, or all if there are none."""
    sources = {link.source for link in congested}
    near = [link for link in carriers if link.source in sources]
    return sorted(near or carriers, key=lambda link: (-link.rerouted, link.source, link.target))


def _missing(brokers: Sequence[str]) -> list[str]:
    if not brokers:
        return []
    return [f"{_listed(brokers)} {'is' if len(brokers) == 1 else 'are'} not running."]


def _down(links: Sequence[LinkRate]) -> list[str]:
    """Name links that are down, both directions as one."""
    pairs = sorted({tuple(sorted((link.source, link.target))) for link in links})
    if not pairs:
        return []
    cut = {tuple(sorted((link.source, link.target))) for link in links if link.is_cut}
    verb = ("is " if len(pairs) == 1 else "are ") + ("cut" if cut.issuperset(pairs) else "down")
    return [f"{_listed([f'{one} ↔ {other}' for one, other in pairs])} {verb}."]


def _congested(links: Sequence[LinkRate]) -> list[str]:
    if not links:
        return []
    names = _listed([_arrow(link) + (f" (queue {link.queue:,})" if link.queue else "") for link in links])
    return [f"{names} {'is' if len(links) == 1 else 'are'} congested."]


def _way_out(scene: Scene, congested: Sequence[LinkRate], carriers: Sequence[LinkRate]) -> list[str]:
    if carriers:
        ways = _listed([f"{_arrow(link)} ({_rate(link.rerouted)})" for link in carriers], joint=", ")
        return [f"Publications go around, over {ways}."]
    if congested and "static" in scene.routing:
        return ["Publications wait: static routing does not reroute them."]
    if congested:
        return ["Publications wait for it." if len(congested) == 1 else "Publications wait for them."]
    return []


def _all_well(scene: Scene, links: Sequence[LinkRate], carriers: Sequence[LinkRate]) -> str:
    limited = [f"{_arrow(link)} ({link.limit:g}/s)" for link in links if link.limit]
    text = "No link is congested."
    if limited:
        text += f" Limited: {_listed(limited, joint=', ')}."
    if carriers:
        text += f" Some publications still go around, over {_listed([_arrow(link) for link in carriers], joint=', ')}."
    elif scene.published >= REROUTED_RATE:
        text += f" {_rate(scene.published)} published, {_rate(scene.delivered)} delivered."
    else:
        text += " Nothing is being published."
    return text


def _listed(names: Sequence[str], joint: str = " and ") -> str:
    """Return names as a list; beyond ``MOST_NAMED``, the rest is counted."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    if len(names) > 2:
        return f"{', '.join(names[:-1])}{joint}{names[-1]}"
    return joint.join(names)


def _names(links: Sequence[LinkRate]) -> tuple[str, ...]:
    return tuple(f"{link.source}>{link.target}" for link in links)


def _arrow(link: LinkRate) -> str:
    return f"{link.source} → {link.target}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
