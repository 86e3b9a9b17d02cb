"""The report of the paper's evaluation: every claim with our result, the sizes of runs, figures, audits and settings.

The report is a function of tables and a manifest. Measurements by the clock are marked, so that ``page.without_clock``
can take them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from octopia.experiments.audits import AuditRow
from octopia.experiments.charts import LOOKS, FigureFile
from octopia.experiments.page import (
    Block,
    Cell,
    Commands,
    Grid,
    Heading,
    Paragraph,
    Picture,
    capital,
    cells,
    write_page,
)
from octopia.experiments.paper.burst_blocks import load_blocks, recovery_blocks
from octopia.experiments.paper.claim_blocks import claim_blocks, missed_blocks, summary_blocks
from octopia.experiments.paper.manifest import Manifest
from octopia.experiments.paper.matrix import burst_matrix, clock_matrix, quiet_matrix
from octopia.experiments.paper.names import Contender
from octopia.experiments.paper.prose import (
    ALGORITHMS,
    HOSTS,
    METRICS,
    OVERLAY,
    SCALING,
    SHARED,
    THREATS,
)
from octopia.experiments.paper.rows import (
    AS_ASSUMED,
    BurstRow,
    DecisiveRow,
    DeliveryRow,
    SensitivityRow,
    Tables,
)
from octopia.experiments.paper.sizes import sizes_of, some
from octopia.experiments.paper.verdicts import Claim
from octopia.experiments.sockets.report import socket_blocks

_CLOCK = ("started", "finished")
_TITLE = "The paper's evaluation and our results"


def write_report(
    folder: Path, tables: Tables, claims: Sequence[Claim], figures: Sequence[FigureFile], manifest: Manifest
) -> tuple[Path, Path]:
    """Write report.md and report.html into the folder, and return both paths."""
    quiet, bursts, measured = quiet_matrix(claims, tables), burst_matrix(claims, tables), clock_matrix(claims, tables)
    blocks = [
        Heading(_TITLE, 1),
        *summary_blocks(quiet, bursts, measured),
        *_method(tables),
        *_models(manifest),
        *claim_blocks(quiet, bursts, measured, sizes_of(tables)),
        *_paths(tables),
        *recovery_blocks(tables),
        *load_blocks(tables.loads),
        *_figures(figures, folder),
        *_decisive(tables.decisive),
        *_sensitivity(tables.sensitivity),
        *missed_blocks(quiet, bursts),
        *_threats(),
        *socket_blocks(tables.sockets),
        *_audits(tables.audits),
        *_settings(manifest),
        Heading("How to reproduce"),
        Commands((manifest.again,)),
        *_by_clock(tables, manifest),
    ]
    return write_page(folder, _TITLE, blocks)


def _method(tables: Tables) -> Iterator[Block]:
    yield Heading("Method")
    for text in (OVERLAY, ALGORITHMS, METRICS, HOSTS, SCALING):
        yield Paragraph(text)
    sizes = dict.fromkeys(sizes_of(tables).values())
    yield Grid(
        ("Study", "Ours", "The paper's", "At full size"),
        [cells(size.study, size.ran, size.paper, size.note or "yes") for size in sizes],
    )


def _models(manifest: Manifest) -> Iterator[Block]:
    yield Heading("Models")
    yield Grid(
        ("Model", "Assumption", "Profile of the simulator"),
        [cells(model, model.description, model.profile) for model in manifest.profiles],
    )
    yield Paragraph(SHARED)


def _paths(tables: Tables) -> Iterator[Block]:
    """Yield the mean path lengths without congestion, one line per model and one column per algorithm."""
    yield Heading("Lengths of paths")
    if not tables.delivery:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "The mean number of links between brokers that a delivery crosses, over all runs of the delivery study, with "
        "the minimum and the maximum of single runs. It decides most claims without congestion."
    )
    contenders = [each for each in Contender if any(row.algorithm == each for row in tables.delivery)]
    lines = []
    for model in tables.models_of(DeliveryRow):
        rows = tables.under(model).delivery
        lengths = [[row.path_length_mean for row in rows if row.algorithm == each] for each in contenders]
        lines.append(cells(model, *(_range(each) if each else "" for each in lengths)))
    yield Grid(("Model", *(LOOKS[each].label for each in contenders)), lines)


def _range(values: Sequence[float]) -> str:
    """Return the mean of some values, with the least and the most if there are several."""
    mean = f"{fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def _decisive(rows: Sequence[DecisiveRow]) -> Iterator[Block]:
    yield Heading("The assumptions that decide")
    if not rows:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "Who shares a sender, how TID's trees are drawn, and which kind of broker hosts the burst are varied together. "
        "These runs have the scale tiny, so that times are short, and only their signs and proportions matter."
    )
    quantities = tuple(dict.fromkeys(row.quantity for row in rows))
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        found.setdefault((row.sender, row.trees, row.host), {})[row.quantity] = row.result
    shown = [cells(*key, *(results.get(each, "") for each in quantities)) for key, results in found.items()]
    yield Grid(("Senders", "TID's trees", "Host", *(capital(each) for each in quantities)), shown)


def _threats() -> Iterator[Block]:
    yield Heading("Threats to validity")
    for text in THREATS:
        yield Paragraph(text)


def _settings(manifest: Manifest) -> Iterator[Block]:
    yield Heading("Settings")
    settings = {key: value for key, value in msgspec.to_builtins(manifest).items() if key not in (*_CLOCK, "again")}
    yield Grid(("Setting", "Value"), [cells(*pair) for pair in _flat(settings)])


def _figures(figures: Sequence[FigureFile], folder: Path) -> Iterator[Block]:
    yield Heading("Figures")
    if not figures:
        yield Paragraph("Not drawn.")
    for figure in figures:
        note = f"{figure.note} Measured by the clock." if figure.by_clock else figure.note
        yield Picture(figure.title, *figure.addresses(folder), note)


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
    lossy = [row for row in audits if row.may_miss]
    if lossy:
        missing, owed = sum(row.missing for row in lossy), sum(row.owed for row in lossy)
        shares = sorted(row.missing_share for row in lossy)
        yield Paragraph(
            f"TID-D with one copy per next hop loses deliveries by design: {missing:,} of {owed:,} in "
            f"{some(len(lossy), 'run')}, from {shares[0]:.2%} to {shares[-1]:.2%} of a run. All other runs must be "
            "without a fault."
        )
    # Nearly all of hundreds of runs are without a fault, and a line for each would hide the others.
    shown = [cells(row.run, *_audit_counts(row)) for row in audits if row.missing or row.unwanted or row.duplicate]
    if shown:
        yield Grid(("Run", "Deliveries", "Missing", "Unwanted", "Duplicate"), shown)
    yield Paragraph(
        f"In {'all' if not shown else 'the other'} runs, every subscriber received what it was owed, once, and nothing "
        "else. The CSV table has one row per run."
    )


def _audit_counts(row: AuditRow) -> tuple[int, int, int, int]:
    return row.deliveries, row.missing, row.unwanted, row.duplicate


def _by_clock(tables: Tables, manifest: Manifest) -> Iterator[Block]:
    yield Heading("Duration of the last call")
    yield Grid(("", "Time"), [cells(name, getattr(manifest, name)) for name in _CLOCK], by_clock=True)
    if tables.bursts:
        yield Paragraph("Duration of the runs of the burst study:")
        header = ("Rate per minute", "Model", "Algorithm", "Runs", "Mean seconds per run")
        yield Grid(header, [*_burst_times(tables.bursts)], by_clock=True)


def _burst_times(rows: Sequence[BurstRow]) -> Iterator[list[Cell]]:
    times_s: dict[tuple[int, str, str], list[float]] = {}
    for row in rows:
        times_s.setdefault((row.rate_per_minute, row.model, row.algorithm), []).append(row.seconds)
    for (rate, model, algorithm), each_s in times_s.items():
        yield cells(rate, model, algorithm, len(each_s), f"{fmean(each_s):.1f}")


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield keys and values; the values of nested tables get a dotted key."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)
