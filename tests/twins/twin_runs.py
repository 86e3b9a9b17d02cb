"""Simulated runs: results and traces, byte for byte, with and without faults, under every algorithm."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import msgspec
from random_faults import draw
from random_scenarios import draw_scenario

from octopia.broker import Detail
from octopia.errors import OctopiaError
from octopia.scenario import Scenario
from octopia.settings import Algorithm
from octopia.simulator.profiles import Profile, find_profile
from octopia.simulator.run import run_scenario
from support import RowList

PROFILES = (
    "paper", "paper-broker-sender", "paper-machine-sender", "paper-race-trees", "paper-broker-sender-race-trees"
)  # fmt: skip


def lines(seed: int) -> Iterator[str]:
    """Yield the trace and the result of a run."""
    chance = random.Random(seed)
    has_faults = seed % 2 == 1
    if has_faults:
        scenario, algorithm = draw(seed), chance.choice((Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE))
    else:
        scenario, algorithm = draw_scenario(seed).scenario, list(Algorithm)[seed // 2 % len(Algorithm)]
    options: dict[str, Any] = {"detail": chance.choice(list(Detail))}
    if chance.random() < 0.6:
        options["profile"] = _draw_profile(chance)
    if chance.random() < 0.3:
        options["keep"] = False
    yield f"{algorithm} {has_faults} {options}"
    yield from _played(
        dataclasses.replace(scenario, routing=dataclasses.replace(scenario.routing, algorithm=algorithm)), options
    )


def _draw_profile(chance: random.Random) -> Profile:
    """Draw a model of the paper; some limit links by credit."""
    profile = find_profile(chance.choice(PROFILES))
    return dataclasses.replace(profile, credit_kib=1.0) if chance.random() < 0.3 else profile


def _played(scenario: Scenario, options: dict[str, Any]) -> Iterator[str]:
    rows = RowList()
    try:
        run = run_scenario(scenario, sinks=[rows], **options)
    except OctopiaError as error:
        yield f"{type(error).__name__}: {error}"
        return
    for row in rows.rows:
        yield msgspec.json.encode(row).decode()
    yield msgspec.json.encode(run.to_json()).decode()
    for broker in run.world.brokers.values():
        yield f"{broker.id} {broker.fingerprint()} {broker.counters}"
