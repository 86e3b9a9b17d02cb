"""One system at one size: a run of the simulator, or formulas where a run would not fit."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections import Counter

from octopia.broker import Broker, Delivered, Detail, Event, Fact, Routed
from octopia.experiments.scale.formulas import Counts, count, shape_of
from octopia.experiments.scale.names import Source, System
from octopia.experiments.scale.rows import CheckRow, GrowthRow
from octopia.experiments.scale.workload import Point, Workload
from octopia.experiments.scale.worlds import (
    PROFILE,
    advertise,
    make_world,
    memory_bytes,
    publish,
    sent,
    subscribe,
    tables,
)
from octopia.ids import BrokerId
from octopia.protocol import MessageKind
from octopia.protocol.messages import ClientReply


@dataclasses.dataclass(slots=True)
class Watch:
    """An observer of publications: the load of each link, and the delay and hops of each delivery."""

    copies: Counter[tuple[BrokerId, BrokerId]] = dataclasses.field(default_factory=Counter)
    delays_ms: list[float] = dataclasses.field(default_factory=list)
    hops: int = 0

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Count a copy that left over a link."""
        if isinstance(fact, Fact) and fact.event is Event.SEND and fact.kind is MessageKind.PUBLICATION:
            assert isinstance(fact.peer, BrokerId)
            self.copies[broker.id, fact.peer] += 1

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Ignore confirmations."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Record a publication that reached subscriptions of a broker's clients."""
        several = len(delivered.subscriptions)
        self.delays_ms += [now_ms - delivered.copy.published_ms] * several
        self.hops += delivered.copy.hop * several

    @property
    def p99_ms(self) -> float:
        """The delay that one delivery in a hundred exceeds."""
        return sorted(self.delays_ms)[len(self.delays_ms) * 99 // 100] if self.delays_ms else 0.0


def simulate(point: Point, system: System) -> tuple[GrowthRow, list[CheckRow]]:
    """Run a workload in the simulator; return its row, and each total beside its formula."""
    begin_s = time.process_time()
    workload, watch = Workload(point), Watch()
    expected = count(workload, system)
    world = make_world(workload, system, [watch], Detail.HOPS)
    advertise(world, workload)
    advertised = sent(world)
    gc.collect()
    before_bytes = memory_bytes()
    subscribe(world, workload)
    gc.collect()
    grown_bytes = memory_bytes() - before_bytes
    publish(world, workload)
    total, stored = sent(world), tables(world)
    found = Counts(
        advertisement_messages=total[MessageKind.ADVERTISEMENT],
        advertisement_entries=stored.advertisements,
        subscription_messages=total[MessageKind.SUBSCRIPTION],
        subscription_entries=stored.subscriptions,
        bit_messages=total[MessageKind.CIV_SET],
        publication_messages=total[MessageKind.PUBLICATION],
        false_positives=sum(each.false_positives for each in world.counters()),
        deliveries=len(watch.delays_ms),
        hops=watch.hops,
    )
    row = dataclasses.replace(
        _row(workload, system, found),
        source=Source.SIMULATED,
        confirmations_per_subscription=(total - advertised)[MessageKind.CONFIRMATION] / point.subscriptions,
        busiest_link=max(watch.copies.values(), default=0) / len(workload.events),
        delay_ms=sum(watch.delays_ms) / max(1, len(watch.delays_ms)),
        delay_ms_p99=watch.p99_ms,
        bytes_per_entry=grown_bytes / max(1, stored.subscriptions),
        memory_mib=memory_bytes(peak=True) / 2**20,
        seconds=time.process_time() - begin_s,
    )
    return row, _checks(point, system, expected, found)


def predict(point: Point, system: System) -> GrowthRow:
    """Return the row of a system by formulas alone; the delay is None, except under a flood without any load."""
    workload = Workload(point)
    row = _row(workload, system, count(workload, system))
    if system is not System.FLOOD:
        return row
    # A bound: each direction of a link carries one copy, except back to the broker that the first copy came from.
    each_ms = PROFILE.link_delay_ms + PROFILE.send_us / 1000
    return dataclasses.replace(row, busiest_link=1.0, delay_ms=2 * PROFILE.client_delay_ms + row.hops * each_ms)


def _row(workload: Workload, system: System, counts: Counts) -> GrowthRow:
    point, shape, events = workload.point, shape_of(workload), len(workload.events)
    messages = counts.publication_messages
    return GrowthRow(
        series=point.series,
        tree=point.tree,
        regions=shape.regions,
        clusters=shape.clusters,
        brokers=shape.brokers,
        links=shape.links,
        subscriptions=point.subscriptions,
        publishers=point.publishers,
        publishers_per_symbol=point.publishers_per_symbol,
        system=system,
        source=Source.FORMULA,
        messages_per_advertisement=counts.advertisement_messages / point.publishers,
        messages_per_subscription=counts.subscription_messages / point.subscriptions,
        bit_messages_per_subscription=counts.bit_messages / point.subscriptions,
        confirmations_per_subscription=None,
        advertisement_entries=counts.advertisement_entries / shape.brokers,
        subscription_entries=counts.subscription_entries / shape.brokers,
        messages_per_publication=None if messages is None else messages / events,
        false_positives_per_publication=counts.false_positives / events,
        deliveries_per_publication=counts.deliveries / events,
        hops=counts.hops / max(1, counts.deliveries),
        busiest_link=None,
        delay_ms=None,
        delay_ms_p99=None,
        bytes_per_entry=None,
        memory_mib=None,
        seconds=None,
    )


def _checks(point: Point, system: System, expected: Counts, found: Counts) -> list[CheckRow]:
    return [
        CheckRow(
            series=point.series,
            tree=point.tree,
            clusters=point.clusters,
            subscriptions=point.subscriptions,
            system=system,
            quantity=field.name.replace("_", " "),
            formula=getattr(expected, field.name),
            simulated=getattr(found, field.name),
        )
        for field in dataclasses.fields(Counts)
        if getattr(expected, field.name) is not None
    ]
