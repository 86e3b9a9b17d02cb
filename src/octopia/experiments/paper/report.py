"""The report of the paper's evaluation: what was run, every claim with our number beside it, figures, audits.

It is a function of tables and a manifest. The manifest may have any keys; ``again`` is what to type to run it again,
and what stands under ``CLOCK_KEYS`` is shown with the other measurements of the clock, at the end.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from octopia.experiments.page import (
    Block,
    Cell,
    Commands,
    Grid,
    Heading,
    Paragraph,
    Picture,
    cells,
    to_html,
    to_markdown,
    without_clock,
)
from octopia.experiments.paper.figures import FigureFile
from octopia.experiments.paper.rankings import APART, orderings
from octopia.experiments.paper.rows import AS_ASSUMED, AuditRow, BurstRow, RealRow, SensitivityRow, Tables
from octopia.experiments.paper.sizes import NOT_RUN, StudySize, sizes_of, some
from octopia.experiments.paper.verdicts import RULE, Claim, Judged, Measure, Verdict, judge

__all__ = ["CLOCK_KEYS", "write_report", "without_clock"]

CLOCK_KEYS = ("clock", "started", "finished", "seconds")
AGAIN = ("octopia paper",)

_TITLE = "The paper's evaluation, with our numbers beside it"
_VIRTUAL = (
    "Delays are virtual time under the stated profile, whose costs are assumptions. Matching and path selection are "
    "measured on the real code, by the clock of this machine, and differ from run to run."
)

_WORKLOADS = (
    "Who wants what follows from the seed and from the selectivity that is asked for, so that other prices change "
    "publications and filters, but hardly what is counted."
)
_WORDS = (
    "A run is stable when the last group of deliveries in sequence with one above a second has arrived, counted from "
    "the start of the burst. The length of queues is the mean over all links between brokers and over samples from the "
    "start of the burst to the last delivery. Path selection is timed with all links congested where routing is "
    "dynamic, since else there is nothing to select; the time with free links is in the table of costs."
)
_REAL = (
    "All brokers ran on this machine, over TCP; links that are called slow carried less than was sent over them. "
    "Dynamic routing was free to leave static paths in both studies. Where processors were short, they and not links "
    "may have been the bottleneck. The simulator played the same with the same slow links, 1 ms for a link and up to "
    "0.1 ms more, and no other costs. The trees of TID are drawn by the copies of an advertisement that come first: "
    "where several ways are equally short, that is a race, so that they may lead over slow links in one and around "
    "them in the other."
)


def write_report(
    folder: Path,
    tables: Tables,
    claims: Sequence[Claim],
    figures: Sequence[FigureFile],
    manifest: Mapping[str, object],
    audits: Sequence[AuditRow] = (),
) -> tuple[Path, Path]:
    """Write report.md and report.html into the folder, and return both."""
    judged = judge(claims, tables)
    blocks = [
        Heading(_TITLE, 1),
        *_summary(judged),
        *_what_was_run(tables),
        *_claims(judged, sizes_of(tables)),
        *_figures(figures, folder),
        *_sensitivity(tables.sensitivity),
        *_over_sockets(tables.real),
        *_audits(audits),
        *_settings(manifest),
        Heading("How to run it again"),
        Commands(_again(manifest)),
        *_by_clock(tables, manifest),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    markdown, page = folder / "report.md", folder / "report.html"
    markdown.write_text(to_markdown(blocks), encoding="utf-8")
    page.write_text(to_html(_TITLE, blocks), encoding="utf-8")
    return markdown, page


def _summary(judged: Sequence[Judged]) -> Iterator[Block]:
    by_design = [each for each in judged if each.claim.measure is Measure.EXACT]
    yield Paragraph(f"What follows from the design, {len(by_design)} numbers: {_counts(by_design)}.")
    printed = [each for each in judged if each not in by_design]
    # Verdicts on what was measured may change from run to run, and with them the counts.
    yield Paragraph(f"The paper's claims, {len(printed)}: {_counts(printed)}.", by_clock=True)
    measured = [each for each in printed if each.claim.by_clock]
    virtual = [each for each in printed if not each.claim.by_clock]
    yield Paragraph(f"Counted or in virtual time, {len(virtual)}: {_counts(virtual)}.")
    yield Paragraph(f"By the clock of this machine, {len(measured)}: {_counts(measured)}.", by_clock=True)


def _counts(judged: Sequence[Judged]) -> str:
    found = Counter(each.verdict for each in judged)
    names = {
        Verdict.AGREES: "in agreement",
        Verdict.SAME_DIRECTION: "in the same direction",
        Verdict.DIFFERS: "different",
        Verdict.NOT_COMPARABLE: "not comparable",
        Verdict.ASSUMED: "assumed by our cost model",
        Verdict.NOT_RUN: "not run",
    }
    return ", ".join(f"{found[verdict]} {name}" for verdict, name in names.items() if found[verdict])


def _what_was_run(tables: Tables) -> Iterator[Block]:
    yield Heading("What was run")
    yield Paragraph(_VIRTUAL)
    yield Paragraph(_WORKLOADS)
    yield Paragraph(_WORDS)
    sizes = [size for name, size in sizes_of(tables).items() if name != "sequences"]
    yield Grid(
        ("Study", "Ours", "The paper's", "At full size"),
        [cells(size.study, size.ran, size.paper, size.told or "yes") for size in sizes],
    )


def _settings(manifest: Mapping[str, object]) -> Iterator[Block]:
    told = {key: value for key, value in manifest.items() if key not in (*CLOCK_KEYS, "again")}
    if told:
        yield Heading("Settings")
        yield Grid(("Setting", "Value"), [cells(*pair) for pair in _flat(told)])


def _claims(judged: Sequence[Judged], sizes: Mapping[str, StudySize]) -> Iterator[Block]:
    yield Heading("Claims")
    yield Paragraph(RULE)
    rows = [_claim_row(each, sizes[each.claim.study]) for each in judged]
    yield Grid(("Figure", "Claim", "The paper", "Ours", "Verdict", "Why it may differ"), rows)


def _claim_row(judged: Judged, size: StudySize) -> list[Cell]:
    claim, ours = judged.claim, judged.ours
    text = ours.text if ours is not None else "" if size.ran == NOT_RUN else "not enough runs to tell"
    notes = [] if ours is None else [ours.comment, size.told]
    if any(notes):
        text += f" ({'; '.join(note for note in notes if note)})"
    return [
        *cells(
            claim.figure, claim.sentence, f"by design: {claim.paper}" if claim.measure is Measure.EXACT else claim.paper
        ),
        Cell(text, claim.by_clock),
        Cell(judged.verdict.value, claim.by_clock, f"verdict {judged.verdict.value.replace(' ', '-')}"),
        Cell(claim.expected_to_differ),
    ]


def _figures(figures: Sequence[FigureFile], folder: Path) -> Iterator[Block]:
    yield Heading("Figures")
    if not figures:
        yield Paragraph("None was drawn.")
    for figure in figures:
        note = f"{figure.note} Measured by the clock." if figure.by_clock else figure.note
        yield Picture(figure.title, _relative(figure.png, folder), _relative(figure.svg, folder), note)


def _sensitivity(rows: Sequence[SensitivityRow]) -> Iterator[Block]:
    yield Heading("What hangs on the cost model")
    if not rows:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "One assumption is changed at a time; a result that changes with it hangs on it. These are runs of the scale "
        "tiny, whatever the scale of the rest: numbers are not those of the claims, and only how they move counts. "
        "The CSV table has a row for each."
    )
    quantities = dict.fromkeys(row.quantity for row in rows)
    shown = [_hanging([row for row in rows if row.quantity == quantity]) for quantity in quantities]
    yield Grid(("Result", "As assumed", "Becomes", "Stays"), shown)


def _hanging(rows: Sequence[SensitivityRow]) -> list[Cell]:
    """Tell of one result what changes it, and what does not."""
    assumed = next((row.result for row in rows if row.parameter == AS_ASSUMED), "")
    changes = [row for row in rows if row.parameter != AS_ASSUMED]
    moving = [f"{row.result} with {_change(row)}" for row in changes if row.result != assumed]
    staying = [_change(row) for row in changes if row.result == assumed]
    stays = f"with {'; '.join(staying)}" if staying else ""
    return cells(rows[0].quantity, assumed, "; ".join(moving) or "the same with all", stays)


def _change(row: SensitivityRow) -> str:
    return f"{row.parameter} → {row.value}"


def _over_sockets(rows: Sequence[RealRow]) -> Iterator[Block]:
    yield Heading("Over real sockets")
    if not rows:
        yield Paragraph("Not run; octopia paper --real runs the studies delivery and burst so.")
        return
    yield Paragraph(_REAL)
    yield Grid(
        ("Study", "Algorithm", "Publications", "Deliveries", "Offered to slow links", "Delay, mean", "Within 1 s",
         "Messages", "In virtual time: delay", "Messages", "Processors used", "They were"),
        [_real_row(row) for row in rows],
        by_clock=True,
    )  # fmt: skip
    yield Paragraph(
        f"Which of two algorithms is faster, where delays are more than {APART:.0%} apart, in virtual time and over "
        "sockets:"
    )
    yield Grid(
        ("Study", "Algorithms", "Faster in virtual time", "Faster over sockets", "The simulator's order is"),
        [
            cells(each.study, " and ".join(each.pair), each.simulated or "same", each.real or "same", each.verdict)
            for each in orderings(rows)
        ],
        by_clock=True,
    )


def _real_row(row: RealRow) -> list[Cell]:
    offered = f"{row.offered:.1f} times their rate" if row.offered else "no slow links"
    return cells(
        row.study,
        row.algorithm,
        f"{row.publications:,}",
        f"{row.deliveries:,}",
        offered,
        f"{row.publication_delay_ms:,.1f} ms",
        f"{row.share_below_1s:.1%}",
        f"{row.publication_messages:,}",
        f"{row.simulated_delay_ms:,.1f} ms",
        f"{row.simulated_messages:,}",
        f"{row.processors_used:.0%}",
        row.processors,
    )


def _audits(audits: Sequence[AuditRow]) -> Iterator[Block]:
    yield Heading("Audit")
    if not audits:
        yield Paragraph("Not run.")
        return
    missing, unwanted, duplicate = (
        sum(getattr(row, column) for row in audits) for column in ("missing", "unwanted", "duplicate")
    )
    deliveries = f"{sum(row.deliveries for row in audits):,} deliveries of {some(len(audits), 'run')}"
    found = f"{missing:,} missing, {unwanted:,} unwanted, {duplicate:,} duplicate"
    yield Paragraph(f"{deliveries} were compared with the truth: {found}.")
    shown = [cells(row.run, row.deliveries, row.missing, row.unwanted, row.duplicate) for row in audits]
    yield Grid(("Run", "Deliveries", "Missing", "Unwanted", "Duplicate"), shown)


def _again(manifest: Mapping[str, object]) -> tuple[str, ...]:
    again = manifest.get("again", AGAIN)
    return tuple(map(str, again)) if isinstance(again, list | tuple) else (str(again),)


def _by_clock(tables: Tables, manifest: Mapping[str, object]) -> Iterator[Block]:
    yield Heading("By the clock")
    told = {key: manifest[key] for key in CLOCK_KEYS if key in manifest}
    if told:
        yield Grid(("What", "Value"), [cells(*pair) for pair in _flat(told)], by_clock=True)
    if tables.bursts:
        yield Paragraph("How long the runs of the burst study took:")
        header = ("Rate a minute", "Algorithm", "Runs", "Seconds a run, mean")
        yield Grid(header, [*_burst_times(tables.bursts)], by_clock=True)


def _burst_times(rows: Sequence[BurstRow]) -> Iterator[list[Cell]]:
    times_s: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        times_s.setdefault((row.rate_per_minute, row.algorithm), []).append(row.seconds)
    for (rate, algorithm), each_s in times_s.items():
        yield cells(rate, algorithm, len(each_s), f"{fmean(each_s):.1f}")


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield keys and values; those of tables within get a dotted key."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
