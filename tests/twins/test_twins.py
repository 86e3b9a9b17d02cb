"""Compiled modules and their plain twins do the same.

The package is copied without its compiled modules, twice: *plain* is what a machine without a compiler runs, and
*complete* also uses the modules that plain Python leaves to a faster reference. A worker (``twin_worker``) runs with
the installed package and with each copy, on the same seeds, and must print the same.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from twin_worker import COMPILED_SUFFIXES, PACKAGE, is_compiled, modules_with_types

pytestmark = pytest.mark.skipif(
    not any(map(is_compiled, modules_with_types())), reason="nothing is compiled here, so there are no twins"
)

TESTS = Path(__file__).parents[1]
HELPERS = [TESTS / name for name in ("", "twins", "live", "property", "simulation", "unit/node")]

SAMPLES = {"frames": 1_500, "nodes": 25, "runs": 16, "matches": 12, "clients": 20}
"""The number of seeds per subject inside ``make test``; about 20 s of CPU time in total."""


SWITCH = 'IS_COMPILED = not __file__.endswith(".py")'
SWITCHED = ("content/encoded.py", "wire/relaying.py")
"""The modules that are used only if they are compiled."""


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, without its compiled modules."""
    directory = tmp_path_factory.mktemp("plain")
    left_out = shutil.ignore_patterns(*(f"*{suffix}" for suffix in COMPILED_SUFFIXES))
    shutil.copytree(PACKAGE, directory / PACKAGE.name, ignore=left_out)
    return directory


@pytest.fixture(scope="session")
def complete(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, without its compiled modules, in which all their sources are used."""
    directory = tmp_path_factory.mktemp("complete")
    shutil.copytree(plain, directory, dirs_exist_ok=True)
    for name in SWITCHED:
        source = directory / PACKAGE.name / name
        text = source.read_text()
        assert text.count(SWITCH) == 1
        source.write_text(text.replace(SWITCH, "IS_COMPILED = True"))
    return directory


def start(twin: str, source: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start a worker with the package in a directory."""
    path = os.pathsep.join(map(str, [source, *HELPERS]))
    return subprocess.Popen(
        [sys.executable, "-m", "twin_worker", twin, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(copies: Sequence[Path], *arguments: object) -> list[list[str]]:
    """Return the lines of all workers; the first has the installed package."""
    workers = [start("compiled", PACKAGE.parent, *arguments)]
    workers += [start("plain", copy, *arguments) for copy in copies]
    try:
        outputs = [worker.communicate() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (_, errors) in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, errors[-3000:]
    return [output.splitlines() for output, _ in outputs]


def compare(copies: Sequence[Path], subject: str, seeds: range) -> None:
    """Compare all twins, and show the first difference."""
    compiled, *others = answers(copies, subject, seeds.start, seeds.stop)
    assert len(compiled) == len(seeds)
    for copy, lines in zip(copies, others, strict=True):
        for seed, one, other in zip(seeds, compiled, lines, strict=True):
            if one != other:
                both = answers([copy], subject, seed, seed + 1, "--lines")
                raise AssertionError(f"{subject}, seed {seed}: {first_difference(*both)}")


def first_difference(compiled: list[str], plain: list[str]) -> str:
    """Describe the first line that differs, after the part that is the same."""
    pairs = enumerate(itertools.zip_longest(compiled, plain, fillvalue="nothing"))
    number, (one, other) = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - 200)
    return f"line {number}\ncompiled: …{one[begin : same + 400]}\nplain:    …{other[begin : same + 400]}"


@pytest.mark.parametrize("subject", SAMPLES)
def test_twins_do_the_same(plain: Path, complete: Path, subject: str) -> None:
    compare([plain, complete], subject, range(SAMPLES[subject]))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, 11))
@pytest.mark.parametrize("subject", SAMPLES)
def test_twins_do_the_same_very_often(plain: Path, complete: Path, subject: str, part: int) -> None:
    count = 20 * SAMPLES[subject]
    compare([plain, complete], subject, range(part * count, (part + 1) * count))


def test_a_difference_is_found_and_shown(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain, tmp_path, dirs_exist_ok=True)
    source = tmp_path / PACKAGE.name / "protocol/transit.py"
    source.write_text(source.read_text().replace("other.hop += hops", "other.hop += hops + 1"))
    with pytest.raises(AssertionError, match=r"nodes, seed 0: line \d+\ncompiled: .*\nplain: "):
        compare([tmp_path], "nodes", range(1))
