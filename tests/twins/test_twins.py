"""Compiled modules and their plain twins do the same.

The package is copied without its compiled modules. A worker (``twin_worker``) then runs once with the installed package
and once with the copy, on the same seeds, and must print the same.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from twin_worker import COMPILED_SUFFIXES, PACKAGE, is_compiled, modules_with_types

pytestmark = pytest.mark.skipif(
    not any(map(is_compiled, modules_with_types())), reason="nothing is compiled here, so there are no twins"
)

TESTS = Path(__file__).parents[1]
HELPERS = [TESTS / name for name in ("", "twins", "live", "property", "simulation", "unit/node")]

SAMPLES = {"frames": 1_500, "nodes": 30, "runs": 10, "matches": 12, "clients": 20}
"""The number of seeds per subject inside ``make test``; 15 s of CPU time in total."""


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, without its compiled modules."""
    directory = tmp_path_factory.mktemp("plain")
    left_out = shutil.ignore_patterns(*(f"*{suffix}" for suffix in COMPILED_SUFFIXES))
    shutil.copytree(PACKAGE, directory / PACKAGE.name, ignore=left_out)
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


def answers(plain: Path, *arguments: object) -> tuple[list[str], list[str]]:
    """Return the lines of both workers."""
    workers = [start("compiled", PACKAGE.parent, *arguments), start("plain", plain, *arguments)]
    outputs = [worker.communicate() for worker in workers]
    for worker, (_, errors) in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, errors[-3000:]
    compiled, other = (output.splitlines() for output, _ in outputs)
    return compiled, other


def compare(plain: Path, subject: str, seeds: range) -> None:
    """Compare both twins, and show the first difference."""
    compiled, other = answers(plain, subject, seeds.start, seeds.stop)
    assert len(compiled) == len(seeds)
    for seed, one, another in zip(seeds, compiled, other, strict=True):
        if one != another:
            both = answers(plain, subject, seed, seed + 1, "--lines")
            raise AssertionError(f"{subject}, seed {seed}: {first_difference(*both)}")


def first_difference(compiled: list[str], plain: list[str]) -> str:
    """Describe the first line that differs, after the part that is the same."""
    pairs = enumerate(itertools.zip_longest(compiled, plain, fillvalue="nothing"))
    number, (one, other) = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - 200)
    return f"line {number}\ncompiled: …{one[begin : same + 400]}\nplain:    …{other[begin : same + 400]}"


@pytest.mark.parametrize("subject", SAMPLES)
def test_twins_do_the_same(plain: Path, subject: str) -> None:
    compare(plain, subject, range(SAMPLES[subject]))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, 11))
@pytest.mark.parametrize("subject", SAMPLES)
def test_twins_do_the_same_very_often(plain: Path, subject: str, part: int) -> None:
    count = 20 * SAMPLES[subject]
    compare(plain, subject, range(part * count, (part + 1) * count))
