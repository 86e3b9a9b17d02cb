"""The cost of failures: a broker that crashes and restarts, and a link that is cut and heals.

After a crash the broker restarts without memory and recovers from its neighbours. Its clients connect again and repeat
their requests, which are new requests to the cluster; the old ones are withdrawn. A link that is cut stays so until
both ends have noticed; nothing else changes, so the exchange finds nothing to repair.

TID-based routing, as the paper describes it, has no exchange of state, so its rows are by formula: the entries that the
broker held, each sent once more, which is the least that any repair costs. A flood keeps no state about others.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator

from octopia.broker import Detail
from octopia.experiments.scale.formulas import CrashCounts, count_crash, shape_of
from octopia.experiments.scale.names import Fault, Source, System
from octopia.experiments.scale.rows import CheckRow, FailureRow
from octopia.experiments.scale.workload import Point, Workload
from octopia.experiments.scale.worlds import MeteredWorld, advertise, make_metered_world, make_world, sent, subscribe
from octopia.ids import BrokerId
from octopia.protocol import MessageKind

_DOWN_MS = 1000.0
"""The time for which a crashed broker is down."""


def simulate_failures(point: Point, system: System) -> tuple[list[FailureRow], list[CheckRow]]:
    """Return one row per fault, and its totals beside their formulas; all happen one after the other in one world."""
    workload = Workload(point)
    if system is System.TID:
        return list(_tid_losses(workload)), []
    world = make_metered_world(workload, system)
    advertise(world, workload)
    subscribe(world, workload)
    rows = [_strike(world, workload, system, fault) for fault in Fault]
    return rows, [check for row in rows for check in _checks(workload, row)]


def _checks(workload: Workload, row: FailureRow) -> Iterator[CheckRow]:
    expected = CrashCounts(0, 0, 0)
    if row.fault in (Fault.INNER_CRASH, Fault.EDGE_CRASH):
        broker, _ = places(workload, row.fault)
        alinks = len(workload.scot.tree.adjacency()[broker.region])
        expected = count_crash(shape_of(workload), alinks, row.prt_entries, row.local_subscriptions)
    for field in dataclasses.fields(CrashCounts):
        yield CheckRow(
            series=row.series,
            tree=row.tree,
            clusters=row.clusters,
            subscriptions=row.subscriptions,
            system=row.system,
            quantity=f"{field.name.replace('_', ' ')}, {row.fault}",
            formula=getattr(expected, field.name),
            simulated=getattr(row, field.name),
        )


def places(workload: Workload, fault: Fault) -> tuple[BrokerId, BrokerId]:
    """Return the broker that crashes with a neighbour, or both ends of the link that is cut.

    Inner faults are where most links meet: at the region with the most neighbours.
    """
    adjacency = workload.scot.tree.adjacency()
    inner = max(adjacency, key=lambda region: (len(adjacency[region]), region))
    edge = min(adjacency, key=lambda region: (len(adjacency[region]), region))
    match fault:
        case Fault.EDGE_CRASH:
            return BrokerId(edge, 0), BrokerId(adjacency[edge][0], 0)
        case Fault.INNER_CRASH | Fault.ALINK_CUT:
            return BrokerId(inner, 0), BrokerId(adjacency[inner][0], 0)
        case Fault.ILINK_CUT:
            return BrokerId(inner, 0), BrokerId(inner, 1)


def _strike(world: MeteredWorld, workload: Workload, system: System, fault: Fault) -> FailureRow:
    one, other = places(workload, fault)
    broker = world.broker(one)
    assert broker is not None
    prt_entries = broker.table_sizes()["prt"]
    before, before_bytes, begin_s = sent(world), world.bytes, time.process_time()
    if fault in (Fault.INNER_CRASH, Fault.EDGE_CRASH):
        repair_ms = _crash(world, workload, one)
        local = sum(interest.host == one for interest in workload.interests)
    else:
        repair_ms, local = _cut(world, one, other), 0
    total = sent(world) - before
    return _row(
        workload,
        system,
        fault,
        total,
        prt_entries=prt_entries,
        local=local,
        source=Source.SIMULATED,
        size_bytes=world.bytes - before_bytes,
        repair_ms=repair_ms,
        seconds=time.process_time() - begin_s,
    )


def _crash(world: MeteredWorld, workload: Workload, broker: BrokerId) -> float:
    """Crash and restart a broker; return the virtual time until it routes publications again."""
    world.crash(broker)
    _pass_time(world, _DOWN_MS)
    world.restart(broker)
    restarted_ms = world.agenda.now_ms
    world.attach(str(broker), broker)
    node = world.node(broker)
    assert node is not None
    _run_until(world, lambda: node.broker.accepts_data)
    repair_ms = world.agenda.now_ms - restarted_ms
    advertise(world, workload, only=broker)
    subscribe(world, workload, only=broker)
    return repair_ms


def _cut(world: MeteredWorld, one: BrokerId, other: BrokerId) -> float:
    """Cut a link until both ends have noticed, and heal it; return the virtual time until all is quiet."""
    world.cut(one, other)
    world.run()
    world.heal(one, other)
    healed_ms = world.agenda.now_ms
    world.run()
    return world.agenda.now_ms - healed_ms


def _pass_time(world: MeteredWorld, ms: float) -> None:
    until_ms = world.agenda.now_ms + ms
    _run_until(world, lambda: world.agenda.now_ms >= until_ms)


def _run_until(world: MeteredWorld, is_over: Callable[[], bool]) -> None:
    while not is_over():
        world.agenda.step()


def _tid_losses(workload: Workload) -> Iterator[FailureRow]:
    """Yield, for each crash, the entries that a TID broker loses; a cut loses none."""
    world = make_world(workload, System.TID, [], Detail.OFF)
    advertise(world, workload)
    subscribe(world, workload)
    for fault in (Fault.INNER_CRASH, Fault.EDGE_CRASH):
        broker, _ = places(workload, fault)
        sizes = world.brokers[broker].table_sizes()
        local = sum(interest.host == broker for interest in workload.interests)
        lost = Counter({MessageKind.ADVERTISEMENT: sizes["srt"], MessageKind.SUBSCRIPTION: sizes["prt"]})
        yield _row(workload, System.TID, fault, lost, prt_entries=sizes["prt"], local=local, source=Source.FORMULA)


def _row(
    workload: Workload,
    system: System,
    fault: Fault,
    total: Counter[MessageKind],
    *,
    prt_entries: int,
    local: int,
    source: Source,
    size_bytes: int | None = None,
    repair_ms: float | None = None,
    seconds: float | None = None,
) -> FailureRow:
    point, shape = workload.point, shape_of(workload)
    named = (MessageKind.SYNC, MessageKind.SUBSCRIPTION, MessageKind.UNSUBSCRIPTION, MessageKind.GAP)
    return FailureRow(
        series=point.series,
        tree=point.tree,
        regions=shape.regions,
        clusters=shape.clusters,
        brokers=shape.brokers,
        subscriptions=point.subscriptions,
        system=system,
        source=source,
        fault=fault,
        prt_entries=prt_entries,
        local_subscriptions=local,
        exchange_messages=total[MessageKind.SYNC],
        subscription_messages=total[MessageKind.SUBSCRIPTION],
        unsubscription_messages=total[MessageKind.UNSUBSCRIPTION],
        gap_messages=total[MessageKind.GAP],
        other_messages=sum(count for kind, count in total.items() if kind not in named),
        messages=sum(total.values()),
        bytes=size_bytes,
        repair_ms=repair_ms,
        seconds=seconds,
    )
