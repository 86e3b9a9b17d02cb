"""The matching benchmark at a tiny size, so that it stays in working order."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from octopia.matching import Match
from support import load_benchmark

TINY = ["--sizes", "200", "--publications", "64", "--json"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads the memory of the process as Linux has it")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("matching", monkeypatch)


def test_every_workload_is_measured_and_checked(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main([*TINY, "--workloads", *benchmark.WORKLOADS])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["workload"] for each in found] == ["W1", "W2", "W3", "W4"]
    assert all(each["ids_per_s"] > 0 and each["deletes_per_s"] > 0 for each in found)


def test_rates_and_costs_are_two_tables(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--quick", "--workloads", "W2"])
    shown = capsys.readouterr().out
    assert "the aim is for ids per s" in shown
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("W2")] == [
        ["W2", "300"],
        ["W2", "1,000"],
    ] * 2


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_columns_find_what_the_filters_match(benchmark: ModuleType, name: str) -> None:
    work = benchmark.Workload(name, 200, 20, seed=3)
    for publication in work.publications:
        expected = [number for number, each in enumerate(work.filters) if benchmark.matches(each, publication)]
        assert work.in_columns(publication).tolist() == expected


def test_it_fails_loudly_if_a_match_is_missing(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = benchmark.IndexSubscriptions.match

    def wrong(self: object, publication: object) -> Match:
        found = right(self, publication)
        return Match(found.links, found.local[1:])

    monkeypatch.setattr(benchmark.IndexSubscriptions, "match", wrong)
    with pytest.raises(SystemExit, match="WRONG"):
        benchmark.main([*TINY, "--workloads", "W2"])
