"""The memory of one broker per PRT entry, measured in a process that holds nothing else.

Entries arrive as bytes and are decoded, as on the network, so that nothing is shared with a sender. The broker is a
leaf of its tree: it stores what its one neighbour sends, and passes nothing on. Under TID-based routing every
subscription is bound to one tree; one that is bound to several takes an entry for each, and shares the index.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from octopia.algorithms import make_broker
from octopia.broker import Broker, BrokerSettings
from octopia.content import Publication
from octopia.errors import InvariantBroken
from octopia.experiments.scale.names import Series, System
from octopia.experiments.scale.rows import MemoryRow
from octopia.experiments.scale.workload import Interest, Offer, Point, Workload
from octopia.experiments.scale.worlds import memory_bytes
from octopia.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, IndexSubscriptions, MatcherFactory
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.protocol import Frame
from octopia.protocol.messages import AdvertiseRequest, Message, Subscribe
from octopia.settings import RoutingSettings
from octopia.tid.messages import TidSubscribe
from octopia.wire import Reader, encode

_HERE, _NEIGHBOUR = BrokerId("a", 0), BrokerId("b", 0)
_PUBLISHER = ClientId("publisher")
_BATCH = 100
_MATCHES = 1000


class _KeptSubscriptions(IndexSubscriptions):
    """The index of a broker, kept to be measured."""

    made: ClassVar[list[IndexSubscriptions]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


def measure(system: System, entries: int) -> MemoryRow:
    """Fill the PRT of a broker, and measure what its entries take."""
    _KeptSubscriptions.made.clear()
    broker, to_message = _broker(system)
    frames = _Frames(entries, to_message)
    gc.collect()
    before_bytes, before_s = memory_bytes(), time.process_time()
    for batch in frames:
        broker.receive(_NEIGHBOUR, batch, 0.0)
        broker.take_all(_NEIGHBOUR, 0.0)
    used_s = time.process_time() - before_s - frames.encoding_s
    gc.collect()
    used_bytes = memory_bytes() - before_bytes
    if broker.table_sizes()["prt"] != entries:
        raise InvariantBroken(f"expected {entries} entries in the PRT, got {broker.table_sizes()['prt']}")
    return MemoryRow(
        system=system,
        entries=entries,
        bytes_per_entry=used_bytes / entries,
        index_bytes_per_entry=sum(each.size_bytes() for each in _KeptSubscriptions.made) / entries,
        wire_bytes=frames.size_bytes / entries,
        insert_us=used_s * 1e6 / entries,
        match_us=_match_us(_KeptSubscriptions.made[0], frames.workload),
    )


def _broker(system: System) -> tuple[Broker, Callable[[int, Interest], Message]]:
    """Return a broker, and the function that makes the message of its neighbour about a subscription."""
    neighbourhood = Neighbourhood(_HERE, (_NEIGHBOUR,), (), 1)
    settings = BrokerSettings(RoutingSettings(system.algorithm))
    broker = make_broker(neighbourhood, settings, 1, MatcherFactory(_KeptSubscriptions, INDEX.advertisements))
    broker.attach(_PUBLISHER, 0.0)
    broker.receive(_PUBLISHER, [AdvertiseRequest(0, Offer(_HERE, 0).filter(), False)], 0.0)
    broker.take_all(_NEIGHBOUR, 0.0)
    if system is System.TID:
        tid = AdvertisementId(_HERE, 1, 0)
        return broker, lambda number, interest: TidSubscribe(_id(number), interest.filter(), tid)
    return broker, lambda number, interest: Subscribe(_id(number), interest.filter())


def _id(number: int) -> SubscriptionId:
    return SubscriptionId(_NEIGHBOUR, 1, number)


class _Frames:
    """The messages about all subscriptions, in batches as a connection reads them."""

    def __init__(self, entries: int, to_message: Callable[[int, Interest], Message]):
        self.workload = Workload(
            Point(Series.SUBSCRIPTIONS, "path:2", 1, entries, publishers=100, publications=_MATCHES)
        )
        self.size_bytes = 0
        self.encoding_s = 0.0
        self._to_message = to_message

    def __iter__(self) -> Iterator[Sequence[Message]]:
        reader, interests = Reader(), self.workload.draw_interests()
        batch: list[bytes] = []
        begin_s = time.process_time()
        for number, interest in enumerate(interests):
            batch.append(encode(Frame(number, self._to_message(number, interest))))
            if len(batch) == _BATCH or number == self.workload.point.subscriptions - 1:
                data = b"".join(batch)
                batch.clear()
                self.size_bytes += len(data)
                self.encoding_s += time.process_time() - begin_s
                yield [item.message for item in reader.feed(data) if isinstance(item, Frame)]
                begin_s = time.process_time()


def _match_us(index: Any, workload: Workload) -> float:
    publications: list[Publication] = [workload.publication(each) for each in workload.events]
    for each in publications[:10]:
        index.match(each)
    begin_s = time.process_time()
    for each in publications:
        index.match(each)
    return (time.process_time() - begin_s) * 1e6 / len(publications)
