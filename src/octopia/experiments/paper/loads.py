"""The load that ordinary publications put on single links, counted in runs without congestion.

The busiest link of a system has the least capacity to spare when a burst comes. OctopiA sends publications over aLinks
within each cluster; the trees of TID also use iLinks, and so spread the same traffic over more links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from octopia.experiments.paper.names import Model, System
from octopia.experiments.paper.rows import LoadRow
from octopia.experiments.paper.visits import play_for_visits
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.pipeline.spec import WorkloadSpec
from octopia.settings import Algorithm
from octopia.simulator.profiles import find_profile
from octopia.workloads.workload import Workload

PUBLICATIONS = 1000
"""The number of ordinary publications to count."""
_PLAYED = {System.OCTOPIA: Algorithm.STATIC, System.TID: Algorithm.TID_STATIC}
_SETTINGS = ((Model.LINKS, System.OCTOPIA), (Model.LINKS, System.TID), (Model.RACE_TREES, System.TID))


def measure_loads(workload: Workload, spec: WorkloadSpec, publications: int = PUBLICATIONS) -> Iterator[LoadRow]:
    """Yield the loads of links under ordinary traffic, for OctopiA and for TID with either kind of tree."""
    ordinary = workload.without_burst(publications)
    for model, system in _SETTINGS:
        played = play_for_visits(ordinary, _PLAYED[system], publications, spec.seed, find_profile(model.profile))
        copies: Counter[Link] = Counter((visit.broker, link) for visit in played.visits for link in visit.sent_to)
        per_copy = spec.publishers / spec.gap_s / played.publications
        yield LoadRow(
            model,
            system,
            spec.seed,
            played.publications,
            alink_per_s_max=per_copy * _busiest(copies, within_clusters=True),
            ilink_per_s_max=per_copy * _busiest(copies, within_clusters=False),
            ilink_share=sum(count for link, count in copies.items() if not _is_alink(link)) / copies.total(),
        )


def _busiest(copies: Counter[Link], *, within_clusters: bool) -> int:
    return max((count for link, count in copies.items() if _is_alink(link) == within_clusters), default=0)


def _is_alink(link: tuple[BrokerId, BrokerId]) -> bool:
    return link[0].cluster == link[1].cluster
