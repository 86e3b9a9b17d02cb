"""Mutated frames after a valid greeting: no traceback, no growth, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from attack import BROKER_POOL, CLIENT_POOL, PER_CONNECTION, Attack, mutated, readable

from octopia.runtime.greeters import BROKER_LIMITS, CLIENT_LIMITS

GROWTH_BYTES_MAX = 64 * 1024 * 1024


def attack(folder: Path, count: int, seed: int) -> None:
    played = Attack(folder, seed)
    begin_s = time.monotonic()
    growth = asyncio.run(played.play(count))
    tally, verdict, took_s = played.tally, played.ledger.judge(), time.monotonic() - begin_s
    print(f"{tally}, {growth / 2**20:.1f} MiB more, {verdict.delivered} healthy publications, {took_s:.0f} s")
    log = played.log()
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    assert "internal_error" not in log
    assert tally.frames >= count
    assert not played.errors
    assert {"bad_frame", "violation"} <= set(tally.closings)
    assert growth < GROWTH_BYTES_MAX, f"{growth} bytes more"
    assert verdict.breaches == []
    # To the broker, the attacker is also a neighbour that restarts again and again, and whose batches fail. The
    # subscriber is told of that, as it must be. It misses nothing all the same.
    assert verdict.delivered == verdict.accepted > 10


def test_some_thousands_of_mutated_frames(tmp_path: Path):
    attack(tmp_path, 3_000, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_a_million_mutated_frames(tmp_path: Path):
    attack(tmp_path, 1_000_000, seed=2)


@pytest.mark.parametrize(
    ("pool", "limits"), [(CLIENT_POOL, CLIENT_LIMITS), (BROKER_POOL, BROKER_LIMITS)], ids=["client", "neighbour"]
)
def test_most_connections_carry_several_frames(pool: list[bytes], limits):
    """An attack whose first frame always ends the connection would test little."""
    chance = random.Random(3)
    counts = [readable(b"".join(mutated(chance, pool)), limits) for _ in range(200)]
    assert 2.0 < sum(counts) / len(counts) < PER_CONNECTION
