"""The simulator benchmark at a tiny size, so that it stays in working order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType

import pytest

from octopia.content import Publication
from octopia.matching import IndexSubscriptions, Match
from support import load_benchmark

TINY = ["--publishers", "5", "--subscribers", "100", "--publications", "12"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("simulator", monkeypatch)


def test_its_numbers_are_those_of_the_workload(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main([*TINY, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["brokers"] == 56
    # A subscription takes 13 messages on S_e and an advertisement 3; bits are set by at most 3 more.
    least = 100 * 14 + 5 * 4
    assert least <= result["setup_messages"] <= least + 5 * 3
    assert 0.01 < result["selectivity"] < 0.04
    assert result["deliveries"] == round(result["selectivity"] * 100 * 12)
    assert result["messages"] == result["hops"] + 12
    # A client has one subscription here, so a delivery is one message to it.
    assert result["events"] == result["messages"] + result["deliveries"]
    assert min(result["matching_share"], result["broker_share"], result["simulator_share"]) > 0
    assert result["matching_share"] + result["broker_share"] + result["simulator_share"] == pytest.approx(1)


def test_whole_deliveries_are_checked_too(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main([*TINY, "--json", "--whole"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["deliveries"] == round(result["selectivity"] * 100 * 12)
    assert result["messages"] < result["events"] <= result["messages"] + result["deliveries"]


def test_it_prints_a_table_for_people(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(TINY) == 0
    assert "message-hops" in capsys.readouterr().out


def test_it_fails_loudly_if_deliveries_are_wrong(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = IndexSubscriptions.match_many

    def forgetful(self: IndexSubscriptions, publications: Sequence[Publication]) -> list[Match]:
        found = right(self, publications)
        return [
            Match((), ()) if each.payload == b"3" else match for each, match in zip(publications, found, strict=True)
        ]

    monkeypatch.setattr(IndexSubscriptions, "match_many", forgetful)
    with pytest.raises(SystemExit, match="are missing"):
        benchmark.main(TINY)
