"""The costs of matching a publication and choosing its links, measured on the real code (Figs. 14 and 16).

A workload is played in virtual time, once per system: static and dynamic routing keep the same tables, while adaptive
routing keeps more. Visits of publications at brokers are then replayed against those tables and timed. Before that,
every visit is checked against the run, which also warms up caches.

All algorithms take turns in one process, some visits at a time, so that other load on the machine affects them alike.
Their order is drawn for each turn, because a search through a large table leaves cold caches behind. The result is the
median over the rounds. A step takes about a microsecond, so that many are timed together, and the time of as many empty
steps is subtracted. The clock is that of this thread, which stands still while another process has the CPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Iterator, Sequence
from statistics import median

from octopia.broker import Verdict
from octopia.errors import UsageError
from octopia.experiments.gc_pause import gc_paused
from octopia.experiments.paper.names import Contender, System
from octopia.experiments.paper.replay import Step, Stop, replay
from octopia.experiments.paper.rows import CostRow
from octopia.experiments.paper.visits import Played, Visit, play_for_visits
from octopia.settings import Algorithm
from octopia.workloads.workload import Workload

PASS_S = 2.0
"""A pass ends early after this long: TID-D may read a large table at every visit."""
TURN = 100
"""The number of visits per turn; a pass has at least one turn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measuring:
    """The amount to measure: the first publications, a sample of their visits, and rounds over the sample."""

    publications: int = 100
    visits: int = 2000
    rounds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.publications, self.visits, self.rounds) < 1:
            raise UsageError(f"expected at least one publication, visit and round to measure, got {self}")


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """The mean time of each step at one broker."""

    match_us: float
    select_us: float
    select_congested_us: float


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """An algorithm with its steps at all stops."""

    contender: Contender
    played: Played
    idle: Sequence[Step]
    match: Sequence[Step]
    select: Sequence[Step]


@dataclasses.dataclass(slots=True)
class Pass:
    """Steps that are timed turn by turn, beside steps that do nothing."""

    steps: Sequence[Step]
    idle: Sequence[Step]
    done: int = 0
    seconds: float = 0.0

    @property
    def goes_on(self) -> bool:
        """True if there are steps left, and time for them."""
        return self.done < len(self.steps) and self.seconds < PASS_S

    @property
    def each_us(self) -> float:
        """The mean time of a step."""
        return self.seconds / self.done * 1e6

    def take_turn(self) -> None:
        """Time the next steps."""
        turn = slice(self.done, self.done + TURN)
        self.seconds += _seconds(self.steps[turn]) - _seconds(self.idle[turn])
        self.done = min(turn.stop, len(self.steps))


def measure_costs(
    workload: Workload, contenders: Sequence[Contender], measuring: Measuring | None = None
) -> list[CostRow]:
    """Measure algorithms side by side; raise InvariantBroken if a replay differs from the run."""
    measuring = measuring or Measuring()
    systems = {}
    for system in dict.fromkeys(System.of(each.algorithm) for each in contenders):
        played = play_for_visits(workload, _PLAYED[system], measuring.publications, measuring.seed)
        stops = replay(played, sample(played.visits, measuring))
        check_stops(played, stops)
        systems[system] = played, stops
    measured = [_measured(each, *systems[System.of(each.algorithm)]) for each in contenders]
    draw = random.Random(measuring.seed)
    with gc_paused():
        rounds = [_round(measured, draw) for _ in range(measuring.rounds)]
    return [_row(workload, each, costs) for each, costs in zip(measured, zip(*rounds, strict=True), strict=True)]


def sample(visits: Sequence[Visit], measuring: Measuring) -> list[Visit]:
    """Draw visits in random order, so that the first ones represent all; the same seed draws the same visits."""
    return random.Random(measuring.seed).sample(visits, min(measuring.visits, len(visits)))


def check_stops(played: Played, stops: Sequence[Stop]) -> None:
    """Raise InvariantBroken unless stops do what the run did, and react to congested links."""
    for stop in stops:
        stop.check()
    with congested(played):
        for stop in stops[:TURN]:
            stop.check_congested()


@contextlib.contextmanager
def congested(*worlds: Played) -> Iterator[None]:
    """Make all links of all brokers count as congested within the block."""
    for played in worlds:
        played.force_links(Verdict.CONGESTED)
    try:
        yield
    finally:
        for played in worlds:
            played.force_links(Verdict.AUTO)


_PLAYED = {
    System.OCTOPIA: Algorithm.STATIC,
    System.ADAPTIVE: Algorithm.ADAPTIVE,
    System.TID: Algorithm.TID_STATIC,
}
"""The algorithm with which a system's tables are filled."""


def _measured(contender: Contender, played: Played, stops: Sequence[Stop]) -> Measured:
    is_static = not contender.algorithm.is_dynamic
    return Measured(
        contender,
        played,
        idle=[stop.do_nothing for stop in stops],
        match=[stop.match for stop in stops],
        select=[stop.select_statically if is_static else stop.select_dynamically for stop in stops],
    )


def _round(contenders: Sequence[Measured], draw: random.Random) -> list[Costs]:
    """Measure everything once."""
    matching = [Pass(each.match, each.idle) for each in contenders]
    selecting = [Pass(each.select, each.idle) for each in contenders]
    _take_turns([*matching, *selecting], draw)
    around = [Pass(each.select, each.idle) for each in contenders]
    with congested(*(each.played for each in contenders)):
        _take_turns(around, draw)
    return [Costs(*(each.each_us for each in passes)) for passes in zip(matching, selecting, around, strict=True)]


def _take_turns(passes: Sequence[Pass], draw: random.Random) -> None:
    waiting = list(passes)
    while waiting:
        draw.shuffle(waiting)
        for each in waiting:
            each.take_turn()
        waiting = [each for each in waiting if each.goes_on]


def _seconds(steps: Sequence[Step]) -> float:
    begin = time.thread_time()
    for step in steps:
        step()
    return time.thread_time() - begin


def _row(workload: Workload, measured: Measured, costs: Sequence[Costs]) -> CostRow:
    return CostRow(
        subscribers=len(workload.subscriptions),
        algorithm=measured.contender,
        publications=measured.played.publications,
        match_us=median(each.match_us for each in costs),
        select_us=median(each.select_us for each in costs),
        select_congested_us=median(each.select_congested_us for each in costs),
        visits_each=measured.played.visits_each,
    )
