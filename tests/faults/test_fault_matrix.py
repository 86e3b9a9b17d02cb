"""The fault matrix: a sample in every test run, and all cells in ``make soak``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cells import LONG_DOWN, MATRIX, Cell, Fault, Load, LossNotTold, run_cell
from live_overlay import Place

ROUTERS = (Place.LEAF, Place.INNER)
HOLDERS = (*ROUTERS, Place.PUBLISHER_HOST)
NOT_TOLD_YET = {
    *(Cell(fault, place, load) for fault in (Fault.KILL, Fault.CLOCK_BACK) for place in ROUTERS for load in Load),
    *(Cell(fault, Place.PUBLISHER_HOST, Load.CONGESTED) for fault in (Fault.KILL, Fault.CLOCK_BACK)),
    *(Cell(Fault.TWIN, place, Load.CONGESTED) for place in (Place.PUBLISHER_HOST, Place.LEAF)),
    LONG_DOWN,
}
"""Cells that lose publications without telling the subscribers behind the loss, every time."""
AT_TIMES = {Cell(Fault.TWIN, place, load) for place in HOLDERS for load in Load} - NOT_TOLD_YET
"""Cells that do so if publications happen to be on their way: nothing is lost otherwise."""

SAMPLE = [
    Cell(Fault.KILL, Place.INNER, Load.CONGESTED),
    Cell(Fault.STOP, Place.PUBLISHER_HOST, Load.IDLE),
    Cell(Fault.CUT, Place.INNER, Load.CONGESTED),
    Cell(Fault.RETURNING, Place.SUBSCRIBER_HOST, Load.CONGESTED),
    Cell(Fault.FULL_DISK, Place.LEAF, Load.IDLE),
    LONG_DOWN,
]
SHORT_LIMIT_S, LONG_LIMIT_S = 1.0, 60.0
"""The time that publications wait for a link that is down: for the broker of the sample that stays down, and else."""


def cases(cells: list[Cell]) -> pytest.MarkDecorator:
    """Run a test for these cells; a loss that is not told yet is expected, and no other failure is."""
    marked = []
    for cell in cells:
        is_expected, may_happen = cell in NOT_TOLD_YET, cell in AT_TIMES
        marks = [pytest.mark.xfail(raises=LossNotTold, strict=is_expected)] if is_expected or may_happen else []
        marked.append(pytest.param(cell, id=str(cell), marks=marks))
    return pytest.mark.parametrize("cell", marked)


@cases(SAMPLE)
def test_a_sample_of_the_matrix(cell: Cell, tmp_path: Path):
    limit_s = SHORT_LIMIT_S if cell is LONG_DOWN else LONG_LIMIT_S
    asyncio.run(run_cell(cell, tmp_path, limit_s)).check()


@pytest.mark.soak
@cases([*MATRIX, LONG_DOWN])
def test_every_cell_of_the_matrix(cell: Cell, tmp_path: Path):
    asyncio.run(run_cell(cell, tmp_path, LONG_LIMIT_S)).check()


def test_the_matrix_is_complete():
    assert len(set(MATRIX)) == (len(Fault) - 1) * len(Place) * len(Load) == 96
