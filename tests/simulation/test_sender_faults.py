"""Random runs with faults in which brokers or machines share a sender: crashed brokers and cut links hold up nobody."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from random_faults import draw, judge

from octopia.broker import Detail
from octopia.scenario import CrashItem
from octopia.simulator.profiles import find_profile, write_profile
from octopia.simulator.run import run_scenario
from support import RowList

PROFILES = ("paper-broker-sender", "paper-machine-sender", "paper-broker-sender-race-trees")


def expect_nothing_wrong(seeds: range, profile: str) -> None:
    for seed in seeds:
        scenario = draw(seed)
        simulator = dataclasses.replace(scenario.simulator, profile=profile)
        wrong, _ = judge(dataclasses.replace(scenario, simulator=simulator), check=True)
        assert wrong == [], f"seed {seed}"


@pytest.mark.parametrize("profile", PROFILES)
def test_faults_lose_and_double_nothing(profile: str) -> None:
    expect_nothing_wrong(range(12), profile)


@pytest.mark.parametrize("profile", PROFILES[:2])
def test_slow_senders_are_not_held_up_by_brokers_that_crash(profile: str, tmp_path: Path) -> None:
    """Copies wait for their turn when brokers crash: the links of the dead lose it, and the others go on."""
    slow = dataclasses.replace(find_profile(profile), name="slow", machines=2, send_us=20_000.0)
    path = str(write_profile(slow, tmp_path))
    seeds = [seed for seed in range(20) if any(isinstance(each.item, CrashItem) for each in draw(seed).events)][:8]
    waited = 0
    for seed in seeds:
        expect_nothing_wrong(range(seed, seed + 1), path)
        scenario = draw(seed)
        simulator = dataclasses.replace(scenario.simulator, profile=path)
        rows = RowList()
        run_scenario(dataclasses.replace(scenario, simulator=simulator), detail=Detail.ALL, sinks=[rows])
        waited += sum(row.event == "enqueue" and (row.queue_length or 0) > 1 for row in rows.rows)
    assert waited > 100


@pytest.mark.soak
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("first", range(12, 212, 50))
def test_faults_lose_and_double_nothing_in_many_runs(first: int, profile: str) -> None:
    expect_nothing_wrong(range(first, first + 50), profile)
