"""The report of the paper's evaluation: every claim with our result, the sizes of runs, figures, audits and settings.

The report is a function of tables and a manifest. Measurements by the clock are marked, so that ``page.without_clock``
can take them out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from octopia.experiments.audits import AuditRow
from octopia.experiments.page import Block, Cell, Commands, Grid, Heading, Paragraph, Picture, cells, write_page
from octopia.experiments.paper.figures import FigureFile
from octopia.experiments.paper.manifest import Manifest
from octopia.experiments.paper.rows import AS_ASSUMED, BurstRow, SensitivityRow, Tables
from octopia.experiments.paper.sizes import NOT_RUN, StudySize, sizes_of, some
from octopia.experiments.paper.verdicts import RULE, Claim, Judged, Measure, Verdict, judge
from octopia.experiments.sockets.report import socket_blocks
from octopia.settings import Algorithm

_CLOCK = ("started", "finished")
_TITLE = "The paper's evaluation and our results"
_VIRTUAL = (
    "Delays are in virtual time under the profile below, whose costs are assumptions. Matching and path selection are "
    "measured on the real code by the clock of this machine, and differ from run to run."
)
_WORKLOADS = (
    "The seed and the selectivity of a study determine which subscriber wants which publisher. Other prices change "
    "publications and filters, but hardly affect the counts."
)
_WORDS = (
    "A run is stable once the last group of consecutive deliveries with a delay above one second has arrived, counted "
    "from the start of the burst. The queue length is the mean over all links between brokers, and over samples from "
    "the start of the burst to the last delivery. For dynamic routing, path selection is timed with all links "
    "congested, because otherwise there is nothing to select; the table of costs also has the time with free links."
)
_NAMES = {
    Verdict.AGREES: "agree",
    Verdict.SAME_DIRECTION: "have the same direction",
    Verdict.DIFFERS: "differ",
    Verdict.NOT_COMPARABLE: "cannot be compared",
    Verdict.ASSUMED: "assumed by our cost model",
    Verdict.NOT_RUN: "not run",
}


def write_report(
    folder: Path, tables: Tables, claims: Sequence[Claim], figures: Sequence[FigureFile], manifest: Manifest
) -> tuple[Path, Path]:
    """Write report.md and report.html into the folder, and return both paths."""
    judged = judge(claims, tables)
    blocks = [
        Heading(_TITLE, 1),
        *_summary(judged),
        *_runs(tables),
        *_claims(judged, sizes_of(tables)),
        *_figures(figures, folder),
        *_sensitivity(tables.sensitivity),
        *socket_blocks(tables.sockets),
        *_audits(tables.audits),
        *_settings(manifest),
        Heading("Command to run it again"),
        Commands((manifest.again,)),
        *_by_clock(tables, manifest),
    ]
    return write_page(folder, _TITLE, blocks)


def _summary(judged: Sequence[Judged]) -> Iterator[Block]:
    by_design = [each for each in judged if each.claim.measure is Measure.EXACT]
    yield Paragraph(f"Of the {len(by_design)} numbers that follow from the design, {_counts(by_design)}.")
    printed = [each for each in judged if each not in by_design]
    # Verdicts on measurements may change from run to run, and the counts with them.
    yield Paragraph(f"Of the paper's {len(printed)} claims, {_counts(printed)}.", by_clock=True)
    measured = [each for each in printed if each.claim.by_clock]
    virtual = [each for each in printed if not each.claim.by_clock]
    yield Paragraph(f"Of the {len(virtual)} claims that are counted or in virtual time, {_counts(virtual)}.")
    yield Paragraph(f"Of the {len(measured)} claims by the clock of this machine, {_counts(measured)}.", by_clock=True)


def _counts(judged: Sequence[Judged]) -> str:
    found = Counter(each.verdict for each in judged)
    return ", ".join(f"{found[verdict]} {name}" for verdict, name in _NAMES.items() if found[verdict])


def _runs(tables: Tables) -> Iterator[Block]:
    yield Heading("Runs")
    yield Paragraph(_VIRTUAL)
    yield Paragraph(_WORKLOADS)
    yield Paragraph(_WORDS)
    sizes = dict.fromkeys(sizes_of(tables).values())
    yield Grid(
        ("Study", "Ours", "The paper's", "At full size"),
        [cells(size.study, size.ran, size.paper, size.note or "yes") for size in sizes],
    )


def _settings(manifest: Manifest) -> Iterator[Block]:
    yield Heading("Settings")
    settings = {key: value for key, value in msgspec.to_builtins(manifest).items() if key not in (*_CLOCK, "again")}
    yield Grid(("Setting", "Value"), [cells(*pair) for pair in _flat(settings)])


def _claims(judged: Sequence[Judged], sizes: Mapping[type[object], StudySize]) -> Iterator[Block]:
    yield Heading("Claims")
    yield Paragraph(RULE)
    rows = [_claim_row(each, sizes[each.claim.comparison.row_type]) for each in judged]
    yield Grid(("Figure", "Claim", "The paper", "Ours", "Verdict", "Possible reasons for a difference"), rows)


def _claim_row(judged: Judged, size: StudySize) -> list[Cell]:
    claim, ours = judged.claim, judged.ours
    text = ours.text if ours is not None else "" if size.ran == NOT_RUN else "too few runs to compare"
    notes = [] if ours is None else [ours.comment, size.note]
    if any(notes):
        text += f" ({'; '.join(note for note in notes if note)})"
    paper = f"by design: {claim.paper}" if claim.measure is Measure.EXACT else claim.paper
    return [
        *cells(claim.figure, claim.sentence, paper),
        Cell(text, claim.by_clock),
        Cell(judged.verdict.value, claim.by_clock, f"verdict {judged.verdict.value.replace(' ', '-')}"),
        Cell(claim.expected_to_differ),
    ]


def _figures(figures: Sequence[FigureFile], folder: Path) -> Iterator[Block]:
    yield Heading("Figures")
    if not figures:
        yield Paragraph("Not drawn.")
    for figure in figures:
        note = f"{figure.note} Measured by the clock." if figure.by_clock else figure.note
        yield Picture(figure.title, _relative(figure.png, folder), _relative(figure.svg, folder), note)


def _sensitivity(rows: Sequence[SensitivityRow]) -> Iterator[Block]:
    yield Heading("Sensitivity to the cost model")
    if not rows:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "One assumption is changed at a time; a result that changes with it depends on it. These runs always have the "
        "scale tiny. So the numbers are not those of the claims, and only the changes matter. The CSV table has one "
        "row per change."
    )
    quantities = dict.fromkeys(row.quantity for row in rows)
    shown = [_sensitivity_row([row for row in rows if row.quantity == quantity]) for quantity in quantities]
    yield Grid(("Result", "As assumed", "Changes to", "Does not change"), shown)


def _sensitivity_row(rows: Sequence[SensitivityRow]) -> list[Cell]:
    """Return one result with the assumptions that change it, and those that do not."""
    assumed = next((row.result for row in rows if row.parameter == AS_ASSUMED), "")
    changes = [row for row in rows if row.parameter != AS_ASSUMED]
    moving = [f"{row.result} with {_change(row)}" for row in changes if row.result != assumed]
    staying = [_change(row) for row in changes if row.result == assumed]
    stays = f"with {'; '.join(staying)}" if staying else ""
    return cells(rows[0].quantity, assumed, "; ".join(moving) or "nothing else", stays)


def _change(row: SensitivityRow) -> str:
    return f"{row.parameter} → {row.value}"


def _audits(audits: Sequence[AuditRow]) -> Iterator[Block]:
    yield Heading("Audit")
    if not audits:
        yield Paragraph("Not run.")
        return
    total = AuditRow("all", *(sum(counts) for counts in zip(*map(_audit_counts, audits), strict=True)))
    yield Paragraph(
        f"{total.deliveries:,} deliveries of {some(len(audits), 'run')} were compared with the truth: {total.faults}."
    )
    shown = [cells(row.run, *_audit_counts(row)) for row in audits]
    yield Grid(("Run", "Deliveries", "Missing", "Unwanted", "Duplicate"), shown)


def _audit_counts(row: AuditRow) -> tuple[int, int, int, int]:
    return row.deliveries, row.missing, row.unwanted, row.duplicate


def _by_clock(tables: Tables, manifest: Manifest) -> Iterator[Block]:
    yield Heading("By the clock")
    yield Grid(("", "Time"), [cells(name, getattr(manifest, name)) for name in _CLOCK], by_clock=True)
    if tables.bursts:
        yield Paragraph("Duration of the runs of the burst study:")
        header = ("Rate per minute", "Algorithm", "Runs", "Mean seconds per run")
        yield Grid(header, [*_burst_times(tables.bursts)], by_clock=True)


def _burst_times(rows: Sequence[BurstRow]) -> Iterator[list[Cell]]:
    times_s: dict[tuple[int, Algorithm], list[float]] = {}
    for row in rows:
        times_s.setdefault((row.rate_per_minute, row.algorithm), []).append(row.seconds)
    for (rate, algorithm), each_s in times_s.items():
        yield cells(rate, algorithm, len(each_s), f"{fmean(each_s):.1f}")


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield keys and values; the values of nested tables get a dotted key."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
