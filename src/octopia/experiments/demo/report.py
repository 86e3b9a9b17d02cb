"""The page of the demo: setup, results, pictures, and commands to try next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from octopia.experiments.demo.outcome import OVERLAY, RUNS, WORKLOAD, Outcome, Side
from octopia.experiments.demo.pictures import Pictures, in_percent
from octopia.experiments.network_runs import BUSY_PROCESS, BUSY_TOGETHER, WAITED, CpuUse
from octopia.experiments.page import Block, Commands, Grid, Heading, Paragraph, cells, write_page

TITLE = "Around slow links and a dead broker: OctopiA's demo"
RESULTS = ("Routing", "Owed", "Delivered", "Mean delay", "99th percentile", "Longest")
AFTERWARDS = ("Routing", "Owed", "Delivered", "Share", "Mean delay", "99th percentile")


def write_report(outcome: Outcome, pictures: Pictures, out: Path) -> Path:
    """Write report.md and report.html into the demo's folder; return the path of the latter."""
    _, page = write_page(out, TITLE, [*_blocks(outcome, pictures, out)])
    return page


def result_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the results of each algorithm with slow links, in the columns of RESULTS."""
    return [
        (
            side.run.algorithm,
            f"{side.owed:,}",
            f"{side.delays.count:,}",
            in_units(side.delays.mean_ms),
            in_units(side.delays.p99_ms),
            in_units(side.delays.max_ms),
        )
        for side in outcome.sides
    ]


def rows_afterwards(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the results of each algorithm after the broker was killed, in the columns of AFTERWARDS."""
    return [
        (
            side.run.algorithm,
            f"{side.owed_later:,}",
            f"{side.later.count:,}",
            in_percent(side.share_later),
            in_units(side.later.mean_ms),
            in_units(side.later.p99_ms),
        )
        for side in outcome.sides
    ]


def in_units(delay_ms: float) -> str:
    """Return a delay as text: in seconds from one second on, otherwise in milliseconds."""
    if delay_ms >= 1000:
        return f"{delay_ms / 1000:.1f} s"
    return f"{delay_ms:.0f} ms" if delay_ms >= 10 else f"{delay_ms:.1f} ms"


def shortage(outcome: Outcome) -> str:
    """Return in which runs CPUs were short and why, in words."""
    runs = "; ".join(
        f"with {side.run.algorithm} routing, {_cause(side.run.cpu)}"
        for side in outcome.sides
        if side.run.cpu is not None and side.run.cpu.is_short
    )
    return (
        f"CPUs were short: {runs}. So the delays of these runs show the load of CPUs, and not of links "
        "alone. Run it again when the machine is less busy."
    )


def _cause(cpu: CpuUse) -> str:
    causes = []
    # A share that was a little above its limit may have been rounded to it.
    if cpu.waited_max >= WAITED:
        causes.append(f"brokers or clients waited for other processes, in one second {cpu.waited_max:.0%} of the time")
    busiest = max(cpu.busiest_worker, cpu.busiest_clients)
    if busiest >= BUSY_PROCESS:
        causes.append(f"one process used up to {busiest:.0%} of a CPU")
    if cpu.total_max >= BUSY_TOGETHER:
        causes.append(f"all processes used up to {cpu.total_max:.0%} of all CPUs")
    return " and ".join(causes)


def next_steps(out: Path) -> tuple[str, ...]:
    """Return commands to try next."""
    workload, overlay, tid = out / WORKLOAD, out / OVERLAY, out / "tid"
    return (
        "octopia paper",
        "octopia sim compare examples/slow_alink.toml examples/dead_broker.toml examples/fig7d.toml",
        "octopia up path:3 --clusters 4",
        f"octopia data metrics {out / RUNS}",
        f"octopia data play {workload} --out {tid} --network --algorithm tid-dynamic --overlay {overlay}",
    )


def _blocks(outcome: Outcome, pictures: Pictures, out: Path) -> Iterator[Block]:
    yield Heading(TITLE, 1)
    yield Paragraph(_setup(outcome))
    yield pictures.overlay
    if outcome.is_short:
        yield Paragraph(shortage(outcome), by_clock=True)
    yield Heading("1. Slow links")
    yield Paragraph(slow_story(outcome))
    yield Grid(RESULTS, [cells(*row) for row in result_rows(outcome)], by_clock=True)
    yield pictures.delays
    yield Heading(f"2. {outcome.dead} is killed")
    yield Paragraph(killed_story(outcome))
    yield Grid(AFTERWARDS, [cells(*row) for row in rows_afterwards(outcome)], by_clock=True)
    yield pictures.shares
    yield Heading("Messages")
    yield pictures.messages
    yield Heading("Setup")
    yield Grid(("Setting", "Value"), [cells(*row) for row in _setting(outcome)])
    yield Heading("Audit")
    yield Paragraph(
        f"Spark compared all publications with all subscriptions, without any broker, and found {outcome.matches:,} "
        "matches. Each of them was compared with what clients received. Missing deliveries are of three kinds: those "
        f"for the clients of {outcome.dead}, which lost their broker and are owed nothing; those for the rest of its "
        "cluster, which are cut off; and all others. Adaptive routing promises everything that is not of the first "
        "kind. Missing deliveries of the third kind, and unwanted and duplicate ones, are faults under every "
        "algorithm: the command fails if there are any."
    )
    yield Grid(
        (
            "Routing",
            "Matches",
            "Delivered",
            f"For clients of {outcome.dead}",
            "Cut off",
            "Other missing",
            "Unwanted",
            "Duplicate",
        ),
        [cells(*_audit_row(side)) for side in outcome.sides],
    )
    yield Heading("Cost")
    yield Grid(("Step", "Seconds"), [cells(name, f"{seconds:.1f}") for name, seconds in outcome.steps], by_clock=True)
    yield from _cpu_use(outcome)
    yield Heading("Next steps")
    yield Commands(next_steps(out))


def slow_story(outcome: Outcome) -> str:
    """Return what happens on the slow links, in words."""
    (host, beyond), (_, other) = outcome.links
    return (
        f"The aLink {host} - {beyond} and the iLink {host} - {other} carry {outcome.plan.link_rate:g} publications per "
        f"second, and the burst has {outcome.plan.burst_rate:g}. Static routing waits for both links. Dynamic routing "
        "goes around the slow iLink, but waits for the slow aLink. Adaptive routing goes around both."
    )


def killed_story(outcome: Outcome) -> str:
    """Return what happens when the broker dies, in words."""
    dead = outcome.dead
    return (
        f"When everything has arrived, the process of {dead} is killed, and the publishers of other brokers go on. "
        f"{dead} is an inner broker: without it, cluster {dead.cluster} is cut in two. Static and dynamic routing do "
        f"not reach all of it. Adaptive routing goes around {dead} in other clusters. The table counts deliveries from "
        f"live publishers to live subscribers, from the moment when the neighbours of {dead} have noticed."
    )


def _setup(outcome: Outcome) -> str:
    plan = outcome.plan
    return (
        f"{len(plan.workload.scot().brokers)} real brokers ran on this machine, and {plan.workload.publishers} "
        f"publishers and {plan.workload.subscribers} subscribers were connected to them. One more publisher, at "
        f"{outcome.host}, sent a burst of {plan.burst.publications:,} publications, {plan.burst_rate:g} per second, "
        f"which clients of every cluster wanted. Two links of {outcome.host} were slow. Then {outcome.dead} was "
        "killed. The same workload was played under static and dynamic routing, which are the paper's algorithms, and "
        f"under adaptive routing, the default of a network. {_verdict(outcome)}"
    )


def _verdict(outcome: Outcome) -> str:
    if not outcome.is_clean:
        return "The audit found faults: see below."
    return "Nothing arrived twice, and nothing is missing that an algorithm promises: every delivery was checked."


def _audit_row(side: Side) -> tuple[object, ...]:
    audit, missing = side.audit, side.missing
    kinds = (missing.gone, missing.cut_off, missing.unexplained, audit.unwanted, audit.duplicate)
    return side.run.algorithm, audit.owed, side.run.deliveries, *kinds


def _setting(outcome: Outcome) -> Iterator[tuple[str, str]]:
    plan, spec = outcome.plan, outcome.plan.workload
    scot = spec.scot()
    begin, end = plan.burst_s
    yield "overlay", f"{spec.tree}, {len(scot.regions)} regions x {scot.clusters} clusters: {len(scot.brokers)} brokers"
    yield "killed", f"{outcome.dead}, an inner broker, by SIGKILL, when everything before has arrived"
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


def _cpu_use(outcome: Outcome) -> Iterator[Block]:
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
            "The share of one CPU that the busiest processes used, the share of all CPUs that all of them "
            "used together, and the longest share of a second that one of them waited for a CPU. Samples are one "
            "second long."
        )
        yield Grid(header, rows, by_clock=True)
