"""How long brokers take to match a publication and to choose its links, on the real code (Figs. 14 and 16).

A workload is played in virtual time, once for each system: static and dynamic routing keep the same tables. Visits of
publications at brokers are then replayed against those tables and timed. Every visit is checked against the run before,
which also warms everything up.

All algorithms take turns in one process, some visits at a time, so that whatever else the machine does hits them alike;
who comes after whom is drawn each time, since a search through a large table leaves cold caches behind. The median over
the rounds counts. Steps take about a microsecond, so that many are timed together, and what as many take that do
nothing is taken off. The clock is that of this thread: it stands still while others have the processor.
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
from octopia.experiments.collecting import no_collections
from octopia.experiments.paper.replaying import Step, Stop, replay
from octopia.experiments.paper.tables import CostRow
from octopia.experiments.paper.visits import Played, Visit, play_for_visits
from octopia.settings import Algorithm
from octopia.workloads.workload import Workload

PASS_S = 2.0
"""A pass that has taken so long ends early: TID-D may read a large table at every visit."""
TURN = 100
"""So many visits are replayed in a turn; a pass has one turn at least."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measuring:
    """How much is measured: the first so many publications, a sample of their visits, and rounds over it."""

    publications: int = 100
    visits: int = 2000
    rounds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.publications, self.visits, self.rounds) < 1:
            raise UsageError(f"expected at least one publication, visit and round to measure, got {self}")


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """What the steps took at one broker, on average."""

    match_us: float
    select_us: float
    select_congested_us: float


@dataclasses.dataclass(frozen=True, slots=True)
class Contender:
    """An algorithm with its steps at all stops."""

    algorithm: Algorithm
    played: Played
    idle: Sequence[Step]
    match: Sequence[Step]
    select: Sequence[Step]


@dataclasses.dataclass(slots=True)
class Pass:
    """Steps that are timed one turn after another, beside steps that do nothing."""

    steps: Sequence[Step]
    idle: Sequence[Step]
    done: int = 0
    seconds: float = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether there are steps left, and time for them."""
        return self.done < len(self.steps) and self.seconds < PASS_S

    @property
    def each_us(self) -> float:
        """What a step took, on average."""
        return self.seconds / self.done * 1e6

    def take_turn(self) -> None:
        """Take the next steps."""
        turn = slice(self.done, self.done + TURN)
        self.seconds += _seconds(self.steps[turn]) - _seconds(self.idle[turn])
        self.done = min(turn.stop, len(self.steps))


def measure_costs(
    workload: Workload, algorithms: Sequence[Algorithm], measuring: Measuring | None = None
) -> list[CostRow]:
    """Measure some algorithms side by side; raise InvariantBroken if a replay does not do what the run did."""
    measuring = measuring or Measuring()
    systems = {}
    for is_tid in sorted({each.is_tid for each in algorithms}):
        played = play_for_visits(workload, _static(is_tid), measuring.publications, measuring.seed)
        stops = replay(played, sample(played.visits, measuring))
        check_stops(played, stops)
        systems[is_tid] = played, stops
    contenders = [_contender(algorithm, *systems[algorithm.is_tid]) for algorithm in algorithms]
    draw = random.Random(measuring.seed)
    with no_collections():
        rounds = [_round(contenders, draw) for _ in range(measuring.rounds)]
    return [_row(workload, each, costs) for each, costs in zip(contenders, zip(*rounds, strict=True), strict=True)]


def sample(visits: Sequence[Visit], measuring: Measuring) -> list[Visit]:
    """Draw visits in random order, so that the first of them stand for all; the same seed draws the same."""
    return random.Random(measuring.seed).sample(visits, min(measuring.visits, len(visits)))


def check_stops(played: Played, stops: Sequence[Stop]) -> None:
    """Raise InvariantBroken unless stops do what the run did, and what must be done when links are congested."""
    for stop in stops:
        stop.check()
    with congested(played):
        for stop in stops[:TURN]:
            stop.check_congested()


@contextlib.contextmanager
def congested(*worlds: Played) -> Iterator[None]:
    """Let all links of all brokers count as congested meanwhile."""
    for played in worlds:
        played.force_links(Verdict.CONGESTED)
    try:
        yield
    finally:
        for played in worlds:
            played.force_links(Verdict.AUTO)


def _static(is_tid: bool) -> Algorithm:
    return Algorithm.TID_STATIC if is_tid else Algorithm.STATIC


def _contender(algorithm: Algorithm, played: Played, stops: Sequence[Stop]) -> Contender:
    is_static = algorithm is _static(algorithm.is_tid)
    return Contender(
        algorithm,
        played,
        idle=[stop.do_nothing for stop in stops],
        match=[stop.match for stop in stops],
        select=[stop.select_statically if is_static else stop.select_dynamically for stop in stops],
    )


def _round(contenders: Sequence[Contender], draw: random.Random) -> list[Costs]:
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


def _row(workload: Workload, contender: Contender, costs: Sequence[Costs]) -> CostRow:
    return CostRow(
        subscribers=len(workload.subscriptions),
        algorithm=contender.algorithm.value,
        publications=contender.played.publications,
        match_us=median(each.match_us for each in costs),
        select_us=median(each.select_us for each in costs),
        select_congested_us=median(each.select_congested_us for each in costs),
        visits_each=contender.played.visits_each,
    )
