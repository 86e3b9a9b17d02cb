"""The publications that a subscription has received, so that none is delivered twice.

Within one session a broker delivers each publication once. A client that begins a session with another broker, or with
its own after a restart, may be sent publications that it already has: they were still on their way to that broker.

A *source* is one incarnation of a publisher's host broker. It numbers its publications in increasing order, so a number
above all numbers seen from that source is new. Only lower numbers are looked up: those that arrive out of order, and
second copies.

The numbers seen from a source are kept as *runs* of consecutive numbers. The window is bounded:

- Per source, at least the ``RUNS_PER_SOURCE`` highest runs are kept, and so at least as many publications.
- Over all sources, up to ``RUNS_MAX`` runs are kept, which take 1 MiB. Each source counts as ``RUNS_OF_A_SOURCE`` more.
  Beyond that, the least recently used sources are forgotten.

A second copy of a publication outside the window is given to the program. A publication that is new is never dropped.

Plain Python that Cython compiles (``seen.pxd``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from octopia.content import bits
from octopia.ids import BrokerId

RUNS_PER_SOURCE = 4_096
RUNS_MAX = 65_536
RUNS_OF_A_SOURCE = 32
"""The memory of a source without its runs, in runs of 16 bytes."""
_SLACK = 512
"""The number of runs that are forgotten at once, to move the others less often."""


class Seen:
    """The window of one subscription."""

    __slots__ = ("_cost", "_ends", "_host_broker", "_incarnation", "_sources", "_starts")

    def __init__(self) -> None:
        self._sources: dict[tuple[BrokerId, int], tuple[array[int], array[int]]] = {}
        self._cost = 0
        # The source of the last publication: mostly it is that of the next one, too.
        self._host_broker: BrokerId | None = None
        self._incarnation = 0
        self._starts: array[int] = array("Q")
        self._ends: array[int] = array("Q")

    def add(self, host_broker: BrokerId, incarnation: int, number: int) -> bool:
        """Add the publication with this id, and return whether it is new."""
        if host_broker is not self._host_broker or incarnation != self._incarnation:
            self._select(host_broker, incarnation)
        count = len(self._ends)
        if count:
            ends = bits.words(self._ends)
            last = ends[count - 1]
            if number <= last:
                return self._add_late(number)
            if number - last == 1:
                ends[count - 1] = number
                return True
        self._starts.append(number)
        self._ends.append(number)
        self._cost += 1
        if self._cost > RUNS_MAX or count >= RUNS_PER_SOURCE + _SLACK:
            self._trim()
        return True

    def _select(self, host_broker: BrokerId, incarnation: int) -> None:
        """Make a source the last one used."""
        self._host_broker, self._incarnation = host_broker, incarnation
        key = (host_broker, incarnation)
        runs = self._sources.pop(key, None)
        if runs is None:
            runs = (array("Q"), array("Q"))
            self._cost += RUNS_OF_A_SOURCE
        self._sources[key] = runs
        self._starts, self._ends = runs

    def _add_late(self, number: int) -> bool:
        """Add a number that is not above all others."""
        starts, ends = self._starts, self._ends
        place = bisect_left(ends, number)
        if starts[place] <= number:
            return False
        follows = place > 0 and ends[place - 1] == number - 1
        precedes = starts[place] == number + 1
        if follows and precedes:
            del ends[place - 1], starts[place]
            self._cost -= 1
        elif follows:
            ends[place - 1] = number
        elif precedes:
            starts[place] = number
        else:
            starts.insert(place, number)
            ends.insert(place, number)
            self._cost += 1
            self._trim()
        return True

    def _trim(self) -> None:
        """Forget what the window no longer holds."""
        if len(self._ends) > RUNS_PER_SOURCE + _SLACK:
            del self._starts[:_SLACK], self._ends[:_SLACK]
            self._cost -= _SLACK
        while self._cost > RUNS_MAX:
            oldest = next(iter(self._sources))
            self._cost -= RUNS_OF_A_SOURCE + len(self._sources.pop(oldest)[0])
