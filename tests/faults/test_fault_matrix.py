"""The fault matrix: a sample in every test run, and all cells in ``make soak``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cells import ALGORITHMS, LONG_DOWN, MATRIX, Cell, Fault, Load, run_cell
from live_overlay import Place

from octopia.settings import Algorithm

SAMPLE = [
    Cell(Fault.KILL, Place.INNER, Load.CONGESTED, Algorithm.ADAPTIVE),
    Cell(Fault.STOP, Place.PUBLISHER_HOST, Load.IDLE, Algorithm.DYNAMIC),
    Cell(Fault.CUT, Place.INNER, Load.CONGESTED, Algorithm.ADAPTIVE),
    Cell(Fault.RETURNING, Place.SUBSCRIBER_HOST, Load.CONGESTED, Algorithm.DYNAMIC),
    Cell(Fault.FULL_DISK, Place.LEAF, Load.IDLE, Algorithm.ADAPTIVE),
    *LONG_DOWN,
]
SHORT_LIMIT_S, LONG_LIMIT_S = 1.0, 60.0
"""The time that publications wait for a link that is down: for the broker of the sample that stays down, and else."""


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_a_sample_of_the_matrix(cell: Cell, tmp_path: Path):
    limit_s = SHORT_LIMIT_S if cell in LONG_DOWN else LONG_LIMIT_S
    asyncio.run(run_cell(cell, tmp_path, limit_s)).check()


@pytest.mark.soak
@pytest.mark.parametrize("cell", [*MATRIX, *LONG_DOWN], ids=str)
def test_every_cell_of_the_matrix(cell: Cell, tmp_path: Path):
    asyncio.run(run_cell(cell, tmp_path, LONG_LIMIT_S)).check()


def test_the_matrix_is_complete():
    assert len(set(MATRIX)) == len(ALGORITHMS) * (len(Fault) - 1) * len(Place) * len(Load) == 192
