"""What a claim of the paper is, and how ours is judged beside it.

The rules, by what is measured:

- *Ratio*: read as "so much more", the larger over the smaller as the paper has them. We agree if our "so much more" is
  between two thirds and one and a half of the paper's. A paper's 93% less is 13.3 times more for the other side.
- *Lead*: one is so many seconds before the other; in runs of full size we agree between two thirds and one and a half
  of the paper's. Smaller runs have the direction only.
- *Duration*: likewise, but a duration has no direction, so that smaller runs cannot be compared.
- *Share*: we agree within ten percentage points; the direction is the side of one half. None at all differs.
- *Trend*: the paper gives no number; we agree if the trend is there.
- *Exact*: the text must be the same.

What does not agree but points the same way is of the same direction; all else differs, and so does no difference. A
number that our cost model was inferred from is no result, and has no verdict.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import assert_never

from octopia.experiments.paper.comparisons import Compute, Ours
from octopia.experiments.paper.rows import Tables
from octopia.experiments.paper.sizes import sizes_of

FACTOR = 1.5
POINTS = 0.1

RULE = (
    "We agree with a ratio if our “so much more” is between two thirds and one and a half of the paper's, with the "
    "larger over the smaller as in the paper; with seconds likewise, if runs are of full size; with a share of runs or "
    "messages within ten percentage points; with a trend if it is there. What points the same way without agreeing is "
    "of the same direction. How long something takes in smaller runs is not comparable, and what the cost model was "
    "inferred from is no result."
)


class Measure(enum.Enum):
    """What the number of a claim is."""

    RATIO = "ratio"
    LEAD = "lead"
    DURATION = "duration"
    SHARE = "share"
    TREND = "trend"
    EXACT = "exact"


class Verdict(enum.StrEnum):
    """How ours stands beside the paper's."""

    AGREES = "agrees"
    SAME_DIRECTION = "same direction"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"
    ASSUMED = "assumed"
    NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One number of the paper's evaluation, in our words."""

    figure: str
    sentence: str
    paper: str
    value: float
    """The paper's number: for a ratio the subject of the sentence over what it is compared with."""
    measure: Measure
    study: str
    """The table of ``Tables`` that it is computed from."""
    compute: Compute
    expected_to_differ: str = ""
    at_most: float = math.inf
    """A ratio that is farther from 1 than this differs, whatever its direction: the claim is that it is small."""
    is_assumed: bool = False
    """Whether the cost model was inferred from it."""

    @property
    def by_clock(self) -> bool:
        """Whether ours is measured by the clock of a machine, and so is never twice the same."""
        return self.study == "costs"


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A claim with what we found."""

    claim: Claim
    ours: Ours | None
    verdict: Verdict


def judge(claims: Sequence[Claim], tables: Tables) -> list[Judged]:
    """Compute all claims and judge them."""
    sizes = sizes_of(tables)
    return [
        Judged(claim, ours, verdict_of(claim, ours, full_runs=sizes[claim.study].full_runs))
        for claim in claims
        for ours in [claim.compute(tables)]
    ]


def verdict_of(claim: Claim, ours: Ours | None, *, full_runs: bool) -> Verdict:
    """Judge what we found, in runs of full size or in smaller ones, by the rules above."""
    if ours is None:
        return Verdict.NOT_RUN
    if claim.is_assumed:
        return Verdict.ASSUMED
    match claim.measure:
        case Measure.RATIO:
            is_small = abs(ours.value - 1) <= claim.at_most
            found = _by_factor(_more(ours.value, claim.value), _more(claim.value, claim.value))
            return found if is_small else Verdict.DIFFERS
        case Measure.LEAD:
            found = _by_factor(ours.value, claim.value)
            return found if full_runs or found is Verdict.DIFFERS else Verdict.SAME_DIRECTION
        case Measure.DURATION:
            return _by_factor(ours.value, claim.value) if full_runs else Verdict.NOT_COMPARABLE
        case Measure.SHARE:
            return _by_points(ours.value, claim.value)
        case Measure.TREND:
            return Verdict.AGREES if ours.value > 0 else Verdict.DIFFERS
        case Measure.EXACT:
            return Verdict.AGREES if ours.text == claim.paper else Verdict.DIFFERS
        case _:
            assert_never(claim.measure)


def _more(ratio: float, oriented_by: float) -> float:
    """Return by how much the side that is larger in the paper is larger; negative where it is smaller."""
    if oriented_by >= 1:
        return ratio - 1
    return 1 / ratio - 1 if ratio else math.inf


def _by_factor(ours: float, paper: float) -> Verdict:
    if ours <= 0:
        return Verdict.DIFFERS
    return Verdict.AGREES if paper / FACTOR <= ours <= paper * FACTOR else Verdict.SAME_DIRECTION


def _by_points(ours: float, paper: float) -> Verdict:
    if not ours:
        return Verdict.DIFFERS
    if abs(ours - paper) <= POINTS:
        return Verdict.AGREES
    return Verdict.SAME_DIRECTION if (ours > 0.5) == (paper > 0.5) else Verdict.DIFFERS
