"""The report of the study: figures, tables by series, formulas beside simulations, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from octopia.experiments.charts import FigureFile
from octopia.experiments.page import Block, Cell, Commands, Grid, Heading, Paragraph, Picture, cells, write_page
from octopia.experiments.scale.names import Scale, Series, Source
from octopia.experiments.scale.rows import CheckRow, FailureRow, GrowthRow, MemoryRow, Tables
from octopia.workloads.provenance import describe_machine

_TITLE = "OctopiA beyond the paper"
_SERIES = {
    Series.REGIONS: "More regions",
    Series.CLUSTERS: "More clusters",
    Series.SUBSCRIPTIONS: "More subscriptions",
    Series.PUBLISHERS: "More publishers per subscription",
}
_GROWTH = ("tree x clusters", "brokers", "subscriptions", "publishers per symbol", "system", "source",
           "messages per advertisement", "per subscription", "setting bits", "confirmations", "CLT or SRT entries",
           "PRT entries", "messages per publication", "false positives", "deliveries", "hops", "busiest link",
           "delay, mean (ms)", "p99 (ms)")  # fmt: skip


def write_report(
    out: Path,
    scale: Scale,
    tables: Tables,
    figures: Sequence[FigureFile],
    commits: Sequence[str],
    *,
    missing: int,
) -> Path:
    """Write report.md and report.html, and return the path of the latter."""
    blocks = [
        Heading(_TITLE, 1),
        Paragraph(
            "Runs use the simulator with the real brokers; rows marked formula were not simulated, or cannot be. Links "
            "carry a publication in 3 ms and brokers take no time. Forty publishers publish 100 times per second in "
            "all, and twenty subscriptions want each publication. Messages are those between brokers."
        ),
        *([Paragraph(f"Runs that are not finished: {missing}. The same command continues.")] if missing else []),
        *(Picture(each.title, *each.addresses(out), each.note) for each in figures),
        *_growth(tables.growth),
        *_failures(tables.failures),
        *_memory(tables.memory),
        *_checks(tables.checks),
        Heading("How this was made"),
        Paragraph(f"Commit {', '.join(commits)}. {describe_machine()}.", by_clock=True),
        Commands((f"octopia scale --scale {scale}",)),
    ]
    return write_page(out, _TITLE, blocks)[1]


def _growth(rows: Sequence[GrowthRow]) -> Iterator[Block]:
    for series, title in _SERIES.items():
        mine = [row for row in rows if row.series is series]
        if mine:
            yield Heading(title)
            yield Grid(_GROWTH, [_growth_row(row) for row in mine])
    runs = [row for row in rows if row.source is Source.SIMULATED]
    if runs:
        yield Heading("Cost of the runs")
        yield Paragraph("CPU time and memory of the process that simulates all brokers, which share the filters.")
        header = ("tree x clusters", "brokers", "subscriptions", "system", "PRT entries", "bytes per entry",
                  "memory (MiB)", "CPU (s)")  # fmt: skip
        yield Grid(header, [_cost_row(row) for row in runs], by_clock=True)


def _growth_row(row: GrowthRow) -> list[Cell]:
    return cells(
        f"{row.tree} x {row.clusters}", row.brokers, row.subscriptions, row.publishers_per_symbol, row.system,
        row.source, _text(row.messages_per_advertisement), _text(row.messages_per_subscription),
        _text(row.bit_messages_per_subscription), _text(row.confirmations_per_subscription),
        _text(row.advertisement_entries), _text(row.subscription_entries), _text(row.messages_per_publication),
        _text(row.false_positives_per_publication), _text(row.deliveries_per_publication), _text(row.hops),
        _text(row.busiest_link), _text(row.delay_ms), _text(row.delay_ms_p99),
    )  # fmt: skip


def _cost_row(row: GrowthRow) -> list[Cell]:
    return cells(
        f"{row.tree} x {row.clusters}", row.brokers, row.subscriptions, row.system,
        _text(row.subscription_entries * row.brokers), _text(row.bytes_per_entry), _text(row.memory_mib),
        _text(row.seconds),
    )  # fmt: skip


def _failures(rows: Sequence[FailureRow]) -> Iterator[Block]:
    if rows:
        yield Heading("Failures")
        yield Paragraph(
            "A crashed broker restarts without memory, and its clients subscribe again. A cut link heals after both "
            "ends have noticed. Rows of TID are the entries that the broker loses; it has no way to restore them."
        )
        header = ("fault", "tree x clusters", "brokers", "subscriptions", "system", "source", "PRT entries", "local",
                  "exchange", "subscription", "unsubscription", "gap", "other", "messages", "bytes",
                  "repair (ms)")  # fmt: skip
        ordered = sorted(rows, key=lambda row: row.fault)
        yield Grid(header, [_failure_row(row) for row in ordered])


def _failure_row(row: FailureRow) -> list[Cell]:
    return cells(
        row.fault, f"{row.tree} x {row.clusters}", row.brokers, row.subscriptions, row.system, row.source,
        row.prt_entries, row.local_subscriptions, row.exchange_messages, row.subscription_messages,
        row.unsubscription_messages, row.gap_messages, row.other_messages, row.messages, _text(row.bytes),
        _text(row.repair_ms),
    )  # fmt: skip


def _memory(rows: Sequence[MemoryRow]) -> Iterator[Block]:
    if rows:
        yield Heading("Memory of a broker")
        header = ("system", "PRT entries", "bytes per entry", "of them index", "bytes on the wire", "insert (µs)",
                  "match (µs)")  # fmt: skip
        found = [
            cells(row.system, row.entries, *map(_text, (row.bytes_per_entry, row.index_bytes_per_entry, row.wire_bytes,
                                                        row.insert_us, row.match_us)))
            for row in rows
        ]  # fmt: skip
        yield Grid(header, found, by_clock=True)


def _checks(rows: Sequence[CheckRow]) -> Iterator[Block]:
    wrong = [row for row in rows if not row.agrees]
    yield Heading("Formulas and simulations")
    yield Paragraph(f"{len(rows):,} totals were compared: {len(rows) - len(wrong):,} are equal, {len(wrong):,} differ.")
    if wrong:
        header = ("tree x clusters", "subscriptions", "system", "quantity", "formula", "simulated")
        found = [
            cells(
                f"{row.tree} x {row.clusters}", row.subscriptions, row.system, row.quantity, row.formula, row.simulated
            )
            for row in wrong
        ]
        yield Grid(header, found)


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"
