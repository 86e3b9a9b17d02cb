"""The matching benchmark at a tiny size, so that it stays in working order."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from octopia.matching import Match
from support import load_benchmark

TINY = ["--sizes", "200", "--publications", "64", "--json"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("matching", monkeypatch)


def test_every_workload_is_measured_and_checked(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(TINY)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["workload"] for each in found] == ["W1", "W2", "W3", "W4"]
    assert all(each["ids_per_s"] > 0 and each["deletes_per_s"] > 0 for each in found)


def test_it_fails_loudly_if_a_match_is_missing(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = benchmark.IndexSubscriptions.match

    def wrong(self: object, publication: object) -> Match:
        found = right(self, publication)
        return Match(found.links, found.local[1:])

    monkeypatch.setattr(benchmark.IndexSubscriptions, "match", wrong)
    with pytest.raises(SystemExit, match="WRONG"):
        benchmark.main([*TINY, "--workloads", "W2"])
