"""The benchmark of dead brokers in a small size, so that it stays in working order."""

from __future__ import annotations

from types import ModuleType

import pytest

from octopia.ids import BrokerId
from octopia.settings import Algorithm
from support import load_benchmark

at = BrokerId.parse


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("dead_brokers", monkeypatch)


def test_adaptive_routing_delivers_everything_around_killed_processes(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
):
    benchmark.main(["--dead", "3", "--algorithms", "adaptive", "--seconds", "1", "--rate", "50", "--seeds", "0"])
    assert "100.0%" in capsys.readouterr().out


def test_every_algorithm_is_simulated(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--dead", "--seeds", "1", "--publications", "1"])
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("static", "dynamic", "adaptive", "connected"))


def test_what_is_not_connected_is_not_expected(benchmark: ModuleType):
    """No cluster has both ends of the edge A-F, so A.0 and A.1 are cut off."""
    dead = tuple(map(at, ("F.0", "F.1", "A.2", "A.3")))
    placement = benchmark.Placement(dead, (at("G.0"),), (at("A.0"), at("G.1"), at("F.2"), at("A.1")))
    shares = benchmark.simulate(placement, [Algorithm.ADAPTIVE], 2)
    assert shares.connected == shares.arrived[Algorithm.ADAPTIVE] == 0.5


def test_a_missing_delivery_is_noticed(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """As if the rules could deliver to A.0, which they cannot."""
    everywhere = set(benchmark.overlay_from_text("paper:se", None).scot.brokers)
    monkeypatch.setattr(benchmark, "reachable", lambda *_: everywhere)
    dead = tuple(map(at, ("F.0", "F.1", "A.2", "A.3")))
    placement = benchmark.Placement(dead, (at("G.0"),), (at("A.0"), at("G.1")))
    with pytest.raises(benchmark.Wrong, match="adaptive delivered 1 of 2 that are connected"):
        benchmark.simulate(placement, [Algorithm.ADAPTIVE], 1)
