"""The client benchmark in a size that takes no time, so that it cannot rot."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "client.py"
TINY = ["--publications", "200", "--json", "--rounds", "2"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_the_client", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_every_way_is_measured_for_both_checkouts(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main([*TINY, "--against", str(BENCHMARK.parents[1])])
    found = json.loads(capsys.readouterr().out)
    assert found["publications"] == 200
    assert found["rates"].keys() == {*benchmark.WAYS, *benchmark.BLOCKING_WAYS}
    assert all(value > 0 for rate in found["rates"].values() for value in rate.values())


def test_it_fails_loudly_if_publications_come_out_of_order(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(benchmark.StandIn, "numbers", lambda self: reversed(range(200)))
    with pytest.raises(SystemExit, match="not those that were sent"):
        benchmark.main(TINY)


def test_it_fails_loudly_if_publications_do_not_arrive(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch):
    right = benchmark.StandIn._on_publication

    def wrong(self: Any, connection: Any, request: Any) -> None:
        if request.publication.attributes.get("number") != 7:
            right(self, connection, request)

    monkeypatch.setattr(benchmark.StandIn, "_on_publication", wrong)
    with pytest.raises(SystemExit, match="expected number 7"):
        benchmark.main(TINY)
