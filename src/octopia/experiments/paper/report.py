"""The report of the paper's evaluation: every claim with our result, the sizes of runs, figures, audits and settings.

The report is a function of tables and a manifest. Measurements by the clock are marked, so that ``page.without_clock``
can take them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from octopia.experiments.audits import AuditRow
from octopia.experiments.charts import LOOKS, FigureFile
from octopia.experiments.page import Block, Cell, Commands, Grid, Heading, Paragraph, Picture, cells, write_page
from octopia.experiments.paper.manifest import Manifest
from octopia.experiments.paper.matrix import Matrix, burst_matrix, clock_matrix, holds_from, is_of_burst, quiet_matrix
from octopia.experiments.paper.names import Contender, Model
from octopia.experiments.paper.plots import BOUNDS
from octopia.experiments.paper.prose import (
    ALGORITHMS,
    HOSTS,
    METRICS,
    ON_BOUNDS,
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
    LoadRow,
    SensitivityRow,
    Tables,
)
from octopia.experiments.paper.sizes import NOT_RUN, StudySize, sizes_of, some
from octopia.experiments.paper.verdicts import RULE, Claim, Judged, Measure, Verdict
from octopia.experiments.sockets.report import socket_blocks
from octopia.pipeline.spec import HostKind

_CLOCK = ("started", "finished")
_TITLE = "The paper's evaluation and our results"
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
    quiet, bursts, measured = quiet_matrix(claims, tables), burst_matrix(claims, tables), clock_matrix(claims, tables)
    blocks = [
        Heading(_TITLE, 1),
        *_summary(quiet, bursts, measured),
        *_method(tables),
        *_models(manifest),
        *_results(quiet, bursts, measured, sizes_of(tables)),
        *_paths(tables),
        *_recovery(tables),
        *_loads(tables.loads),
        *_figures(figures, folder),
        *_decisive(tables.decisive),
        *_sensitivity(tables.sensitivity),
        *_not_reproduced(quiet, bursts),
        *_threats(),
        *socket_blocks(tables.sockets),
        *_audits(tables.audits),
        *_settings(manifest),
        Heading("How to reproduce"),
        Commands((manifest.again,)),
        *_by_clock(tables, manifest),
    ]
    return write_page(folder, _TITLE, blocks)


def _summary(quiet: Matrix, bursts: Matrix, measured: Sequence[Judged]) -> Iterator[Block]:
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


def _results(
    quiet: Matrix, bursts: Matrix, measured: Sequence[Judged], sizes: Mapping[type[object], StudySize]
) -> Iterator[Block]:
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


def _recovery(tables: Tables) -> Iterator[Block]:
    yield Heading("Adaptive routing and the bounds")
    yield Paragraph(ON_BOUNDS)
    if not tables.bursts:
        yield Paragraph("Not run.")
        return
    settings = [(model, host) for model in tables.models_of(BurstRow) for host in tables.hosts]
    rates = sorted({row.rate_per_minute for row in tables.bursts}, reverse=True)
    yield Paragraph("Time until a run is stable: the mean, with the minimum and the maximum over several seeds.")
    yield _stable_grid([(rate, setting) for rate in rates for setting in settings], tables)
    yield Paragraph("The same with delays. Burst over after is the last delivery of the burst above one second.")
    rows = [
        line
        for rate in rates
        for model, host in settings
        for line in _recovery_rows(tables.under(model, host), rate, f"{model}, {host} host")
    ]
    header = ("Rate per minute", "Model", "Algorithm", "Stable after", "Burst over after", "Mean delay, all",
              "Mean delay, burst", "Mean delay, ordinary", "Within 1 s: publications, deliveries, burst")  # fmt: skip
    yield Grid(header, rows)


def _stable_grid(keys: Sequence[tuple[int, tuple[Model, HostKind]]], tables: Tables) -> Grid:
    """Return one line per rate, model and kind of host broker, with one column per algorithm."""
    contenders = [each for each in Contender if any(row.algorithm == each for row in tables.bursts)]
    rows = []
    for rate, (model, host) in keys:
        here = tables.under(model, host)
        mine = [row for row in here.bursts if row.rate_per_minute == rate]
        bounds = here.bounds_at(rate)
        stable_ms = [[row.stable_ms for row in mine if row.algorithm == each] for each in contenders]
        seeds = len({row.seed for row in mine})
        found = [_range_s(each) + ("" if len(each) == seeds else f", {some(len(each), 'seed')}") if each else ""
                 for each in stable_ms]  # fmt: skip
        limits = [_range_s([bound.value(row) for row in bounds]) if bounds else "" for bound in BOUNDS]
        if mine:
            rows.append(cells(rate, model, host, seeds, *found, *limits))
    labels = [LOOKS[each].label for each in contenders]
    return Grid(("Rate", "Model", "Host", "Seeds", *labels, *(_capital(bound.name) for bound in BOUNDS)), rows)


def _recovery_rows(tables: Tables, rate: int, setting: str) -> Iterator[list[Cell]]:
    for contender in Contender:
        rows = [row for row in tables.bursts if row.rate_per_minute == rate and row.algorithm == contender]
        if rows:
            stable_ms = [row.stable_ms for row in rows]
            yield cells(
                rate,
                setting,
                LOOKS[contender].label,
                _range_s(stable_ms),
                _range_s([row.burst_late_ms for row in rows]),
                _range_s([row.publication_delay_ms for row in rows]),
                _range_s([row.burst_delay_ms for row in rows]),
                _range_s([row.ordinary_delay_ms for row in rows]),
                f"{fmean(row.publications_below_1s for row in rows):.1%}, "
                f"{fmean(row.share_below_1s for row in rows):.1%}, "
                f"{fmean(row.burst_share_below_1s for row in rows):.1%}",
            )
    bounds = tables.bounds_at(rate)
    for bound in BOUNDS if bounds else ():
        yield cells(rate, setting, bound.name, _range_s([bound.value(row) for row in bounds]), "", "", "", "", "")


def _range_s(values_ms: Sequence[float | None]) -> str:
    """Return times in seconds: one, or the mean with the least and the most over the seeds."""
    known = [value / 1000 for value in values_ms if value is not None]
    if not known:
        return "never"
    digits = 0 if max(known) >= 100 else 1 if max(known) >= 20 else 2
    mean = f"{fmean(known):.{digits}f} s"
    spread = f" ({min(known):.{digits}f} to {max(known):.{digits}f})" if len(known) > 1 else ""
    return mean + spread + ("" if len(known) == len(values_ms) else f", {len(values_ms) - len(known)} never")


def _loads(rows: Sequence[LoadRow]) -> Iterator[Block]:
    yield Heading("Ordinary load of links")
    if not rows:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "Publications per second on the busiest links before a burst, in a run without congestion. TID's trees use "
        "iLinks where OctopiA uses aLinks, and so spread the same traffic over more links. This leaves their busiest "
        "link more room for a burst."
    )
    yield Grid(
        ("Model", "System", "Seed", "Publications", "Busiest aLink", "Busiest iLink", "Copies over iLinks"),
        [
            cells(row.model, row.system, row.seed, row.publications, f"{row.alink_per_s_max:.0f} per second",
                  f"{row.ilink_per_s_max:.0f} per second", f"{row.ilink_share:.1%}")
            for row in rows
        ],
    )  # fmt: skip


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
    yield Grid(("Senders", "TID's trees", "Host", *(_capital(each) for each in quantities)), shown)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _not_reproduced(*matrices: Matrix) -> Iterator[Block]:
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
    yield Heading("Duration of the evaluation")
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
