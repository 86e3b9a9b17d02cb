"""The client benchmark in a size that takes no time, so that it cannot rot."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from octopia.client import engine

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "client.py"
TINY = ["--publications", "200", "--rounds", "2", "--json"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_the_client", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_every_way_of_reading_is_measured(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(TINY)
    found = json.loads(capsys.readouterr().out)
    assert found["publications"] == 200
    assert all(value > 0 for value in found.values())


def test_it_fails_loudly_if_publications_come_out_of_order(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch):
    right = engine.deliver

    def wrong(messages: list[Any], *rest: Any) -> int:
        return right(messages[::-1], *rest)

    monkeypatch.setattr(engine, "deliver", wrong)
    with pytest.raises(SystemExit, match="not those that were sent"):
        benchmark.main(TINY)
