"""The order of two algorithms in a case: predicted by the simulator, and measured over sockets."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Sequence

from octopia.experiments.sockets.cases import CaseName, Quantity, case_of
from octopia.experiments.sockets.rows import CpuSupply, SocketRow
from octopia.settings import Algorithm

APART = 0.1
"""Two delays are apart if they differ by more than this share of the larger, and by more than ``APART_MS``."""
APART_MS = 5.0
"""Smaller differences come from the machine: other processes, timers, the order in which sockets are read."""
SHARE_APART = 0.01
"""Two shares are apart if they differ by more than this."""
RULE = (
    f"Two delays are apart if they differ by more than {APART:.0%} and by more than {APART_MS:g} ms, and two shares if "
    f"they differ by more than {SHARE_APART:.0%}. An order is predicted if it is the same with all seeds of the "
    "simulator; otherwise a race decides, and nothing is predicted."
)


class Verdict(enum.StrEnum):
    """The result of comparing a predicted order with a measured one."""

    CONFIRMED = "confirmed"
    SAME = "the same in both"
    PREDICTED_ONLY = "apart in the prediction only"
    MEASURED_ONLY = "apart over sockets only"
    CONTRADICTED = "contradicted"
    NOT_PREDICTED = "not predicted"


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A number of one run, with the least and the most of it; larger is worse."""

    value: float
    least: float
    most: float


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """Two algorithms in one case: the better one in each world, or none if they are too close.

    The factor is the number of the first algorithm divided by that of the second.
    """

    case: CaseName
    brokers: int
    seed: int
    pair: tuple[Algorithm, Algorithm]
    predicted: Algorithm | None
    measured: Algorithm | None
    predicted_factor: float
    measured_factor: float
    is_predicted: bool = True
    """False if the order depends on the seed of the simulator."""
    is_short: bool = False
    """True if processors were short in one of the two runs."""

    @property
    def verdict(self) -> Verdict:
        """The result of the comparison."""
        if not self.is_predicted:
            return Verdict.NOT_PREDICTED
        if self.predicted == self.measured:
            return Verdict.SAME if self.measured is None else Verdict.CONFIRMED
        if self.predicted is None:
            return Verdict.MEASURED_ONLY
        return Verdict.PREDICTED_ONLY if self.measured is None else Verdict.CONTRADICTED


def orders(rows: Sequence[SocketRow]) -> list[Order]:
    """Compare all pairs of algorithms in the same case, overlay and workload."""
    groups: dict[tuple[CaseName, int, int], list[SocketRow]] = {}
    for row in rows:
        groups.setdefault((row.case, row.brokers, row.seed), []).append(row)
    return [
        _order(one, other, case_of(name).judged_by)
        for (name, _, _), group in groups.items()
        for one, other in itertools.combinations(group, 2)
    ]


def _order(one: SocketRow, other: SocketRow, quantity: Quantity) -> Order:
    pair = one.algorithm, other.algorithm
    predicted, is_predicted = _predicted(_prediction(one, quantity), _prediction(other, quantity), quantity)
    measured = _better(_measured(one, quantity), _measured(other, quantity), quantity)
    return Order(
        one.case,
        one.brokers,
        one.seed,
        pair,
        None if predicted is None else pair[predicted],
        None if measured is None else pair[measured],
        _factor(_number(one, quantity, is_measured=False), _number(other, quantity, is_measured=False)),
        _factor(_number(one, quantity, is_measured=True), _number(other, quantity, is_measured=True)),
        is_predicted,
        CpuSupply.SHORT in (one.processors, other.processors),
    )


def _predicted(one: Span, other: Span, quantity: Quantity) -> tuple[int | None, bool]:
    """Return the better of two predictions, and whether all seeds of the simulator agree."""
    results = {
        _better(mine, theirs, quantity)
        for mine, theirs in ((one.least, other.most), (one.most, other.least), (one.value, other.value))
    }
    if len(results) == 1:
        return results.pop(), True
    return _better(one.value, other.value, quantity), False


def _better(one: float, other: float, quantity: Quantity) -> int | None:
    """Return the place of the smaller number, or None if they are too close."""
    gap = abs(one - other)
    is_close = gap <= SHARE_APART if quantity is Quantity.SHARE else gap <= max(APART_MS, APART * max(one, other))
    return None if is_close else int(other < one)


def _prediction(row: SocketRow, quantity: Quantity) -> Span:
    if quantity is Quantity.SHARE:
        return Span(1 - row.predicted_share, 1 - row.predicted_share_most, 1 - row.predicted_share_least)
    return Span(row.predicted_delay_ms_mean, row.predicted_delay_ms_least, row.predicted_delay_ms_most)


def _measured(row: SocketRow, quantity: Quantity) -> float:
    return 1 - row.share if quantity is Quantity.SHARE else row.delay_ms_mean


def _number(row: SocketRow, quantity: Quantity, *, is_measured: bool) -> float:
    if quantity is Quantity.SHARE:
        return row.share if is_measured else row.predicted_share
    return row.delay_ms_mean if is_measured else row.predicted_delay_ms_mean


def _factor(one: float, other: float) -> float:
    return one / other if other else 1.0
