"""Run specifications refuse values that no run can have, and name the field."""

from __future__ import annotations

import pytest

from octopia.errors import UsageError
from octopia.workloads.runs import RunSpec


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"first": -1}, "expected first to be at least 0, got -1"),
        ({"hold_ms": -0.5}, "expected hold_ms to be at least 0, got -0.5"),
        ({"tau": 0.0}, "expected tau to be above 0, got 0.0"),
        ({"window_ms": float("nan")}, "expected window_ms to be above 0, got nan"),
        ({"killed_at_ms": 5.0}, "expected killed_at_ms only with a killed broker, got 5 without one"),
        ({"detail": "most"}, "expected a detail of deliveries, hops, all, got most"),
    ],
)
def test_a_wrong_value_is_named(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunSpec(workload="w", **fields)  # type: ignore[arg-type]
    assert str(caught.value) == problem
