"""The programs in ``examples`` run and print what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 60
WITH_SPARK = ["late_data", "live_and_historic", "moving_average", "notebook"]
"""Examples that are run beside the tests of the pipeline, in their session."""

PRINTED = {
    "hello": "IBM 101.5 over 2 links\n",
    "prices": (
        "refused: the broker refused a publication: it conforms to none of its publisher's advertisements; "
        "the closest is (symbol IS NOT NULL AND price > 0 AND volume >= 0), which excludes price = -1.0: "
        "change the value, or advertise what you publish\n"
        "everything: IBM, SAP, XOM\n"
        "expensive: IBM, SAP\n"
        "tech: IBM, SAP\n"
        "big trades: XOM\n"
        "no volume: SAP\n"
    ),
    "blocking": "first: 2\nthen: [3, 4]\n",
    "scenario": (
        "static: 10 deliveries to the fund, the longest took 1914 ms\n"
        "  10 over lon.0 > lon.1 > tok.1\n"
        "dynamic: 10 deliveries to the fund, the longest took 1154 ms\n"
        "  6 over lon.0 > lon.1 > tok.1\n"
        "  4 over lon.0 > lon.2 > lon.1 > tok.1\n"
    ),
}


def run(name: str) -> str:
    source = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(
        [*PRINTED, *WITH_SPARK, "congestion", "reconnect"]
    )


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(name: str) -> None:
    assert run(name) == PRINTED[name]


def test_a_client_reconnects_and_notices_the_gap() -> None:
    lines = run("reconnect").splitlines()
    assert lines[0] == "received 1"
    assert lines[-1] == "received 3 after 1 gap"
    told = ["publications may be missing"] * 2
    assert sorted(lines[1:-1]) == ["disconnected", *told, "reconnected"]


def test_dynamic_routing_goes_around_the_slow_link() -> None:
    static, dynamic = re.split(r"^(?=dynamic)", run("congestion"), flags=re.MULTILINE)
    assert re.search(r"^  60 publications over 2 links$", static, re.MULTILINE)
    rerouted = re.search(r"^  (\d+) publications over 3 links$", dynamic, re.MULTILINE)
    assert rerouted is not None
    assert int(rerouted[1]) >= 5


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_shows(path: Path) -> None:
    text = path.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) < LINES_MAX
