"""The part of a demo run after a broker was killed: what live subscribers were owed, and what reached them.

The audit compares all deliveries with the truth, which knows nothing of the dead broker. Missing deliveries are of
three kinds: those for the clients of the dead broker, which are owed nothing; those for the rest of its cluster, which
is cut in two, so that the paper's algorithms do not reach all of it; and all others, which are faults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from octopia.ids import BrokerId
from octopia.settings import Algorithm
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


def sort_missing(
    pairs: Iterable[tuple[int, int]], workload: Workload, dead: BrokerId, published_before: int
) -> Missing:
    """Sort missing pairs of a publication and a subscription, by number, by the reason why they are missing.

    The broker died after the first ``published_before`` publications had arrived.
    """
    counts = {"gone": 0, "cut_off": 0, "unexplained": 0}
    for publication, subscription in pairs:
        broker = workload.subscriptions[subscription].broker
        if publication < published_before or broker.cluster != dead.cluster:
            counts["unexplained"] += 1
        else:
            counts["gone" if broker == dead else "cut_off"] += 1
    return Missing(**counts)
