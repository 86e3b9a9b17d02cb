"""The outage of a broker in the middle of a run, in virtual time and on real brokers.

The broker is killed, and stays down, once all publications due before a time have arrived. The others are published
when its neighbours have noticed, except those of its own clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from octopia.ids import BrokerId
from octopia.workloads.workload import Timed, Workload


@dataclasses.dataclass(frozen=True, slots=True)
class Outage:
    """A broker that is killed, and stays down, once all publications due before ``at_ms`` have arrived."""

    broker: BrokerId
    at_ms: float

    def published_before(self, workload: Workload, first: int = 0) -> int:
        """Return the number of publications before the outage; they have the lowest numbers."""
        return sum(each.at_ms < self.at_ms for each in workload.timed(first or None))


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The publications of a run: before and after an outage, and the number that the dead broker's clients had left."""

    before: Sequence[Timed]
    after: Sequence[Timed]
    unsent: int


def split(workload: Workload, first: int, outage: Outage | None) -> Parts:
    """Divide the ``first`` N publications of a workload (0 for all) at an outage."""
    timed = list(workload.timed(first or None))
    if outage is None:
        return Parts(timed, [], 0)
    dead = {each.client for each in workload.advertisements if each.broker == outage.broker}
    before = [each for each in timed if each.at_ms < outage.at_ms]
    after = [each for each in timed[len(before) :] if each.publisher not in dead]
    return Parts(before, after, len(timed) - len(before) - len(after))
