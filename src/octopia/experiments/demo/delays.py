"""The delays of the deliveries in a trace, and their change over time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy
import pyarrow.compute
import pyarrow.parquet

from octopia.broker.interface import Event
from octopia.errors import InvalidData

STEP_S = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """Delays over the time of delivery, one point per step with deliveries."""

    times_s: list[float]
    medians_s: list[float]
    maxima_s: list[float]


@dataclasses.dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the deliveries of a run."""

    median_ms: float
    p99_ms: float
    max_ms: float
    curve: Curve


def read_delays(trace: Path, step_s: float = STEP_S) -> Delays:
    """Read the delays of a trace, which must have at least one delivery."""
    table = pyarrow.parquet.read_table(trace, columns=["event", "time_ms", "published_ms"])
    delivered = table.filter(pyarrow.compute.equal(table["event"], Event.DELIVER.value))
    if not delivered.num_rows:
        raise InvalidData(f"expected deliveries in {trace}, got none")
    times_ms, published_ms = (delivered[name].to_numpy() for name in ("time_ms", "published_ms"))
    return delays_of(times_ms, times_ms - published_ms, step_s)


def delays_of(times_ms: numpy.ndarray[Any, Any], delays_ms: numpy.ndarray[Any, Any], step_s: float = STEP_S) -> Delays:
    """Return the delays of deliveries, given the time and the delay of each."""
    median, p99, most = (float(each) for each in numpy.percentile(delays_ms, (50, 99, 100)))
    return Delays(median, p99, most, _curve(times_ms, delays_ms, step_s))


def _curve(times_ms: numpy.ndarray[Any, Any], delays_ms: numpy.ndarray[Any, Any], step_s: float) -> Curve:
    steps = numpy.floor(times_ms / 1000.0 / step_s).astype(int)
    order = numpy.argsort(steps, kind="stable")
    found, begins = numpy.unique(steps[order], return_index=True)
    groups = numpy.split(delays_ms[order] / 1000.0, begins[1:])
    return Curve(
        times_s=[float((step + 0.5) * step_s) for step in found],
        medians_s=[float(numpy.median(each)) for each in groups],
        maxima_s=[float(each.max()) for each in groups],
    )
