"""The fault matrix as a command: ``python -m tests.faults --fault kill --place inner --algorithm adaptive``.

Each option can be given several times; without it, all of its values are run. The exit code is 1 if a cell fails.
"""

from __future__ import annotations

import argparse
import asyncio
import enum
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path[:0] = map(str, (HERE, HERE.parent, HERE.parent / "live"))

from cells import ALGORITHMS, LONG_DOWN, MATRIX, Cell, Fault, Load, Result, run_cell  # noqa: E402
from live_overlay import Place  # noqa: E402

CELL = ("algorithm", "fault", "place", "load")
COLUMNS = (*CELL, "accepted", "failed", "owed", "delivered", "told", "gaps", "s", "result")
WIDTH = 160
"""The width of a table that is written to a file."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Run cells of the fault matrix.")
    options: dict[str, Sequence[enum.StrEnum]] = {
        "algorithm": ALGORITHMS,
        "fault": list(Fault),
        "place": list(Place),
        "load": list(Load),
    }
    for name, values in options.items():
        parser.add_argument(f"--{name}", type=type(values[0]), choices=values, action="append", help="default: all")
    parser.add_argument("--down-limit", type=float, default=60.0, help="seconds that publications wait for a link")
    parser.add_argument("--keep", type=Path, help="a folder for overlay files and logs of the brokers")
    return parser.parse_args()


def chosen(wanted: argparse.Namespace) -> list[Cell]:
    def is_wanted(values: Sequence[enum.StrEnum] | None, value: enum.StrEnum) -> bool:
        return not values or value in values

    return [
        cell
        for cell in (*MATRIX, *LONG_DOWN)
        if is_wanted(wanted.algorithm, cell.algorithm)
        and is_wanted(wanted.fault, cell.fault)
        and is_wanted(wanted.place, cell.place)
        and is_wanted(wanted.load, cell.load)
    ]


def outcome(result: Result) -> tuple[bool, str]:
    try:
        result.check()
    except AssertionError as error:
        return False, str(error).partition(": ")[2]
    return True, "sound"


async def run_one(cell: Cell, wanted: argparse.Namespace) -> tuple[bool, list[str]]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = wanted.keep / str(cell) if wanted.keep else Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            result = await run_cell(cell, folder, wanted.down_limit)
        except Exception as error:
            return False, [
                *map(str, (cell.algorithm, cell.fault, cell.place, cell.load)),
                *[""] * 7,
                f"{type(error).__name__}: {error}",
            ]
    verdict, (is_sound, words) = result.verdict, outcome(result)
    numbers = (verdict.accepted, verdict.failed, verdict.owed, verdict.delivered, verdict.told, verdict.gaps)
    row = (cell.algorithm, cell.fault, cell.place, cell.load, *numbers, f"{result.seconds:.1f}", words)
    return is_sound, list(map(str, row))


def main() -> int:
    wanted, console = arguments(), Console()
    if not console.is_terminal:
        console.width = WIDTH
    logging.basicConfig(level=logging.CRITICAL)
    table = Table(*COLUMNS, title="Fault matrix")
    for column in table.columns[len(CELL) : -1]:
        column.justify = "right"
    failures = 0
    for cell in chosen(wanted):
        with console.status(f"{cell} …"):
            is_sound, row = asyncio.run(run_one(cell, wanted))
        failures += not is_sound
        table.add_row(*row, style="" if is_sound else "red")
        if not console.is_terminal:
            console.print("  ".join(row), soft_wrap=True, markup=False)
    console.print(table)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
