"""The matrix of claims: one row per claim, one column per model, and in bursts one per model and kind of host broker.

Each cell has our result and its verdict. Where the runs of one model hold for another, ``holds_from`` names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from octopia.experiments.paper.names import Model
from octopia.experiments.paper.rows import BurstRow, CostRow, SequenceRow, Tables, is_of_tid, study_of
from octopia.experiments.paper.verdicts import Claim, Judged, Verdict, judge
from octopia.pipeline.spec import HostKind

_BURSTS = (BurstRow, SequenceRow)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A column of the matrix: a model, in bursts with a kind of host broker."""

    model: Model
    host: HostKind | None = None

    @property
    def text(self) -> str:
        """The name of the column."""
        return self.model.value if self.host is None else f"{self.model}, {self.host} host"


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """Claims with our results under several settings, in the same order in every column."""

    claims: tuple[Claim, ...]
    columns: dict[Setting, list[Judged]]

    def row(self, claim: Claim) -> list[Judged]:
        """Return the cells of a claim."""
        index = self.claims.index(claim)
        return [judged[index] for judged in self.columns.values()]

    def best(self, claim: Claim) -> Verdict:
        """Return the best verdict on a claim under any setting."""
        order = list(Verdict)
        return min((cell.verdict for cell in self.row(claim)), key=order.index, default=Verdict.NOT_RUN)


def is_of_burst(claim: Claim) -> bool:
    """Return whether a claim is about bursts."""
    return claim.comparison.row_type in _BURSTS


def quiet_matrix(claims: Sequence[Claim], tables: Tables) -> Matrix:
    """Judge the claims about the other studies, under each model; times by the clock do not depend on one."""
    chosen = tuple(claim for claim in claims if not is_of_burst(claim) and claim.comparison.row_type is not CostRow)
    return Matrix(chosen, {Setting(model): judge(chosen, tables.under(model)) for model in tables.models})


def burst_matrix(claims: Sequence[Claim], tables: Tables) -> Matrix:
    """Judge the claims about bursts, under each model and with each kind of host broker."""
    chosen = tuple(claim for claim in claims if is_of_burst(claim))
    settings = [Setting(model, host) for model in tables.models_of(BurstRow) for host in tables.hosts]
    return Matrix(chosen, {each: judge(chosen, tables.under(each.model, each.host)) for each in settings})


def clock_matrix(claims: Sequence[Claim], tables: Tables) -> list[Judged]:
    """Judge the claims that are measured by the clock."""
    return judge([claim for claim in claims if claim.comparison.row_type is CostRow], tables)


def holds_from(claim: Claim, setting: Setting) -> Model | None:
    """Return the other model whose result is shown for a claim, because nothing differs; None if there is none."""
    study = study_of(claim.comparison.row_type)
    if study is None:
        return None
    played = {setting.model.played_as(study, is_tid=is_of_tid(side)) for side in claim.comparison.sides}
    return played.pop() if len(played) == 1 and setting.model not in played else None
