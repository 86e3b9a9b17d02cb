"""Rows of the paper's evaluation with fields that do not matter to a test filled in."""

from typing import Any

from octopia.experiments.paper.names import Contender, Model, System
from octopia.experiments.paper.rows import (
    BoundRow,
    BurstRow,
    DeliveryRow,
    PublisherRow,
    SequenceRow,
    SubscriberRow,
)
from octopia.pipeline.spec import HostKind

OCTOPIA, TID = System.OCTOPIA, System.TID
STATIC, DYNAMIC, ADAPTIVE, TID_STATIC, TID_DYNAMIC, TID_DYNAMIC_PER_HOP = Contender
PAPER = (STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC)


def publishers(count: int, system: System, **fields: Any) -> PublisherRow:
    given = {
        "model": Model.LINKS,
        "seed": 1,
        "advertisements": count,
        "advertisement_delay_ms": 1.0,
        "table_size_mean": 1.0,
        "advertisement_messages": 1,
        "confirmation_messages": 0,
        "duplicate_share": 0.0,
    }
    return PublisherRow(publishers=count, system=system, **given | fields)


def subscribers(count: int, system: System, **fields: Any) -> SubscriberRow:
    given = {
        "model": Model.LINKS,
        "seed": 1,
        "subscriptions": count,
        "subscription_delay_ms": 2.0,
        "prt_size_mean": 10.0,
        "prt_subscriptions_mean": 10.0,
        "subscription_messages": 100,
        "confirmation_messages": 0,
    }
    return SubscriberRow(subscribers=count, system=system, **given | fields)


def delivery(count: int, algorithm: Contender, **fields: Any) -> DeliveryRow:
    given = {
        "model": Model.LINKS,
        "seed": 1,
        "publications": 10_000,
        "deliveries": 10,
        "publication_delay_ms": 1.0,
        "path_length_mean": 3.5,
        "publication_messages": 100,
    }
    return DeliveryRow(subscribers=count, algorithm=algorithm, **given | fields)


def burst(algorithm: Contender, delay_ms: float = 1.0, stable_ms: float | None = None, **fields: Any) -> BurstRow:
    given = {
        "rate_per_minute": 100_000,
        "model": Model.LINKS,
        "host": HostKind.EDGE,
        "seed": 1,
        "publications": 150_000,
        "deliveries": 10,
        "share_below_1s": 0.8,
        "publications_below_1s": 0.48,
        "burst_deliveries": 5,
        "burst_delay_ms": delay_ms,
        "burst_share_below_1s": 0.1,
        "burst_publications_below_1s": 0.05,
        "burst_late_ms": stable_ms or 0.0,
        "queue_length_mean": 1.0,
        "target_queue_length_mean": 10.0,
        "publication_messages": 10_000,
        "shrinking_ms": 65_000.0,
        "seconds": 1.0,
    }
    return BurstRow(algorithm=algorithm, publication_delay_ms=delay_ms, stable_ms=stable_ms, **given | fields)


def sequence(algorithm: Contender, number: int, delay_ms: float, time_ms: float, **fields: Any) -> SequenceRow:
    given = {"rate_per_minute": 100_000, "model": Model.LINKS, "host": HostKind.EDGE, "seed": 1}
    return SequenceRow(algorithm=algorithm, sequence=number, delay_ms_max=delay_ms, time_ms=time_ms, **given | fields)


def bound(one_path_ms: float, any_path_ms: float, **fields: Any) -> BoundRow:
    given = {"rate_per_minute": 100_000, "model": Model.LINKS, "host": HostKind.EDGE, "seed": 1}
    return BoundRow(one_path_ms=one_path_ms, any_path_ms=any_path_ms, **given | fields)
