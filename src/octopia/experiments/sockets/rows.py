"""The row of a run over sockets: measured by the clock, and predicted by the simulator."""

from __future__ import annotations

import dataclasses
import enum

from octopia.experiments.sockets.cases import CaseName
from octopia.settings import Algorithm


class CpuSupply(enum.StrEnum):
    """The supply of CPU time in a run: where it was short, the CPUs may have been the bottleneck."""

    ENOUGH = "enough"
    SHORT = "short"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class SocketRow:
    """One run over real sockets, and the predictions of the same run with several seeds of the simulator.

    Predicted numbers are means over these seeds, ``least`` and ``most`` of them are the extremes.
    """

    case: CaseName
    brokers: int
    seed: int
    """The seed of the workload."""
    algorithm: Algorithm
    publications: int
    slow_links: int
    link_rate: float
    """The publications per second that slow links carry; 0 if none is slow."""
    owed: int
    """The deliveries that live subscribers are owed, after the outage if there is one."""
    delivered: int
    delay_ms_mean: float
    delay_ms_p99: float
    publication_messages: int
    status_messages: int
    """Messages about the state of links after the start; only adaptive routing has them."""
    predicted_share: float
    predicted_share_least: float
    predicted_share_most: float
    predicted_delay_ms_mean: float
    predicted_delay_ms_least: float
    predicted_delay_ms_most: float
    predicted_delay_ms_p99: float
    predicted_publication_messages: float
    predicted_status_messages: float
    noticed_ms: float | None
    """The time until all neighbours of the killed broker had noticed."""
    processors_used: float
    """The mean share of all CPUs that brokers and clients used, from 0 to 1."""
    busiest_process: float
    """The largest share of one CPU that a process used in any second."""
    waited_max: float
    """The largest share of a second that a process waited for a CPU."""
    processors: CpuSupply

    @property
    def share(self) -> float:
        """The share of owed deliveries that were made."""
        return self.delivered / self.owed if self.owed else 1.0
