"""Random runs with faults: brokers crash, links are cut, frames are lost, duplicated and reordered.

After every run, each publication that had to arrive has arrived exactly once, and the tables are those of the same run
without faults. A failure prints the command that replays it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import random_faults
from random_faults import NOTHING, FaultTotals, draw, draw_on_se, judge, replay_command

from octopia.broker import confirming, exchanging
from octopia.broker.state import State
from octopia.errors import InvariantBroken
from octopia.ids import BrokerId
from octopia.link import Outcome, Session
from octopia.protocol import CONTROL, Frame, Item
from octopia.protocol.messages import Fetch
from octopia.settings import Algorithm
from octopia.simulator.run import run_scenario
from octopia.simulator.world import Stuck
from support import RowList

ROOT = Path(__file__).parents[2]

ORDINARY = range(150)
ON_SE = range(5)
CHECKED = range(20)
COUNTED = range(30)
SOAK = range(150, 10_150)
SOAK_ON_SE = range(5, 105)


def chunks(seeds: range, size: int) -> list[object]:
    """Split seeds into parameters of a test."""
    starts = range(seeds.start, seeds.stop, size)
    return [pytest.param(range(start, start + size), id=f"{start}-{start + size - 1}") for start in starts]


def expect_nothing_wrong(seed: int, *, on_se: bool = False, check: bool = False) -> FaultTotals:
    """Run a seed; if anything is wrong, fail with the command that replays it."""
    command = f"replay with: {replay_command(seed, on_se=on_se, check=check)}"
    try:
        wrong, totals = judge(draw_on_se(seed) if on_se else draw(seed), check=check)
    except Exception as error:
        raise AssertionError(f"seed {seed} raised {error!r}\n{command}") from error
    if wrong:
        some = "\n".join(wrong[:20])
        pytest.fail(f"seed {seed}, {len(wrong)} things are wrong\n{some}\n{command}", pytrace=False)
    return totals


@pytest.mark.parametrize("seeds", chunks(ORDINARY, 25))
def test_faults_lose_and_double_nothing(seeds: range) -> None:
    for seed in seeds:
        expect_nothing_wrong(seed)


@pytest.mark.parametrize("seeds", chunks(ON_SE, 5))
def test_faults_lose_and_double_nothing_on_se(seeds: range) -> None:
    for seed in seeds:
        expect_nothing_wrong(seed, on_se=True)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", chunks(SOAK_ON_SE, 10))
def test_faults_lose_and_double_nothing_on_se_in_many_runs(seeds: range) -> None:
    for seed in seeds:
        expect_nothing_wrong(seed, on_se=True)


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_a_restarted_broker_takes_back_the_bits_of_its_last_life(algorithm: Algorithm):
    """Without confirmations, no answer to an advertisement means 0; after a restart it has to be said."""
    complaints, _ = judge(draw(4476).with_algorithm(algorithm), check=True)
    assert complaints == []


@pytest.mark.soak
@pytest.mark.parametrize("seeds", chunks(SOAK, 100))
def test_faults_lose_and_double_nothing_in_very_many_runs(seeds: range, capsys: pytest.CaptureFixture[str]) -> None:
    totals = functools.reduce(FaultTotals.__add__, map(expect_nothing_wrong, seeds))
    # With several workers this is not shown; pytest's own progress must do.
    with capsys.disabled():
        print(f" seeds {seeds.start} to {seeds.stop - 1} of {SOAK.stop - 1}: {totals}, nothing is wrong")


@pytest.mark.parametrize(("seed", "algorithm"), [(43, Algorithm.DYNAMIC), (93, Algorithm.ADAPTIVE)])
def test_a_publication_that_had_to_wait_is_known_before_it_is_delivered(seed: int, algorithm: Algorithm):
    """It is routed when its queue has room, and delivered to all clients at once."""
    rows = RowList()
    run_scenario(draw(seed).with_algorithm(algorithm), keep=False, sinks=[rows])
    received = [row.publication for row in rows.rows if row.event == "receive" and row.kind == "publication"]
    assert {row.publication for row in rows.rows if row.event == "deliver"} <= set(received)


@pytest.mark.parametrize("seeds", chunks(CHECKED, 10))
def test_invariants_hold_after_every_step(seeds: range) -> None:
    for seed in seeds:
        expect_nothing_wrong(seed, check=True)


def test_every_kind_of_fault_strikes_while_frames_are_in_flight() -> None:
    """Some deliveries were owed because of a confirmation alone, so confirmations were really tested."""
    totals = sum((expect_nothing_wrong(seed) for seed in COUNTED), start=NOTHING)
    never = [name for name, count in dataclasses.asdict(totals).items() if not count]
    assert never == []


def test_runs_are_as_varied_as_they_should_be() -> None:
    scenarios = [draw(seed) for seed in range(100)]
    assert {each.routing.algorithm for each in scenarios} == {Algorithm.STATIC, Algorithm.DYNAMIC}
    assert {each.routing.confirmations for each in scenarios} == {True, False}
    assert {each.simulator.queue_capacity for each in scenarios} == {0, 2, 8}
    assert {each.simulator.window_bytes for each in scenarios} == {200, 4096, 65536}
    assert {each.overlay.scot.clusters for each in scenarios} == {1, 2, 3, 4}
    assert {len(each.overlay.scot.regions) for each in scenarios} == {1, 2, 3, 4, 5}
    assert len(draw_on_se(0).overlay.scot.brokers) == 56


# Determinism.

_PRINT_RUN = """
import sys
import msgspec
from random_faults import draw
from octopia.simulator.run import run_scenario
from octopia.simulator.world import Stuck
for seed in map(int, sys.argv[1:]):
    sys.stdout.buffer.write(msgspec.json.encode(run_scenario(draw(seed)).to_json()) + b"\\n")
"""


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    seeds = [4, 8, 11]
    here = b"".join(msgspec.json.encode(run_scenario(draw(seed)).to_json()) + b"\n" for seed in seeds)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    for hash_seed in ("0", "4242"):
        there = subprocess.run(
            [sys.executable, "-c", _PRINT_RUN, *map(str, seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        )
        assert there.stdout == here


# Broken brokers and links do not pass.


def forget_what_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(state: State, sender: BrokerId, message: Fetch) -> None:
        """Send nothing."""

    monkeypatch.setattr(exchanging, "on_fetch", nothing)


def accept_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    on_frames = Session._on_frames

    def accept(session: Session, items: Sequence[Item], at: int, outcome: Outcome, now_ms: float) -> int:
        frame, receiver = items[at], session._receiver
        assert isinstance(frame, Frame)
        message, is_double = frame.message, frame.sequence <= receiver.accepted
        on_frames(session, [frame], 0, outcome, now_ms)
        if is_double and message.traffic_class != CONTROL:
            receiver.hold(message.traffic_class, message.size_bytes, sys.maxsize)
            outcome.messages.append(message)
        return at + 1

    monkeypatch.setattr(Session, "_on_frames", accept)


def confirm_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = confirming.begin
    monkeypatch.setattr(
        confirming, "begin", lambda state, last_hop, message, neighbours, _: begin(state, last_hop, message, [], [])
    )


@pytest.mark.parametrize(
    ("defect", "seeds"),
    [(forget_what_is_fetched, range(40)), (accept_doubles, range(40)), (confirm_at_once, range(70, 120))],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_defect_is_noticed(defect: object, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect makes at least one run go wrong; seeds begin where it is not far to the first one."""
    defect(monkeypatch)  # type: ignore[operator]
    assert any(_goes_wrong(seed) for seed in seeds), "nobody said so"


def _goes_wrong(seed: int) -> bool:
    try:
        return bool(judge(draw(seed))[0])
    except (Stuck, InvariantBroken):
        return True


# Replaying.


def test_a_failure_names_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(random_faults, "tables_of", lambda run: {BrokerId("a", 0): id(run)})
    with pytest.raises(pytest.fail.Exception) as failure:
        expect_nothing_wrong(3, check=True)
    command = shlex.split(str(failure.value).rpartition("replay with: ")[2])
    assert random_faults.main(command[2:]) == 1
    assert "without faults with" in capsys.readouterr().out
    # The command works from the root of the repository, where nothing is broken.
    replayed = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.endswith("nothing is wrong\n")


def test_an_error_names_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("no tables")

    monkeypatch.setattr(random_faults, "tables_of", fail)
    with pytest.raises(AssertionError, match=r"no tables(.|\n)*random_faults.py 2 --se$"):
        expect_nothing_wrong(2, on_se=True)
