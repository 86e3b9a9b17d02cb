"""The page of the demo: setup, results, pictures, and commands to try next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from octopia.experiments.demo.outcome import OVERLAY, RUNS, WORKLOAD, Outcome, Side
from octopia.experiments.demo.pictures import Pictures
from octopia.experiments.page import Block, Commands, Grid, Heading, Paragraph, cells, write_page

TITLE = "Around the congestion: OctopiA's demo"
RESULTS = ("Routing", "Deliveries", "Median delay", "99th percentile", "Longest", "Messages", "Audit")
SHORT = (
    "Processors were short: brokers or clients used nearly all of them, or waited for other processes. So delays show "
    "the load of processors, and not of links alone. Run it again when the machine is less busy."
)


def write_report(outcome: Outcome, pictures: Pictures, out: Path) -> Path:
    """Write report.md and report.html into the demo's folder; return the path of the latter."""
    _, page = write_page(out, TITLE, [*_blocks(outcome, pictures, out)])
    return page


def result_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the results of each algorithm, in the columns of RESULTS."""
    return [
        (
            side.run.algorithm,
            f"{side.run.deliveries:,}",
            in_units(side.delays.median_ms),
            in_units(side.delays.p99_ms),
            in_units(side.delays.max_ms),
            f"{sum(side.run.messages.values()):,}",
            side.audit.faults,
        )
        for side in outcome.sides
    ]


def in_units(delay_ms: float) -> str:
    """Return a delay as text: in seconds from one second on, otherwise in milliseconds."""
    if delay_ms >= 1000:
        return f"{delay_ms / 1000:.1f} s"
    return f"{delay_ms:.0f} ms" if delay_ms >= 10 else f"{delay_ms:.1f} ms"


def next_steps(out: Path) -> tuple[str, ...]:
    """Return commands to try next."""
    workload, overlay, tid = out / WORKLOAD, out / OVERLAY, out / "tid"
    return (
        "octopia paper",
        "octopia sim compare examples/fig7b.toml examples/fig7c.toml examples/fig7d.toml",
        "octopia up path:3 --clusters 4",
        f"octopia data metrics {out / RUNS}",
        f"octopia data play {workload} --out {tid} --network --algorithm tid-dynamic --overlay {overlay}",
    )


def _blocks(outcome: Outcome, pictures: Pictures, out: Path) -> Iterator[Block]:
    yield Heading(TITLE, 1)
    yield Paragraph(_story(outcome))
    yield Paragraph(_ending(outcome), by_clock=True)
    if outcome.is_short:
        yield Paragraph(SHORT, by_clock=True)
    yield Grid(RESULTS, [cells(*row) for row in result_rows(outcome)], by_clock=True)
    yield pictures.delays
    yield pictures.messages
    yield Heading("Setup")
    yield pictures.overlay
    yield Grid(("Setting", "Value"), [cells(*row) for row in _setting(outcome)])
    yield Heading("Audit")
    owed = " and ".join(f"{side.audit.owed:,}" for side in outcome.sides)
    yield Paragraph(
        f"Spark compared all publications with all subscriptions, without any broker, and found {outcome.matches:,} "
        f"matches. The two runs owed {owed} deliveries. Each delivery was compared with what clients received."
    )
    yield Grid(
        ("Routing", "Owed", "Delivered", "Missing", "Unwanted", "Duplicate"),
        [cells(*_audit_row(side)) for side in outcome.sides],
    )
    yield Heading("Cost")
    yield Grid(("Step", "Seconds"), [cells(name, f"{seconds:.1f}") for name, seconds in outcome.steps], by_clock=True)
    yield from _processors(outcome)
    yield Heading("Next steps")
    yield Commands(next_steps(out))


def _story(outcome: Outcome) -> str:
    plan = outcome.plan
    links = " and ".join(f"{one} - {other}" for one, other in outcome.links)
    return (
        f"{len(plan.workload.scot().brokers)} real brokers ran on this machine, and {plan.workload.publishers} "
        f"publishers and {plan.workload.subscribers} subscribers were connected to them. One more publisher, at "
        f"{outcome.host}, sent a burst of {plan.burst.publications:,} publications, {plan.burst_rate:g} per second, "
        f"which clients of every cluster wanted. The links {links} carried {plan.link_rate:g} publications per second. "
        "The same workload was played twice: with static routing, which uses these links, and with dynamic routing, "
        "which goes around congested links."
    )


def _ending(outcome: Outcome) -> str:
    longest = " and ".join(
        f"{in_units(side.delays.max_ms)} with {side.run.algorithm} routing" for side in outcome.sides
    )
    fate = "everything arrived exactly once" if outcome.is_clean else "the audit found faults"
    return f"The slowest delivery took {longest}; {fate}."


def _audit_row(side: Side) -> tuple[object, ...]:
    audit = side.audit
    return side.run.algorithm, audit.owed, side.run.deliveries, audit.missing, audit.unwanted, audit.duplicate


def _setting(outcome: Outcome) -> Iterator[tuple[str, str]]:
    plan, spec = outcome.plan, outcome.plan.workload
    scot = spec.scot()
    begin, end = plan.burst_s
    yield "overlay", f"{spec.tree}, {len(scot.regions)} regions x {scot.clusters} clusters: {len(scot.brokers)} brokers"
    yield "throttled, both ways", ", ".join(f"{one} - {other}: {plan.link_rate:g}/s" for one, other in outcome.links)
    yield (
        "burst",
        (
            f"{plan.burst.publications:,} publications at {outcome.host}, {plan.burst_rate:g}/s, "
            f"from {begin:g} s to {end:g} s, wanted by {spec.burst_subscribers} subscribers"
        ),
    )
    yield "publications", f"{outcome.sides[0].run.publications:,}, by {spec.publishers} publishers and the burst"
    yield "subscriptions", f"{spec.subscribers:,}, each for about {spec.selectivity:.0%} of other publications"
    yield "market", f"{plan.symbols} symbols, {plan.days} days, made up with seed {spec.seed}"


def _processors(outcome: Outcome) -> Iterator[Block]:
    rows = []
    for side in outcome.sides:
        cpu = side.run.cpu
        if cpu is not None:
            shares = (cpu.busiest_worker, cpu.busiest_clients, cpu.total_mean, cpu.total_max, cpu.waited_max)
            rows.append(
                cells(side.run.algorithm, *(f"{share:.0%}" for share in shares), "yes" if cpu.is_short else "no")
            )
    if rows:
        header = ("Routing", "Busiest brokers", "Busiest clients", "All, mean", "All, most", "Longest wait", "Short")
        yield Paragraph(
            "The share of one processor that the busiest processes used, the share of all processors that all of them "
            "used together, and the longest share of a second that one of them waited for a processor. Samples are one "
            "second long."
        )
        yield Grid(header, rows, by_clock=True)
