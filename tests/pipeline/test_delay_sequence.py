"""The sequence of delays and the time to stability, compared with a plain sort of all deliveries."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from test_sql_conditions import drawn
from trace_frames import by_run, deliver, frame_of

from octopia.pipeline.metrics import delay_sequence, time_to_stability

DELIVERY = st.tuples(
    st.integers(0, 5).map(lambda half_bucket: half_bucket * 50.0),
    st.integers(0, 2),
    st.sampled_from([f"{name}/0" for name in "abcdefghi"]),
)
"""Time, publication and subscription: few values, so that they coincide."""
PUBLISHED_MS = (-0.5, -3.0, -0.25)
"""The time of each publication; delays grow with the time of delivery."""
RUN = st.lists(DELIVERY, min_size=1, max_size=25, unique=True)
SequenceRow = tuple[int, int, float, float, float, float, float]


def slow_sequence(deliveries: list[tuple[float, int, str]], group: int) -> list[SequenceRow]:
    """Sort all deliveries of a run, and cut them into groups."""
    ordered = [(*each, each[0] - PUBLISHED_MS[each[1]]) for each in sorted(deliveries)]
    rows = []
    for number, first in enumerate(range(0, len(ordered), group)):
        part = ordered[first : first + group]
        delays = [delay for _, _, _, delay in part]
        published = min(at - delay for at, _, _, delay in part)
        rows.append((number, len(part), max(delays), fmean(delays), published, part[0][0], part[-1][0]))
    return rows


def slow_stability(sequence: list[SequenceRow], calm_ms: float) -> float | None:
    """Search backwards for the last group that was late."""
    start = min(row[4] for row in sequence)
    for row in reversed(sequence):
        if row[2] > calm_ms:
            return None if row is sequence[-1] else row[6] - start
    return 0.0


def test_the_sequence_is_that_of_a_plain_sort(spark: SparkSession):
    group = 4
    runs = drawn(RUN, 80)
    assert {len(run) % group for run in runs} == set(range(group))
    rows = [
        deliver(at, publication, subscription, PUBLISHED_MS[publication], run=f"{number}")
        for number, run in enumerate(runs)
        for at, publication, subscription in run
    ]
    sequence = delay_sequence(frame_of(spark, rows), group).persist()
    found, stable = by_run(sequence), by_run(time_to_stability(sequence, calm_ms=102.0))
    for number, run in enumerate(runs):
        expected = slow_sequence(run, group)
        key = (f"{number}", "static")
        assert sorted(found[key]) == [pytest.approx(row, abs=1e-6) for row in expected]
        assert stable[key] == [(pytest.approx(slow_stability(expected, 102.0), abs=1e-6),)]
    sequence.unpersist()


def test_a_run_is_stable_after_its_last_late_group(spark: SparkSession):
    late = {"never late": [], "once": [1], "twice": [0, 2], "to the end": [1, 3]}
    rows = [
        deliver(
            100.0 * place + at, 10 * place + at, "s/0", 100.0 * place + at - (5000.0 if place in places else 1.0), run
        )
        for run, places in late.items()
        for place in range(4)
        for at in range(2)
    ]
    found = by_run(time_to_stability(delay_sequence(frame_of(spark, rows), group=2)))
    assert {run: stable[0][0] for (run, _), stable in found.items()} == {
        "never late": 0.0,
        "once": 101.0 + 4900.0,
        "twice": 201.0 + 5000.0,
        "to the end": None,
    }
