"""The benchmark of TID-D in a burst where floods race: its counts, and all of it at a small size."""

from __future__ import annotations

import json
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from octopia.trace import Deliveries, Recipients, Row
from support import load_benchmark


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("races", monkeypatch)


def row(event: str, time_ms: float, **fields: object) -> Row:
    return Row(run_id="r", algorithm="tid-dynamic", event=event, broker="a.0", time_ms=time_ms, **fields)


def deliveries(time_ms: float, count: int) -> Deliveries:
    names = tuple(str(each) for each in range(count))
    return Deliveries("r", "tid-dynamic", "a.0", 0, 1, 0.0, time_ms, Recipients(names, names))


def play(counter: object, begin_ms: float) -> None:
    """Write the first publication, 100 ms before the burst, and copies, queues and deliveries after that."""
    counter.write(row("receive", begin_ms - 100, published_ms=begin_ms - 100))
    counter.write(row("send", begin_ms + 10, kind="publication", peer="b.0"))
    counter.write(row("send", begin_ms + 10, kind="advertisement", peer="b.0"))
    counter.write(row("window", begin_ms + 900, queue_length=7))
    counter.write(row("window", begin_ms + 900, queue_length=5))
    counter.deliver(deliveries(begin_ms + 950, 3))
    counter.write(row("send", begin_ms + 1500, kind="publication", peer="b.0"))
    counter.deliver(deliveries(begin_ms + 2500, 1))


def test_copies_queues_and_deliveries_are_counted_from_the_begin_of_the_burst(benchmark: ModuleType):
    counter = benchmark.Counter(100, [5, 1, 2], stopping=True)
    play(counter, begin_ms=5000)
    end = counter.finish()
    assert end == benchmark.Counts(copies_sent=2, copies_waiting=0, deliveries=4)
    assert counter.found == {1: benchmark.Counts(1, 12, 3), 2: benchmark.Counts(2, 0, 3), 5: end}
    assert not counter.is_stopped


def test_a_run_is_stopped_at_the_last_time_only_if_its_copies_multiply(benchmark: ModuleType):
    counter = benchmark.Counter(100, [1, 2], stopping=True)
    with pytest.raises(benchmark.TimeIsUp):
        play(counter, begin_ms=5000)
    assert counter.is_stopped
    play(benchmark.Counter(100, [1, 2], stopping=False), begin_ms=5000)


@pytest.mark.soak
def test_copies_multiply_only_where_floods_race(
    benchmark: ModuleType, spark: SparkSession, capsys: pytest.CaptureFixture[str]
):
    benchmark.main(["--publications", "100", "--at", "1", "2", "--json"])
    waiting = {
        (found["trees"], found["algorithm"]): found["copies_waiting"]
        for found in json.loads(capsys.readouterr().out)
        if found["after_s"] == 2
    }
    assert waiting.pop(("races", "TID-D")) > 10_000
    assert waiting.pop(("races", "TID-D, one copy per hop")) > 10_000
    assert set(waiting.values()) == {0}
