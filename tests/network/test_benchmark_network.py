"""The network benchmark in a size that takes little time, so that it cannot rot."""

from __future__ import annotations

import importlib
import json
import sys
from types import ModuleType
from typing import Any

import pytest

from octopia.matching import IS_COMPILED
from support import load_benchmark

FIGURES = ["hop", "inner", "fan", "ranges", "sparse", "delay", "traces", "plain", "algorithms", "overlay", "packages"]

SOME = ["fan", "sparse", "delay"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("network", monkeypatch)


@pytest.mark.soak
def test_every_figure_is_measured(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--quick", "--json"])
    found = check_figures(capsys.readouterr().out, FIGURES)
    assert [row["trace"] for row in found["traces"]] == ["off", "deliveries", "hops", "all"] * 2
    assert [row["brokers"] for row in found["overlay"]] == [12, 12]
    assert sum(row["share"] for row in found["packages"]) == pytest.approx(1.0, abs=0.01)
    check_algorithms(found["algorithms"])


def test_some_figures_are_measured(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--quick", "--json", "--only", *SOME])
    check_figures(capsys.readouterr().out, SOME)


def check_figures(printed: str, figures: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Check what all figures have in common, and return them."""
    measured = json.loads(printed)
    assert measured["conditions"]["compiled_modules"].startswith("0 of") != IS_COMPILED
    found: dict[str, list[dict[str, Any]]] = measured["figures"]
    assert list(found) == [each for each in figures if IS_COMPILED or each != "plain"]
    for figure in {"hop", "inner", "fan", "ranges", "sparse"} & found.keys():
        lines = {row["line"].partition(",")[0] for row in found[figure]}
        assert lines == {"broker", "relay", *(["plain relay"] if IS_COMPILED else [])}
        assert all(row["cpu_us"] >= row["best_us"] > 0 for row in found[figure])
    assert all(row["publications"] == 200 and row["p99_us"] >= row["p50_us"] > 0 for row in found["delay"])
    return found


def check_algorithms(rows: list[dict[str, Any]]) -> None:
    loads = ["one hop", "below capacity", "full batches", "slow link"]
    assert [row["load"] for row in rows] == [load for load in loads for _ in range(3)]
    assert [row["algorithm"] for row in rows] == ["static", "dynamic", "adaptive"] * len(loads)
    assert not any(row["rerouted"] for row in rows if row["algorithm"] == "static")
    assert all(row["cpu_us"] > row["inner_cpu_us"] > 0 for row in rows if row["load"] != "one hop")


def test_aims_are_judged(benchmark: ModuleType):
    row = benchmark.with_aim({"cpu_us": 2.5}, 2.0)
    assert row == {"cpu_us": 2.5, "aim": 2.0, "verdict": "missed"}
    assert benchmark.with_aim({"cpu_us": 2.0}, 2.0)["verdict"] == "met"


@pytest.mark.parametrize(
    ("got", "what"), [([1, 2], "1 missing"), ([1, 2, 2, 3], "1 duplicated"), ([1, 2, 3, 9], "1 not for it")]
)
def test_it_fails_loudly_unless_everything_came_once(benchmark: ModuleType, got: list[int], what: str):
    with pytest.raises(benchmark.Wrong, match=what):
        importlib.import_module("network_lines").check({0: got}, {0: [1, 2, 3]})


def test_tables_show_every_column_and_about_three_digits(benchmark: ModuleType):
    tables = importlib.import_module("tables")
    rows = [{"line": "relay", "cpu_us": 1.234}, {"line": "broker", "cpu_us": 123.4, "to_relay": 99.99, "n": 12345}]
    assert tables.table_lines(rows) == [
        "         cpu     to",
        "line      us  relay       n",
        "------  ----  -----  ------",
        "relay   1.23",
        "broker   123  100.0  12,345",
    ]
    assert [tables.shown(each) for each in (0.0, 0.00307, 0.5, None, "x")] == ["0", "0.00307", "0.5", "", "x"]
    assert tables.columns_of([{"a": 1, "d": 1}, {"a": 1, "b": 1, "c": 1}]) == ["a", "b", "c", "d"]
    assert tables.rounded({"a": [1.23456, 2, "x"]}) == {"a": [1.235, 2, "x"]}
