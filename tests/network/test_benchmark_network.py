"""The network benchmark in a size that takes little time, so that it cannot rot."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = ("network", "network_algorithms", "network_lines", "network_load", "network_processes")
TINY = ["--publications", "100", "--rounds", "1", "--seconds", "0.1", "--overlay", "paper:fig7", "--json"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for part in PARTS:
        monkeypatch.delitem(sys.modules, part, raising=False)
    return importlib.import_module("network")


def test_every_figure_is_measured(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(TINY)
    found = json.loads(capsys.readouterr().out)
    for figure in ("hop", "chain", "fan"):
        assert min(found[figure]["broker_us"], found[figure]["relay_us"]) > 0
    assert found["delay"]["publications"] == 20
    assert found["overlay"]["brokers"] == 12
    assert found["overlay"]["mb"] > 0
    assert sum(found["shares"].values()) == pytest.approx(1.0, abs=0.01)
    check_algorithms({figure: values for figure, values in found.items() if figure.startswith("algorithms")})


def check_algorithms(found: dict[str, dict[str, float]]) -> None:
    for values in found.values():
        assert all(values[f"{algorithm}_us"] > 0 for algorithm in ("static", "dynamic", "adaptive"))
        assert values["adaptive_ratio"] > 0
    for course in ("below_capacity", "full_batches", "saturated"):
        values = found[f"algorithms_chain_{course}"]
        assert values["adaptive_us"] > values["inner_adaptive_us"] > 0
    assert found["algorithms_chain_saturated"]["static_rerouted"] == 0


@pytest.mark.parametrize(
    ("got", "what"), [([1, 2], "1 missing"), ([1, 2, 2, 3], "1 duplicated"), ([1, 2, 3, 9], "1 not for it")]
)
def test_it_fails_loudly_unless_everything_came_once(benchmark: ModuleType, got: list[int], what: str):
    with pytest.raises(benchmark.Wrong, match=what):
        importlib.import_module("network_lines").check({0: got}, {0: [1, 2, 3]})
