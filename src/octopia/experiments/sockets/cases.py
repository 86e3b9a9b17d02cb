"""The cases of the comparison over sockets, and the overlays and workloads that they are played with.

All cases of an overlay share one workload: some publishers, and one more with a burst that all clusters want. A case
says which links are slow, and whether a broker is killed. Rates are low enough for one process with all brokers, so
that links are the bottleneck and not the processors.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import assert_never

from octopia.experiments.slow_links import host_of_burst, inner_broker, slow_alinks, slow_links
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.pipeline.spec import Burst, WorkloadSpec
from octopia.settings import Algorithm

ALGORITHMS = (
    Algorithm.STATIC,
    Algorithm.DYNAMIC,
    Algorithm.ADAPTIVE,
    Algorithm.TID_STATIC,
    Algorithm.TID_DYNAMIC,
)


class CaseName(enum.StrEnum):
    """The names of the cases."""

    SLOW_ALINKS = "slow-alinks"
    SLOW_ILINKS = "slow-ilinks"
    DEAD_BROKER = "dead-broker"
    BURST = "burst"


class Quantity(enum.StrEnum):
    """The number by which the algorithms of a case are put in order."""

    DELAY = "mean delay"
    SHARE = "share delivered"


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A case; ``text`` states what is slow or dead."""

    name: CaseName
    title: str
    text: str
    judged_by: Quantity = Quantity.DELAY


CASES = (
    Case(
        CaseName.SLOW_ALINKS,
        "Slow aLinks",
        "The aLinks of the host broker over which static routing sends the burst carry a third of its rate.",
    ),
    Case(
        CaseName.SLOW_ILINKS,
        "Slow iLinks",
        "Two iLinks of the host broker carry a third of the burst's rate. Its other iLinks are fast.",
    ),
    Case(
        CaseName.DEAD_BROKER,
        "A dead inner broker",
        "An inner broker is killed (SIGKILL) before the burst. When its neighbours have noticed, all publishers of "
        "other brokers go on. The numbers count publications after that, and what live subscribers are owed of them.",
        Quantity.SHARE,
    ),
    Case(
        CaseName.BURST,
        "A burst",
        "Every link of the overlay carries a third of the burst's rate.",
    ),
)


def case_of(name: CaseName) -> Case:
    """Return a case by its name."""
    return next(case for case in CASES if case.name is name)


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """An overlay with its workload; a case may kill a broker after the publications due before ``outage_ms``."""

    workload: WorkloadSpec
    outage_ms: float = 1000.0

    @property
    def brokers(self) -> int:
        """The number of brokers."""
        return len(self.workload.scot().brokers)

    @property
    def seed(self) -> int:
        """The seed of the workload, which decides where its clients are."""
        return self.workload.seed

    @property
    def burst_per_s(self) -> float:
        """The rate of the burst."""
        assert self.workload.burst is not None
        return self.workload.burst.per_minute / 60.0

    @property
    def link_rate(self) -> float:
        """The publications per second that a slow link carries: a third of the burst."""
        return self.burst_per_s / 3.0


@dataclasses.dataclass(frozen=True, slots=True)
class Circumstances:
    """The slow links of a case, and the broker that is killed, if any."""

    links: tuple[Link, ...] = ()
    killed: BrokerId | None = None


def circumstances_of(case: Case, setup: Setup, workload: str) -> Circumstances:
    """Return what is slow or dead in a case, given the folder of the setup's workload."""
    scot, host = setup.workload.scot(), host_of_burst(workload)
    match case.name:
        case CaseName.SLOW_ALINKS:
            return Circumstances(slow_alinks(workload, host))
        case CaseName.SLOW_ILINKS:
            return Circumstances(slow_links(scot, host))
        case CaseName.DEAD_BROKER:
            return Circumstances(killed=inner_broker(scot, host, ()))
        case CaseName.BURST:
            return Circumstances((*scot.alinks, *scot.ilinks))
        case _:
            assert_never(case.name)


@dataclasses.dataclass(frozen=True, slots=True)
class SocketStudy:
    """The setups, cases and algorithms to run; the simulator predicts each run with several seeds."""

    setups: tuple[Setup, ...]
    cases: tuple[Case, ...] = CASES
    algorithms: tuple[Algorithm, ...] = ALGORITHMS
    predictions: int = 5

    @property
    def runs(self) -> int:
        """The number of runs on real brokers."""
        return len(self.setups) * len(self.cases) * len(self.algorithms)


_SMALL = WorkloadSpec(
    tree="paper:fig7",
    clusters=4,
    publishers=10,
    publications=8,
    subscribers=100,
    burst=Burst(publications=600, per_minute=14_400.0, start_ms=1500.0, share=0.12),
)
"""Twelve brokers: the tree a - b - c with four clusters."""
_LARGE = dataclasses.replace(
    _SMALL, tree="paper:se", burst=Burst(publications=240, per_minute=7200.0, start_ms=1500.0, share=0.08)
)
"""The 56 brokers of the paper's overlay."""
_INNER = {12: (4, 5), 56: (6, 4)}
"""Seeds with which the host broker of the burst is an inner broker."""
_EDGE = {12: 8, 56: 8}
"""Seeds with which it is an edge broker."""


def tiny_study(seeds: int | None = None) -> SocketStudy:
    """Return the smallest study, for tests, with this number of seeds per overlay."""
    return SocketStudy(_setups((_with_burst(_SMALL, 80),), seeds or 1), predictions=2)


def laptop_study(seeds: int | None = None) -> SocketStudy:
    """Return the study of both overlays that takes minutes, with at most this number of seeds per overlay."""
    return SocketStudy(_setups((_SMALL, _LARGE), seeds or 1))


def full_study(seeds: int | None = None) -> SocketStudy:
    """Return the study with large bursts, with at most this number of seeds per overlay."""
    return SocketStudy(_setups((_with_burst(_SMALL, 2400), _with_burst(_LARGE, 1200)), seeds or 3))


def _setups(workloads: tuple[WorkloadSpec, ...], seeds: int) -> tuple[Setup, ...]:
    return tuple(
        Setup(dataclasses.replace(workload, seed=seed))
        for workload in workloads
        for brokers in [len(workload.scot().brokers)]
        for seed in (*_INNER[brokers], _EDGE[brokers])[:seeds]
    )


def _with_burst(workload: WorkloadSpec, publications: int) -> WorkloadSpec:
    """Return a workload with a burst of this size, and with other publications for as long as it lasts."""
    assert workload.burst is not None
    burst = dataclasses.replace(workload.burst, publications=publications)
    seconds = burst.start_ms / 1000.0 + publications / (burst.per_minute / 60.0)
    return dataclasses.replace(workload, burst=burst, publications=round(2 * seconds))
