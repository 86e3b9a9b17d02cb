"""Claims of the paper, and the rules by which our results are judged beside them.

A result that does not agree but points the same way has the same direction. Everything else differs, and so does a
result of no difference. A number from which our cost model was inferred is not a result, and has no verdict.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import assert_never

from octopia.experiments.paper.comparisons import Comparison, Ours, percent
from octopia.experiments.paper.rows import CostRow, Tables
from octopia.experiments.paper.sizes import sizes_of

FACTOR = 1.5
POINTS = 0.1
RUNS_MIN = 10
"""The fewest runs of which a share can agree: of three runs, one more or less is 33 points."""

RULE = (
    "A ratio is read as an excess, that of the side that is larger in the paper over the other: 266% higher is an "
    "excess of 2.66. Our result agrees if its excess is between two thirds and one and a half of the paper's. It "
    "agrees with a number of seconds by the same factors, if runs are of full size; with a share of messages, or of at "
    "least ten runs, if it is within ten percentage points; with two shares, if both are within ten points and the "
    "larger one is the paper's; with a trend, if the trend is there. A result that points the same way without "
    "agreeing has the same direction. No difference is a different result. Durations in smaller runs are not "
    "comparable. A number from which the cost model was inferred is not a result."
)


class Measure(enum.Enum):
    """The kind of number in a claim, which decides the rule."""

    RATIO = "ratio"
    """An excess, of the side that is larger in the paper. The paper's 93% less is 13.3 more for the other side."""
    LEAD = "lead"
    """One side is this many seconds before the other. Smaller runs can only have the same direction."""
    DURATION = "duration"
    """A time that has no direction, so that smaller runs are not comparable."""
    SHARE = "share"
    """Agrees within ten percentage points. The direction is the side of one half. Zero differs."""
    SHARES = "shares"
    """Two shares. Both agree within ten percentage points. The direction is which of them is larger."""
    TREND = "trend"
    """Without a number in the paper. Agrees if the trend is there."""
    EXACT = "exact"
    """The text must be the same."""


class Verdict(enum.StrEnum):
    """Our result beside the paper's."""

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
    """The paper's number: for a ratio, the subject of the sentence over what it is compared with."""
    measure: Measure
    comparison: Comparison
    decided_by: str = ""
    """One sentence on what decides it."""
    reading: str = ""
    """The meaning of the paper's words that is tried here, where they have several."""
    is_other_reading: bool = False
    """True for all but the first reading of a claim; they are not counted."""
    at_most: float = math.inf
    """A ratio that is farther from 1 than this differs in any direction: the claim is that it is small."""
    shares: tuple[float, float] = (0.0, 0.0)
    """The paper's two shares, if it has two."""
    is_assumed: bool = False
    """True if the cost model was inferred from it."""

    @property
    def by_clock(self) -> bool:
        """True if our result is measured by the clock of a machine, and so differs from run to run."""
        return self.comparison.row_type is CostRow


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A claim with our result over all seeds, and with that of each seed if there are several."""

    claim: Claim
    ours: Ours | None
    verdict: Verdict
    by_seed: tuple[Ours, ...] = ()

    @property
    def spread(self) -> str:
        """The least and the most over the seeds; empty with one seed, and for counts of runs or exact numbers."""
        if len(self.by_seed) < 2 or self.claim.measure in (Measure.SHARE, Measure.EXACT):
            return ""
        least, *_, most = sorted(self.by_seed, key=lambda each: each.value)
        return "with every seed" if least.text == most.text else f"{least.text} to {most.text}"


def judge(claims: Sequence[Claim], tables: Tables) -> list[Judged]:
    """Compute our result for each claim, and judge it."""
    sizes = sizes_of(tables)
    apart = [tables.of_seed(seed) for seed in tables.seeds] if len(tables.seeds) > 1 else []
    judged = []
    for claim in claims:
        ours = claim.comparison.compute(tables)
        verdict = verdict_of(claim, ours, full_runs=sizes[claim.comparison.row_type].full_runs)
        found = () if claim.by_clock else (claim.comparison.compute(each) for each in apart)
        judged.append(Judged(claim, ours, verdict, tuple(each for each in found if each is not None)))
    return judged


def verdict_of(claim: Claim, ours: Ours | None, *, full_runs: bool) -> Verdict:
    """Judge our result by the rule of its measure, in runs of full size or in smaller ones."""
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
            found = _by_points(ours.value, claim.value)
            too_few = found is Verdict.AGREES and 0 < ours.runs < RUNS_MIN
            return Verdict.SAME_DIRECTION if too_few else found
        case Measure.SHARES:
            return _both_by_points(ours, claim)
        case Measure.TREND:
            return Verdict.AGREES if ours.value > 0 else Verdict.DIFFERS
        case Measure.EXACT:
            return Verdict.AGREES if ours.text == claim.paper else Verdict.DIFFERS
        case _:
            assert_never(claim.measure)


def _more(ratio: float, oriented_by: float) -> float:
    """Return the lead of the side that is larger in the paper; negative if it is smaller with us."""
    if oriented_by >= 1:
        return ratio - 1
    return 1 / ratio - 1 if ratio else math.inf


def _by_factor(ours: float, paper: float) -> Verdict:
    if ours <= 0:
        return Verdict.DIFFERS
    return Verdict.AGREES if paper / FACTOR <= ours <= paper * FACTOR else Verdict.SAME_DIRECTION


def _both_by_points(ours: Ours, claim: Claim) -> Verdict:
    look_the_same = len({percent(side) for side in ours.sides}) == 1
    if look_the_same or _more(ours.value, claim.value) <= 0:
        return Verdict.DIFFERS
    are_near = all(abs(one - other) <= POINTS for one, other in zip(ours.sides, claim.shares, strict=True))
    return Verdict.AGREES if are_near else Verdict.SAME_DIRECTION


def _by_points(ours: float, paper: float) -> Verdict:
    if not ours:
        return Verdict.DIFFERS
    if abs(ours - paper) <= POINTS:
        return Verdict.AGREES
    return Verdict.SAME_DIRECTION if (ours > 0.5) == (paper > 0.5) else Verdict.DIFFERS
