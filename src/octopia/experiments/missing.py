"""Missing deliveries of a run in which a broker was killed, by the reason why they are missing.

The audit compares all deliveries with the truth, which knows nothing of the dead broker. Missing deliveries are of
three kinds: those for the clients of the dead broker, which are owed nothing; those for the rest of its cluster, which
is cut in two, so that the paper's algorithms do not reach all of it; and all others, which are faults. TID's trees may
lead over the dead broker to any live one, so under TID-based routing all of these are cut off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from octopia.ids import BrokerId
from octopia.settings import Algorithm
from octopia.workloads.arrow import read_table
from octopia.workloads.runs import RunSpec
from octopia.workloads.workload import Workload


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """The missing deliveries of a run by kind: ``gone`` with the dead broker, ``cut_off`` behind it, or a fault."""

    gone: int = 0
    cut_off: int = 0
    unexplained: int = 0

    def faults(self, algorithm: Algorithm) -> int:
        """Return the number of faults: adaptive routing also owes what is behind the dead broker."""
        return self.unexplained + (self.cut_off if algorithm is Algorithm.ADAPTIVE else 0)


def read_missing(faults: str, workload: Workload, runs: Iterable[RunSpec]) -> dict[str, Missing]:
    """Return the missing deliveries of each run by its id, given the faults that the audit wrote and all runs."""
    pairs: dict[str, list[tuple[int, int]]] = {}
    for row in read_table(faults).to_pylist():
        if row["fault"] == "missing":
            pairs.setdefault(row["run_id"], []).append((row["publication"], row["subscription"]))
    return {run.run_id: _missing_of(run, pairs.get(run.run_id, []), workload) for run in runs}


def _missing_of(run: RunSpec, pairs: list[tuple[int, int]], workload: Workload) -> Missing:
    outage = run.outage
    if outage is None:
        return Missing(unexplained=len(pairs))
    return sort_missing(pairs, workload, outage.broker, outage.published_before(workload), run.algorithm)


def sort_missing(
    pairs: Iterable[tuple[int, int]], workload: Workload, dead: BrokerId, published_before: int, algorithm: Algorithm
) -> Missing:
    """Sort missing pairs of a publication and a subscription, by number, by the reason why they are missing.

    The broker died after the first ``published_before`` publications had arrived.
    """
    counts = {"gone": 0, "cut_off": 0, "unexplained": 0}
    for publication, subscription in pairs:
        broker = workload.subscriptions[subscription].broker
        if publication < published_before:
            counts["unexplained"] += 1
        elif broker == dead:
            counts["gone"] += 1
        else:
            counts["cut_off" if algorithm.is_tid or broker.cluster == dead.cluster else "unexplained"] += 1
    return Missing(**counts)
