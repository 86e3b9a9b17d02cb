"""The matching benchmark in a size that takes little time, so that it cannot rot."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import numpy as np
import pytest

from support import ROOT, load_benchmark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads the memory of the process as Linux has it")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "tables", raising=False)
    return load_benchmark("matching", monkeypatch)


def test_every_workload_is_measured(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--quick", "--json", "--workloads", "W1", "W2", "W3", "W4"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["workload"], row["subscriptions"]) for row in rows] == [
        (workload, size) for workload in ("W1", "W2", "W3", "W4") for size in benchmark.QUICK_SIZES
    ]
    for row in rows:
        assert min(row["ids_per_s"], row["links_per_s"], row["scan_per_s"], row["index_bytes"]) > 0


def test_columns_find_what_the_filters_match(benchmark: ModuleType):
    for name in ("W1", "W2"):
        work = benchmark.Workload(name, 200, 20, seed=3)
        for publication in work.publications:
            expected = [number for number, each in enumerate(work.filters) if benchmark.matches(each, publication)]
            assert work.in_columns(publication).tolist() == expected


def test_a_wrong_answer_is_an_error(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(benchmark.Workload, "in_columns", lambda *_: np.array([], dtype=np.int64))
    with pytest.raises(benchmark.Wrong, match="expected 0 matches"):
        benchmark.measure("W2", 100, 64, 1)
