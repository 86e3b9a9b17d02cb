"""The numbers that claims compare and figures draw, each with the type of row that has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

from octopia.experiments.paper.rows import BurstRow, CostRow, DeliveryRow, PublisherRow, RunRow, SubscriberRow

C = TypeVar("C", bound=RunRow)


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[C]):
    """A number in every row of one table; none where a run has no such number."""

    row_type: type[C]
    value: Callable[[C], float | None]


ADVERTISEMENT_DELAY_MS = Column(PublisherRow, lambda row: row.advertisement_delay_ms)
ADVERTISEMENT_TABLE_SIZE = Column(PublisherRow, lambda row: row.table_size_mean)
ADVERTISEMENT_MESSAGES = Column(PublisherRow, lambda row: row.advertisement_messages)
SUBSCRIPTION_DELAY_MS = Column(SubscriberRow, lambda row: row.subscription_delay_ms)
PRT_SUBSCRIPTIONS = Column(SubscriberRow, lambda row: row.prt_subscriptions_mean)
PRT_SIZE = Column(SubscriberRow, lambda row: row.prt_size_mean)
SUBSCRIPTION_MESSAGES = Column(SubscriberRow, lambda row: row.subscription_messages)
PUBLICATION_DELAY_MS = Column(DeliveryRow, lambda row: row.publication_delay_ms)
PUBLICATION_MESSAGES = Column(DeliveryRow, lambda row: row.publication_messages)
MATCH_US = Column(CostRow, lambda row: row.match_us)
PATH_SELECTION_US = Column(CostRow, lambda row: row.path_selection_us)
BURST_DELAY_MS = Column(BurstRow, lambda row: row.publication_delay_ms)
BURST_OWN_DELAY_MS = Column(BurstRow, lambda row: row.burst_delay_ms)
BURST_MESSAGES = Column(BurstRow, lambda row: row.publication_messages)
BURST_SHARE_BELOW_1S = Column(BurstRow, lambda row: row.share_below_1s)
BURST_PUBLICATIONS_BELOW_1S = Column(BurstRow, lambda row: row.publications_below_1s)
BURST_OWN_PUBLICATIONS_BELOW_1S = Column(BurstRow, lambda row: row.burst_publications_below_1s)
BURST_QUEUE_LENGTH = Column(BurstRow, lambda row: row.queue_length_mean)
BURST_TARGET_QUEUE_LENGTH = Column(BurstRow, lambda row: row.target_queue_length_mean)
BURST_STABLE_MS = Column(BurstRow, lambda row: row.stable_ms)
BURST_OWN_STABLE_MS = Column(BurstRow, lambda row: row.burst_late_ms)
