"""The histogram of delays: logarithmic buckets, and percentiles from them."""

import pytest

from octopia.content import Publication
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import Frame
from octopia.protocol.transit import Deliver
from octopia.runtime import latency
from octopia.runtime.latency import BUCKETS, DelaySample, bucket_of, percentile_ms, upper_ms


@pytest.mark.parametrize("delay_ms", [0.0, 0.05, 0.1, 0.11, 1.0, 1.5, 10.0, 99.9, 1_000.0, 12_345.0, 100_000.0])
def test_a_delay_lies_in_its_bucket(delay_ms: float) -> None:
    bucket = bucket_of(delay_ms)
    assert delay_ms <= upper_ms(bucket) * (1 + 1e-9)
    assert bucket == 0 or delay_ms > upper_ms(bucket - 1)


def test_the_last_bucket_takes_all_longer_delays() -> None:
    assert bucket_of(1e12) == BUCKETS - 1
    assert upper_ms(BUCKETS - 1) == pytest.approx(100_000.0)


def test_percentiles_are_upper_bounds_of_buckets() -> None:
    counts = [0] * BUCKETS
    counts[bucket_of(1.0)] = 98
    counts[bucket_of(100.0)] = 2
    assert percentile_ms(counts, 0.5) == pytest.approx(1.0)
    assert percentile_ms(counts, 0.99) == pytest.approx(100.0)
    assert percentile_ms([0] * BUCKETS, 0.5) is None


def test_one_delivery_of_a_write_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency.time, "time", lambda: 5.0)
    name = PublicationId(BrokerId("a", 0), 1, 0)
    frames = [Frame(number, Deliver(name, Publication({"x": 1}), (0,), 1, 4_990.0)) for number in (1, 2)]
    sample = DelaySample()
    sample.sample(frames)
    sample.sample(["no delivery"])
    assert sum(sample.counts) == 1
    assert sample.to_json() == {"counts": [*[0] * 20, 1], "sum_ms": 10.0}
