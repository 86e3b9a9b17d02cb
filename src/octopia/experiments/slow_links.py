"""Slow links around a bursty publisher, so that publications must wait or take another path.

Static routing sends every publication over the iLink of each cluster that wants it, slow or not. Dynamic routing goes
around slow iLinks: one iLink of the publisher's host broker stays fast. Only adaptive routing goes around slow aLinks.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx

from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.overlay.scot import Link
from octopia.pipeline.spec import WorkloadSpec
from octopia.workloads.workload import load_workload

MOST_SLOW_LINKS = 2


def host_of_burst(workload: str) -> BrokerId:
    """Return the broker at which the burst of a workload is published."""
    from octopia.pipeline.schedule import BURST

    return next(each.broker for each in load_workload(workload).advertisements if each.client == BURST)


def slow_links(scot: Scot, host: BrokerId) -> tuple[Link, ...]:
    """Return the iLinks of the burst's host broker that become slow: at most two, to the lowest clusters.

    One iLink stays fast if there are several.
    """
    others = [BrokerId(host.region, cluster) for cluster in range(scot.clusters) if cluster != host.cluster]
    if not others:
        raise UsageError(f"expected an overlay of at least 2 clusters, got {scot.clusters}: {host} has no iLinks")
    return tuple((host, other) for other in others[: max(1, min(MOST_SLOW_LINKS, len(others) - 1))])


def slow_alink_and_ilink(workload: str, host: BrokerId) -> tuple[Link, Link]:
    """Return an aLink and an iLink of the burst's host broker that the burst needs under static routing."""
    others = sorted({broker.cluster for broker in _wanting(workload)} - {host.cluster})
    alinks = slow_alinks(workload, host)
    if not others:
        raise UsageError(f"expected a burst for several clusters, got one for cluster {host.cluster}")
    return alinks[0], (host, BrokerId(host.region, others[0]))


def slow_alinks(workload: str, host: BrokerId) -> tuple[Link, ...]:
    """Return the aLinks over which static routing sends the burst from its host broker to its own cluster.

    The first one leads to the lowest broker that wants the burst.
    """
    wanting = _wanting(workload)
    beyond = sorted({each for each in wanting if each.cluster == host.cluster and each.region != host.region})
    if not beyond:
        raise UsageError(
            f"expected a burst for other regions of cluster {host.cluster}, got one for {', '.join(map(str, wanting))}"
        )
    tree = networkx.Graph(load_workload(workload).scot.tree.edges)
    regions = [networkx.shortest_path(tree, host.region, each.region)[1] for each in beyond]
    return tuple((host, BrokerId(region, host.cluster)) for region in dict.fromkeys(regions))


def _wanting(workload: str) -> list[BrokerId]:
    """Return the brokers of the subscribers that want the burst."""
    from octopia.pipeline.schedule import BURST

    loaded = load_workload(workload)
    burst = next(each.publication for each in loaded.timed() if each.publisher == BURST)
    return [each.broker for each in loaded.subscriptions if each.filter.matches(burst)]


def inner_broker(scot: Scot, host: BrokerId, links: Sequence[Link]) -> BrokerId:
    """Return an inner broker other than the burst's host, preferably one without slow links."""
    inner = [each for each in scot.brokers if each != host and not scot.neighbourhood(each).is_edge]
    if not inner:
        raise UsageError(f"expected an overlay with an inner broker besides {host}, got none")
    ends = {end for link in links for end in link}
    return min(inner, key=lambda each: (each in ends, each.region != host.region, each))


def overlay_text(name: str, spec: WorkloadSpec, links: Sequence[Link], rate: float) -> str:
    """Return an overlay file for a workload in which some links carry ``rate`` publications per second."""
    lines = [f'name = "{name}"', f'tree = "{spec.tree}"', f"clusters = {spec.scot().clusters}"]
    for one, other in links:
        lines += ["", "[[link]]", f'between = ["{one}", "{other}"]', f"rate = {rate:g}"]
    return "\n".join(lines) + "\n"
