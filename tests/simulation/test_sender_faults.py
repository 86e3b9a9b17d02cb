"""Random runs with faults in which brokers or machines share a sender: crashed brokers and cut links hold up nobody."""

from __future__ import annotations

import dataclasses

import pytest
from random_faults import draw, judge

PROFILES = ("paper-broker-sender", "paper-machine-sender", "paper-broker-sender-race-trees")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seeds", [range(20), range(20, 40)], ids=["0-19", "20-39"])
def test_faults_lose_and_double_nothing(seeds: range, profile: str) -> None:
    for seed in seeds:
        scenario = draw(seed)
        simulator = dataclasses.replace(scenario.simulator, profile=profile)
        wrong, _ = judge(dataclasses.replace(scenario, simulator=simulator), check=True)
        assert wrong == [], f"seed {seed}"
