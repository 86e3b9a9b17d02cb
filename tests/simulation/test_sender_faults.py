"""Random runs with faults in which brokers or machines share a sender: crashed brokers and cut links hold up nobody."""

from __future__ import annotations

import dataclasses

import pytest
from random_faults import draw, judge

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


@pytest.mark.soak
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("first", range(12, 212, 50))
def test_faults_lose_and_double_nothing_in_many_runs(first: int, profile: str) -> None:
    expect_nothing_wrong(range(first, first + 50), profile)
