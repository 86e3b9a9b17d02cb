"""The section of the report about the comparison over sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from octopia.experiments.page import Block, Cell, Grid, Heading, Paragraph, cells
from octopia.experiments.sockets.cases import CASES, Case, Quantity
from octopia.experiments.sockets.figures import picture_of
from octopia.experiments.sockets.orders import RULE, Order, Verdict, orders
from octopia.experiments.sockets.rows import CpuSupply, SocketRow

_METHOD = (
    "All brokers ran on this machine, over TCP. They shared one process less than there are CPUs; with a dead broker, "
    "each had its own. Each run was also predicted by the simulator, with several seeds: the same workload on the same "
    "overlay, with links of 0.02 to 0.8 ms and no other costs. A slow link carries a third of the burst's rate. Delays "
    "are those of all deliveries, messages those between brokers that carry publications. The links of the simulator "
    "were chosen after first runs over sockets, so small delays and the ranges of TID are no independent predictions. "
    "Where CPUs were short even after the run was repeated, they may have been the bottleneck instead of the links."
)
_REASONS = (
    "A slow link of the simulator is occupied before a publication arrives, and one of the network afterwards. So a "
    "predicted delay has one interval of the link more for every slow link on the way: 12.5 ms with 12 brokers and 25 "
    "ms with 56. It matters most for adaptive routing in a burst, whose detours cross the most links.",
    "TID builds a tree from the copies of an advertisement that arrive first, so a race decides which links it uses. "
    "Over sockets, the machine decides the race, and the results of TID differ from run to run: a tree may lead over a "
    "slow link or a dead broker in one run and avoid it in the next. The predictions show the range.",
    "The kernel closes the connections of a killed process, so its neighbours notice within milliseconds in both "
    "worlds. If a machine falls silent instead, they need the time of suspicion, 2 s by default, in both.",
    "Adaptive routing mistakes a process that waits for a CPU for a slow link, and goes around it. So on a busy "
    "machine it sends more messages than predicted, and more status messages.",
)
_SHORT = {CpuSupply.ENOUGH: "enough", CpuSupply.SHORT: "SHORT", CpuSupply.UNKNOWN: "unknown"}


def socket_blocks(rows: Sequence[SocketRow]) -> Iterator[Block]:
    """Yield the section: method, one table and figure per case, orders, and the use of CPUs."""
    yield Heading("Over real sockets")
    if not rows:
        yield Paragraph("Not run. Use octopia paper --real to compare all algorithms over sockets.")
        return
    yield Paragraph(_METHOD)
    found = orders(rows)
    yield Paragraph(summary(found), by_clock=True)
    for case in CASES:
        mine = [row for row in rows if row.case is case.name]
        if mine:
            yield from _case(case, mine, [each for each in found if each.case is case.name])
    yield Heading("Reasons for differences", 3)
    yield from map(Paragraph, _REASONS)
    yield Heading("Use of CPUs", 3)
    yield Paragraph(_cpu_text(rows), by_clock=True)


def summary(found: Sequence[Order]) -> str:
    """Return how many predicted orders were confirmed, in words, without and with TID."""
    parts = {"of OctopiA's algorithms": False, "with an algorithm of TID": True}
    grouped = {name: [each for each in found if has_tid(each) is wanted] for name, wanted in parts.items()}
    return " ".join(f"Of {len(each)} pairs {name}: {_counts(each)}." for name, each in grouped.items() if each)


def has_tid(order: Order) -> bool:
    """Return whether one of the two algorithms is TID's."""
    return any(each.is_tid for each in order.pair)


def _counts(found: Sequence[Order]) -> str:
    counts = Counter(each.verdict for each in found)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def _case(case: Case, rows: Sequence[SocketRow], found: Sequence[Order]) -> Iterator[Block]:
    yield Heading(case.title, 3)
    yield Paragraph(case.text)
    yield Grid(
        ("Brokers", "Algorithm", "Owed", "Delivered", "Predicted", "Mean delay", "Predicted", "99th percentile",
         "Predicted", "Messages", "Predicted", "Status messages", "Predicted", "CPUs used", "CPUs were"),
        [measured_row(row) for row in rows],
        by_clock=True,
    )  # fmt: skip
    yield picture_of(case)
    noticed = [row.noticed_ms for row in rows if row.noticed_ms is not None]
    if noticed:
        yield Paragraph(
            f"All neighbours had noticed the dead broker after {min(noticed):.0f} to {max(noticed):.0f} ms. They were "
            "polled every 10 ms.",
            by_clock=True,
        )
    yield Paragraph(f"The order of the algorithms by {case.judged_by}. {RULE}")
    factor = "Ratio" if case.judged_by is Quantity.DELAY else "Ratio of shares"
    yield Grid(
        ("Brokers", "Algorithms", "Better, predicted", f"{factor}, predicted", "Better, measured",
         f"{factor}, measured", "The predicted order is"),
        [_order_row(each) for each in found],
        by_clock=True,
    )  # fmt: skip


def measured_row(row: SocketRow) -> list[Cell]:
    """Return the cells of a run: each measured number beside the predicted one."""
    return cells(
        f"{row.brokers} (seed {row.seed})",
        row.algorithm,
        row.owed,
        f"{row.share:.1%}",
        _spread(row.predicted_share_least, row.predicted_share, row.predicted_share_most, "{:.1%}"),
        in_ms(row.delay_ms_mean),
        _spread(
            row.predicted_delay_ms_least, row.predicted_delay_ms_mean, row.predicted_delay_ms_most, "{:,.1f}", " ms"
        ),
        in_ms(row.delay_ms_p99),
        in_ms(row.predicted_delay_ms_p99),
        row.publication_messages,
        f"{row.predicted_publication_messages:,.0f}",
        row.status_messages,
        f"{row.predicted_status_messages:,.0f}",
        f"{row.processors_used:.0%}",
        _SHORT[row.processors],
    )


def in_ms(delay_ms: float) -> str:
    """Return a delay as text."""
    return f"{delay_ms:,.1f} ms"


def _spread(least: float, mean: float, most: float, form: str, unit: str = "") -> str:
    low, middle, high = (form.format(value) for value in (least, mean, most))
    return f"{middle}{unit}" if low == high else f"{middle}{unit} ({low} to {high})"


def _order_row(order: Order) -> list[Cell]:
    verdict = f"{order.verdict}, but CPUs were short" if order.is_short else str(order.verdict)
    predicted = (order.predicted or "same") if order.is_predicted else "a race decides"
    return cells(
        f"{order.brokers} (seed {order.seed})",
        " and ".join(order.pair),
        predicted,
        f"{order.predicted_factor:.3g}",
        order.measured or "same",
        f"{order.measured_factor:.3g}",
        verdict,
    )


def _cpu_text(rows: Sequence[SocketRow]) -> str:
    parts = []
    for brokers in sorted({row.brokers for row in rows}):
        mine = [row for row in rows if row.brokers == brokers]
        used = [row.processors_used for row in mine]
        parts.append(
            f"With {brokers} brokers, they used {min(used):.0%} to {max(used):.0%} of all CPUs on average, and the "
            f"busiest process at most {max(row.busiest_process for row in mine):.0%} of one in any second. A process "
            f"that was ready waited for a CPU at most {max(row.waited_max for row in mine):.0%} of a second."
        )
    short = sum(row.processors is CpuSupply.SHORT for row in rows)
    return f"{' '.join(parts)} CPUs were short in {short} of {len(rows)} runs."
