"""The claims of the paper in the report: verdicts under each model, what decides them, and what was not reproduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from octopia.experiments.page import Block, Cell, Grid, Heading, Paragraph, cells
from octopia.experiments.paper.matrix import Matrix, holds_from, is_of_burst
from octopia.experiments.paper.sizes import NOT_RUN, StudySize
from octopia.experiments.paper.verdicts import RULE, Claim, Judged, Measure, Verdict

_NAMES = {
    Verdict.AGREES: "agree",
    Verdict.SAME_DIRECTION: "have the same direction",
    Verdict.DIFFERS: "differ",
    Verdict.NOT_COMPARABLE: "cannot be compared",
    Verdict.ASSUMED: "assumed by our cost model",
    Verdict.NOT_RUN: "not run",
}


def summary_blocks(quiet: Matrix, bursts: Matrix, measured: Sequence[Judged]) -> Iterator[Block]:
    """Yield the number of claims per verdict."""
    yield Paragraph(
        "This report repeats the paper's evaluation under several models of what the paper leaves open. Every claim is "
        "judged under each of them, and counted under the model that was run for it. No number was fitted to the "
        "claims."
    )
    rows = [*_counted(quiet), *_counted(bursts)]
    yield Grid(("Claims about", "Model", *(name.capitalize() for name in _NAMES.values())), rows)
    yield Paragraph(f"Of the {len(measured)} claims by the clock of this machine, {_counts(measured)}.", by_clock=True)


def _counted(matrix: Matrix) -> Iterator[list[Cell]]:
    """Yield the number of each verdict per column, over the first readings of the claims that the paper prints."""
    what = "bursts" if any(is_of_burst(claim) for claim in matrix.claims) else "the other studies"
    for setting, judged in matrix.columns.items():
        found = Counter(
            each.verdict
            for each in judged
            if not each.claim.is_other_reading
            and each.claim.measure is not Measure.EXACT
            and holds_from(each.claim, setting) is None
        )
        yield cells(what, setting.text, *(found[verdict] for verdict in _NAMES))


def _counts(judged: Sequence[Judged]) -> str:
    found = Counter(each.verdict for each in judged)
    return ", ".join(f"{found[verdict]} {name}" for verdict, name in _NAMES.items() if found[verdict]) or "none was run"


def claim_blocks(
    quiet: Matrix, bursts: Matrix, measured: Sequence[Judged], sizes: Mapping[type[object], StudySize]
) -> Iterator[Block]:
    """Yield all claims with their verdicts, and what decides them."""
    yield Heading("Claims")
    yield Paragraph(RULE)
    yield Paragraph("A result is over all seeds. The minimum and the maximum of single seeds are in brackets.")
    for title, matrix in (("Without congestion", quiet), ("Bursts", bursts)):
        yield Heading(title, 3)
        yield from _matrix(matrix, sizes)
    yield Heading("Measured times", 3)
    header = ("Figure", "Claim", "The paper", "Ours", "Verdict", "Decided by")
    yield Grid(header, [_clock_row(each, sizes[each.claim.comparison.row_type]) for each in measured])


def _matrix(matrix: Matrix, sizes: Mapping[type[object], StudySize]) -> Iterator[Block]:
    if not matrix.columns:
        yield Paragraph("Not run.")
        return
    notes = sorted({sizes[claim.comparison.row_type].note for claim in matrix.claims} - {"", NOT_RUN})
    if notes:
        yield Paragraph(f"Runs are {'; others are '.join(reversed(notes))}.")
    header = ("Figure", "Claim", "The paper", *(setting.text for setting in matrix.columns))
    yield Grid(header, [_matrix_row(matrix, claim) for claim in matrix.claims])
    yield Paragraph("What decides each of them:")
    yield Grid(
        ("Figure", "Claim", "Decided by"),
        [
            cells(claim.figure, claim.sentence, claim.decided_by)
            for claim in matrix.claims
            if not claim.is_other_reading
        ],
    )


def _matrix_row(matrix: Matrix, claim: Claim) -> list[Cell]:
    sentence = f"{claim.sentence} ({claim.reading})" if claim.reading else claim.sentence
    paper = f"by design: {claim.paper}" if claim.measure is Measure.EXACT else claim.paper
    row = cells(claim.figure, "" if claim.is_other_reading else sentence, paper)
    if claim.is_other_reading:
        row = cells("", f"… {claim.reading}", "")
    for setting, judged in zip(matrix.columns, matrix.row(claim), strict=True):
        other = holds_from(claim, setting)
        row.append(Cell(f"as {other}") if other is not None else _judged_cell(judged))
    return row


def _judged_cell(judged: Judged) -> Cell:
    if judged.ours is None:
        return Cell("not run")
    notes = "; ".join(note for note in (judged.spread, judged.ours.caveat) if note)
    text = f"{judged.ours.text}{f' ({notes})' if notes else ''}: {judged.verdict.value}"
    return Cell(text, judged.claim.by_clock, f"verdict {judged.verdict.value.replace(' ', '-')}")


def _clock_row(judged: Judged, size: StudySize) -> list[Cell]:
    claim, ours = judged.claim, judged.ours
    text = ours.text if ours is not None else "" if size.ran == NOT_RUN else "too few runs to compare"
    notes = [] if ours is None else [ours.comment, ours.caveat, size.note]
    if any(notes):
        text += f" ({'; '.join(note for note in notes if note)})"
    return [
        *cells(claim.figure, claim.sentence, claim.paper),
        Cell(text, claim.by_clock),
        Cell(judged.verdict.value, claim.by_clock, f"verdict {judged.verdict.value.replace(' ', '-')}"),
        Cell(claim.decided_by),
    ]


def missed_blocks(*matrices: Matrix) -> Iterator[Block]:
    """Yield the claims that agree under no model."""
    yield Heading("What we could not reproduce")
    judged = [(matrix, claim) for matrix in matrices for claim in matrix.claims if matrix.columns]
    missed = [
        cells(
            claim.figure,
            f"{claim.sentence} ({claim.reading})" if claim.reading else claim.sentence,
            claim.paper,
            matrix.best(claim).value,
        )
        for matrix, claim in judged
        if matrix.best(claim) in (Verdict.SAME_DIRECTION, Verdict.DIFFERS)
    ]
    if not missed:
        yield Paragraph("Nothing was run that does not agree under some model.")
        return
    yield Paragraph(
        "Under no model do these agree. The last column is the best verdict under any of them. Numbers of seconds can "
        "agree at full size only."
    )
    yield Grid(("Figure", "Claim", "The paper", "At best"), missed)
