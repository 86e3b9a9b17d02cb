"""Slow links around a bursty publisher, so that publications must wait or take another path.

Static routing sends every publication over the iLink of each cluster that wants it, slow or not. Dynamic routing sends
it around them: one iLink of the publisher's host broker stays fast.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def overlay_text(name: str, spec: WorkloadSpec, links: Sequence[Link], rate: float) -> str:
    """Return an overlay file for a workload in which some links carry ``rate`` publications per second."""
    lines = [f'name = "{name}"', f'tree = "{spec.tree}"', f"clusters = {spec.scot().clusters}"]
    for one, other in links:
        lines += ["", "[[link]]", f'between = ["{one}", "{other}"]', f"rate = {rate:g}"]
    return "\n".join(lines) + "\n"
