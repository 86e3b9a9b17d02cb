"""The filter benchmark at a tiny size: the worst filters that are accepted, within their limits."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from support import load_benchmark

TINY = ["--repeats", "30", "--cases", "30", "--subscriptions", "300"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("filters", monkeypatch)


def test_the_worst_filters_stay_within_their_limits(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(TINY)
    frame, *heaviest, search, forgotten = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert frame["peak_bytes"] < 5_000_000
    assert [each["kind"] for each in heaviest] == list(benchmark.candidates())
    assert max(each["model_us"] for each in heaviest) > 450  # otherwise the limit would show nothing
    assert search["of_model"] > 0
    assert forgotten["kept_bytes"] < 6_000_000


def test_it_fails_loudly_if_an_answer_is_wrong(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "matches", lambda interest, publication: True)
    with pytest.raises(SystemExit, match="WRONG: contains: wrong match"):
        benchmark.measure_heaviest("contains", 1)
