"""The fault matrix: algorithms x faults x places x loads. One cell is one run with one fault, judged by the ledger.

A run publishes at a steady rate, does the fault to a broker, undoes it, and waits until everything is at rest. Then it
publishes a fresh round, which must arrive completely and without a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import functools
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from ledger import Ledger, Verdict
from live_overlay import LiveOverlay, Place
from processes import PATIENCE_S
from stranger import Stranger
from traffic import ReturningClient, Traffic

from octopia.settings import Algorithm

WARM = 40
"""The number of publications before the fault."""
DURING = 40
"""The number of publications while the fault lasts, after it was noticed."""
FRESH = 40
"""The number of publications when all is at rest again."""
CUTS = 3
HOUR_MS = 3_600_000
FULL_DISK = Path("/dev/full")


class Fault(enum.StrEnum):
    """The faults."""

    KILL = "kill"
    STOP = "stop"
    CUT = "cut"
    BLACK_HOLE = "black-hole"
    TWIN = "twin"
    RETURNING = "returning"
    CLOCK_BACK = "clock-back"
    FULL_DISK = "full-disk"
    DOWN = "down"


class Load(enum.StrEnum):
    """The loads."""

    IDLE = "idle"
    CONGESTED = "congested"
    MANY = "many"

    @property
    def rate(self) -> float:
        """The number of publications per second."""
        return 200.0 if self is Load.CONGESTED else 100.0


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One fault at one place under one load, with one algorithm."""

    fault: Fault
    place: Place
    load: Load
    algorithm: Algorithm = Algorithm.DYNAMIC

    def __str__(self) -> str:
        return f"{self.algorithm}-{self.fault}-{self.place}-{self.load}"


ALGORITHMS = (Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
"""Static routing is dynamic routing without congested links."""
MATRIX = [
    Cell(fault, place, load, algorithm)
    for algorithm in ALGORITHMS
    for fault in Fault
    if fault is not Fault.DOWN
    for place in Place
    for load in Load
]
"""All cells; a broker that stays down for longer than its neighbours wait is a case of its own."""
LONG_DOWN = [Cell(Fault.DOWN, Place.INNER, Load.IDLE, algorithm) for algorithm in ALGORITHMS]


class LossNotTold(AssertionError):
    """Publications were lost, and a subscriber that was owed them was told nothing. Nothing else is wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The account of a run, that of its fresh round, logs with tracebacks, and the time that the run took."""

    cell: Cell
    verdict: Verdict
    fresh: Verdict
    tracebacks: list[str]
    seconds: float

    def check(self) -> None:
        """Raise LossNotTold if that is all that is wrong, and AssertionError for anything else."""
        assert not self.tracebacks, f"{self.cell}: tracebacks in {', '.join(self.tracebacks)}"
        later = self.fresh.breaches + [f"{self.fresh.gaps} gaps"] * bool(self.fresh.gaps)
        assert not later, f"{self.cell}: in the fresh round: {'; '.join(later)}"
        assert self.verdict.is_only_unheard, f"{self.cell}: {'; '.join(self.verdict.breaches)}"
        if self.verdict.breaches:
            raise LossNotTold(f"{self.cell}: {'; '.join(self.verdict.breaches)}")


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """The run that a fault is done to."""

    overlay: LiveOverlay
    traffic: Traffic
    ledger: Ledger
    cell: Cell
    down_limit_s: float

    @property
    def broker(self) -> str:
        """The broker of the place."""
        return self.cell.place.broker


# The faults.


async def kill(stage: Stage, *options: str) -> None:
    """Kill a broker while bytes wait in its sockets, and start it again when its neighbours have noticed."""
    process = stage.overlay.processes[stage.broker]
    process.signal(signal.SIGSTOP)
    await stage.traffic.more(DURING)
    await process.kill()
    await stage.overlay.noticed(stage.broker)
    await stage.traffic.more(DURING)
    await stage.overlay.start_broker(stage.broker, *options)
    await stage.overlay.processes[stage.broker].hear("ready")


async def set_clock_back(stage: Stage) -> None:
    """Kill a broker, and start it again with its clock set back by an hour."""
    await kill(stage, "--clock-back-ms", str(HOUR_MS))


async def stay_down(stage: Stage) -> None:
    """Kill a broker, and start it again when its neighbours have begun to drop what waits for it."""
    await stage.overlay.processes[stage.broker].kill()
    await stage.overlay.overdue(stage.broker, PATIENCE_S + stage.down_limit_s)
    await stage.traffic.more(DURING)
    await stage.overlay.start_broker(stage.broker)
    await stage.overlay.processes[stage.broker].hear("ready")


async def stop(stage: Stage) -> None:
    """Stop a broker's process until its neighbours have noticed, and let it continue."""
    process = stage.overlay.processes[stage.broker]
    process.signal(signal.SIGSTOP)
    try:
        await stage.overlay.noticed(stage.broker)
        await stage.traffic.more(DURING)
    finally:
        process.signal(signal.SIGCONT)


async def cut(stage: Stage) -> None:
    """Break all connections of a broker, a few times."""
    for _ in range(CUTS):
        stage.overlay.cut(stage.broker)
        await stage.traffic.more(DURING // 2)


async def black_hole(stage: Stage) -> None:
    """Swallow all bytes from and to a broker until its neighbours have noticed, while connections stay."""
    stage.overlay.swallow(stage.broker)
    await stage.overlay.noticed(stage.broker)
    await stage.traffic.more(DURING)
    stage.overlay.heal(stage.broker)


async def start_twin(stage: Stage) -> None:
    """Start a second broker under the same name until the first is fenced; then run the first one again, alone."""
    twin = await stage.overlay.start_twin(stage.broker)
    first = stage.overlay.processes[stage.broker]
    await first.hear("fenced")
    await stage.traffic.more(DURING)
    await asyncio.gather(twin.kill(), first.kill())
    await stage.overlay.start_broker(stage.broker)
    await stage.overlay.processes[stage.broker].hear("ready")


async def fill_the_disk(stage: Stage) -> None:
    """Make a broker log that cannot write its log: bad frames arrive, and its connections break."""
    for _ in range(CUTS):
        stranger = await Stranger.connect(stage.overlay.url(stage.broker))
        stranger.say(b"GET / HTTP/1.1\r\n\r\n")
        await stranger.until_closed()
        stage.overlay.cut(stage.broker)
        await stage.traffic.more(DURING // 2)


BROKER_FAULTS: dict[Fault, Callable[[Stage], Awaitable[None]]] = {
    Fault.KILL: kill,
    Fault.STOP: stop,
    Fault.CUT: cut,
    Fault.BLACK_HOLE: black_hole,
    Fault.TWIN: start_twin,
    Fault.CLOCK_BACK: set_clock_back,
    Fault.FULL_DISK: fill_the_disk,
    Fault.DOWN: stay_down,
}
PROXIED = (Fault.CUT, Fault.BLACK_HOLE, Fault.FULL_DISK)
STARTING_S = "0.5"
"""The age at which a broker that is fenced stops: runs are too short for the ten seconds of the default."""


# The run of a cell.


async def run_cell(cell: Cell, folder: Path, down_limit_s: float = 60.0) -> Result:
    """Run a cell, with its files in a folder."""
    begin_s = time.monotonic()
    options = ["--down-limit-ms", str(1000.0 * down_limit_s)]
    if cell.fault is Fault.TWIN:
        options += ["--starting-s", STARTING_S]
    overlay = LiveOverlay(
        folder,
        congested=cell.load is Load.CONGESTED,
        proxied=cell.fault in PROXIED,
        algorithm=cell.algorithm,
        options=options,
    )
    ledger = Ledger()
    traffic = Traffic(overlay, ledger, cell.load.rate)
    try:
        await overlay.start({cell.place.broker: FULL_DISK} if cell.fault is Fault.FULL_DISK else {})
        await traffic.join()
        if cell.load is Load.MANY:
            await traffic.join_others()
        fresh_s = await _play(Stage(overlay, traffic, ledger, cell, down_limit_s))
    finally:
        await traffic.leave()
        await overlay.stop()
    verdict, fresh = ledger.judge(), ledger.judge(fresh_s, excuses=False)
    return Result(cell, verdict, fresh, overlay.tracebacks(), time.monotonic() - begin_s)


async def _play(stage: Stage) -> float:
    """Play a run, and return the time at which its fresh round begins."""
    async with _fault_of(stage) as do_fault:
        stage.traffic.begin()
        await stage.traffic.more(WARM)
        await do_fault()
        await stage.traffic.more(WARM)
        await stage.traffic.end()
        await _settle(stage)
        fresh_s = time.monotonic()
        stage.traffic.publish(FRESH)
        await _settle(stage)
    return fresh_s


async def _settle(stage: Stage) -> None:
    await stage.overlay.release()
    await stage.traffic.connected()
    await stage.traffic.answered()
    await stage.overlay.at_rest()


@contextlib.asynccontextmanager
async def _fault_of(stage: Stage) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield the fault; a client that dies and returns under its name needs to be there for the whole run."""
    if stage.cell.fault is not Fault.RETURNING:
        yield functools.partial(BROKER_FAULTS[stage.cell.fault], stage)
        return
    client = ReturningClient(stage.overlay, stage.ledger, stage.cell.place)
    await client.begin()

    async def die_and_return() -> None:
        await client.die()
        await stage.traffic.more(DURING)
        await client.begin()
        await stage.traffic.more(DURING)
        if client.is_publisher:
            await client.end()

    yield die_and_return
    if not client.is_publisher:
        await client.end()
