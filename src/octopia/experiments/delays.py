"""The delays of the deliveries in a trace, and their change over time."""

from __future__ import annotations

import dataclasses
import sys
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
    """Mean delays over the time of publication, one point per step with publications that were delivered."""

    times_s: list[float]
    means_s: list[float]


@dataclasses.dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the deliveries of a run."""

    count: int
    mean_ms: float
    p99_ms: float
    max_ms: float
    curve: Curve


def read_delays(trace: Path, begin: int = 0, end: int = sys.maxsize) -> Delays:
    """Read the delays of publications with numbers from ``begin`` to below ``end``; at least one must be delivered."""
    table = pyarrow.parquet.read_table(trace, columns=["event", "time_ms", "published_ms", "publication"])
    delivered = table.filter(pyarrow.compute.equal(table["event"], Event.DELIVER.value))
    times_ms, published_ms = (delivered[name].to_numpy() for name in ("time_ms", "published_ms"))
    numbers = delivered["publication"].to_numpy()
    chosen = (numbers >= begin) & (numbers < end)
    if not chosen.any():
        raise InvalidData(f"expected deliveries in {trace}, got none")
    return delays_of(published_ms[chosen], times_ms[chosen] - published_ms[chosen])


def delays_of(published_ms: numpy.ndarray[Any, Any], delays_ms: numpy.ndarray[Any, Any]) -> Delays:
    """Return the delays of deliveries, given the time of publication and the delay of each."""
    p99, most = (float(each) for each in numpy.percentile(delays_ms, (99, 100)))
    return Delays(len(delays_ms), float(delays_ms.mean()), p99, most, _curve(published_ms, delays_ms))


def _curve(published_ms: numpy.ndarray[Any, Any], delays_ms: numpy.ndarray[Any, Any]) -> Curve:
    steps = numpy.floor(published_ms / 1000.0 / STEP_S).astype(int)
    found, places, counts = numpy.unique(steps, return_inverse=True, return_counts=True)
    means_s = numpy.bincount(places, weights=delays_ms) / counts / 1000.0
    return Curve([float((step + 0.5) * STEP_S) for step in found], means_s.tolist())
