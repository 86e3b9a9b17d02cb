"""The records of a run: deliveries, hops, refusals, and the trace.

This module has two observers of a world. ``Recorder`` collects the results of a run; ``Tracer`` writes the rows of the
trace. Both use the scenario's names: publications are numbers, subscriptions have the names from the file. ``Names``
translates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from octopia.broker.interface import Broker, Delivered, Detail, Event, Fact, Routed
from octopia.broker.numbered import Kept
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, PublicationId, SubscriptionId
from octopia.protocol import Cause, MessageKind
from octopia.protocol.messages import ClientReply, CutOff, Deliver, Gap, Publish, Refused
from octopia.simulator.profiles import Profile
from octopia.trace import DISTINCT_SUBSCRIPTIONS, Deliveries, Recipients, Row, TraceSink

MessageId: TypeAlias = AdvertisementId | SubscriptionId | PublicationId

_TOLD = 65_536
"""The maximum number of sets of subscriptions, over all brokers, whose names are cached."""


class Names:
    """The scenario's names for the ids and handles of brokers."""

    def __init__(self) -> None:
        self._publications: dict[PublicationId, int] = {}
        self._issued: dict[tuple[str, int], str] = {}
        self._by_id: dict[AdvertisementId | SubscriptionId, str] = {}
        self._owners: dict[AdvertisementId | SubscriptionId, str] = {}
        self._told: Kept[tuple[SubscriptionId, ...], Recipients] = Kept(_TOLD)

    def name(self, client: str, handle: int, text: str) -> None:
        """Store the name of a client's handle."""
        self._issued[client, handle] = text

    def issued(self, client: str, handle: int) -> str:
        """Return the name of a client's handle."""
        return self._issued[client, handle]

    def learn(self, client: ClientId, named: MessageId, number: int) -> None:
        """Store the id that a broker gave to a client's ``number``, its handle or its sequence."""
        if isinstance(named, PublicationId):
            self._publications[named] = number
        else:
            self._by_id[named] = self._issued[client.name, number]
            self._owners[named] = client.name

    def known_as(self, named: AdvertisementId | SubscriptionId) -> str:
        """Return the scenario's name for an advertisement or subscription."""
        return self._by_id[named]

    def recipients(self, named: tuple[SubscriptionId, ...]) -> Recipients:
        """Return the scenario's names for subscriptions, and their clients."""
        return self._told.of(named, self._tell)

    def _tell(self, named: tuple[SubscriptionId, ...]) -> Recipients:
        owners, names = self._owners, self._by_id
        return Recipients(tuple([owners[each] for each in named]), tuple([names[each] for each in named]))

    def publication(self, publication: PublicationId) -> int:
        """Return the number of a publication."""
        return self._publications[publication]


class Delivery(msgspec.Struct, frozen=True):
    """A publication delivered to a client for one of its subscriptions; ``path`` runs from host to deliverer."""

    publication: int
    client: str
    subscription: str
    path: tuple[str, ...]
    delay_ms: float


class Hop(msgspec.Struct, frozen=True, rename={"sender": "from", "receiver": "to"}):
    """A message between two brokers; ``publication`` is None for control, ``civ`` for all but rerouted copies.

    ``carries`` has the clusters that a copy carries over each tree edge under adaptive routing, as bits per region.
    """

    kind: str
    publication: int | None
    sender: str
    receiver: str
    civ: str | None
    carries: dict[str, str] | None = None

    def __str__(self) -> str:
        """Return the hop as the worked examples have it: ``b.3>b.1[0001]``, or ``b.3>b.1[0000 c:1010]``."""
        header = " ".join(each for each in (self.civ, _carries_text(self.carries)) if each)
        return f"{self.sender}>{self.receiver}" + (f"[{header}]" if header else "")


class Refusal(msgspec.Struct, frozen=True):
    """A refused request; ``publication`` is None for other requests."""

    publication: int | None
    client: str
    reason: str


class ToldGap(msgspec.Struct, frozen=True):
    """A notice to a client that it may have missed publications; a ``count`` of 0 is unknown."""

    client: str
    cause: Cause
    count: int
    at_ms: float


@dataclasses.dataclass(slots=True)
class Recorder:
    """A collector of deliveries, hops, refusals and gaps; paths are known if brokers trace hops.

    Without ``keep``, for very large runs, it only learns names.
    """

    names: Names
    keep: bool = True
    deliveries: list[Delivery] = dataclasses.field(default_factory=list)
    hops: list[Hop] = dataclasses.field(default_factory=list)
    refused: list[Refusal] = dataclasses.field(default_factory=list)
    gaps: list[ToldGap] = dataclasses.field(default_factory=list)
    _came_from: dict[tuple[PublicationId, BrokerId, int], BrokerId] = dataclasses.field(default_factory=dict)

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Record hops and the origin of publications."""
        if isinstance(fact, Routed):
            return
        if fact.event is Event.SEND:
            if self.keep:
                self.hops.append(self._hop(broker.id, fact))
        elif fact.event is Event.RECEIVE and fact.message_id is not None:
            if isinstance(fact.peer, ClientId):
                self.names.learn(fact.peer, fact.message_id, int(fact.value or 0))
            elif self.keep and isinstance(fact.peer, BrokerId) and isinstance(fact.message_id, PublicationId):
                self._came_from[fact.message_id, broker.id, fact.hop or 0] = fact.peer

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Record deliveries and refusals."""
        match reply:
            case Deliver():
                if not self.keep:
                    return
                path = self._path(reply, broker)
                number = self.names.publication(reply.id)
                delay_ms = now_ms - reply.published_ms
                for handle in reply.handles:
                    subscription = self.names.issued(client, handle)
                    self.deliveries.append(Delivery(number, client, subscription, path, delay_ms))
            case Refused():
                self.refused.append(self._refusal(client, reply))
            case CutOff():
                reason = f"it was too slow and was cut off: {reply.lost} deliveries were lost"
                self.refused.append(Refusal(None, client, reason))
            case Gap():
                self.gaps.append(ToldGap(client, reply.cause, reply.count, now_ms))
            case _:
                pass

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Do nothing: runs in which brokers deliver to all clients at once keep no results in memory."""

    def _refusal(self, client: str, reply: Refused) -> Refusal:
        if reply.request == MessageKind.PUBLICATION:
            return Refusal(reply.number, client, reply.reason)
        return Refusal(None, client, f"{reply.request} of {self.names.issued(client, reply.number)}: {reply.reason}")

    def _hop(self, broker: BrokerId, fact: Fact) -> Hop:
        publication = self.names.publication(fact.message_id) if isinstance(fact.message_id, PublicationId) else None
        civ = None if fact.publication_civ is None else str(fact.publication_civ)
        return Hop(str(fact.kind), publication, str(broker), str(fact.peer), civ, _carries(fact))

    def _path(self, delivery: Deliver, deliverer: BrokerId) -> tuple[str, ...]:
        """Return the path, hop by hop from the end: a copy that came round in a loop has a higher hop count."""
        path = [deliverer]
        for hop in range(delivery.hop, 0, -1):
            previous = self._came_from.get((delivery.id, path[-1], hop))
            if previous is None:
                break
            path.append(previous)
        return tuple(str(broker) for broker in reversed(path))


@dataclasses.dataclass(slots=True)
class Tracer:
    """A writer of trace rows. In virtual time, matching and path selection take the time that the profile says.

    A trace ``for_audit`` records all requests of clients at any level, and ends with totals: everything that an audit
    needs.
    """

    names: Names
    run_id: str
    algorithm: str
    profile: Profile
    sinks: Sequence[TraceSink]
    level: Detail = Detail.ALL
    for_audit: bool = False
    _places: dict[BrokerId, str] = dataclasses.field(default_factory=dict)
    """The names of brokers with deliveries."""

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Write a row for a fact of a broker, if the trace level includes it."""
        if isinstance(fact, Routed) or (self.level < Detail.HOPS and not self._is_told(fact)):
            return
        row = self._row(fact.event, str(broker.id), now_ms)
        # A table fact has the table's name as its reason, since it has no other field for it.
        row.kind = fact.reason if fact.event is Event.TABLE else _text(fact.kind)
        row.message_id = _text(fact.message_id)
        row.peer = _text(fact.peer)
        row.link = _text(fact.link)
        row.client = fact.peer.name if isinstance(fact.peer, ClientId) else None
        row.civ = _text(fact.publication_civ)
        row.carries = _carries_text(_carries(fact))
        row.queue_length = fact.queue_length
        row.hop = fact.hop
        row.published_ms = fact.published_ms
        self._fill_publication(row, fact)
        self._write(row)

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Write one row per subscription that a publication reached."""
        if not isinstance(reply, Deliver):
            return
        for handle in reply.handles:
            row = self._row(Event.DELIVER, str(broker), now_ms)
            row.kind = Publish.kind
            row.message_id = str(reply.id)
            row.publication = self.names.publication(reply.id)
            row.peer = row.client = client
            row.link = LinkKind.CLIENT
            row.subscription = self.names.issued(client, handle)
            row.hop = reply.hop
            row.published_ms = reply.published_ms
            self._write(row)

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Write one row per subscription that a publication reached, all of them together."""
        copy, place = delivered.copy, self._places.get(broker)
        if place is None:
            place = self._places[broker] = str(broker)
        batch = Deliveries(
            self.run_id,
            self.algorithm,
            place,
            self.names.publication(copy.id),
            copy.hop,
            copy.published_ms,
            now_ms,
            self.names.recipients(delivered.subscriptions),
        )
        for sink in self.sinks:
            sink.deliver(batch)

    def sample(self, brokers: Iterable[Broker], now_ms: float) -> None:
        """Write one row per queue to a neighbour that is not empty."""
        for broker in brokers:
            for peer, status in broker.link_status_table(now_ms).items():
                if status.queue_length:
                    row = self._row(Event.WINDOW, str(broker.id), now_ms)
                    row.peer = str(peer)
                    row.link = LinkKind.ALINK if peer.cluster == broker.id.cluster else LinkKind.ILINK
                    row.queue_length = status.queue_length
                    row.value = (1 + status.entered) / (1 + status.left)
                    self._write(row)

    def finish(self, brokers: Iterable[Broker], now_ms: float) -> None:
        """Write the totals that an audit needs and the rows do not contain: sizes of tables, messages by kind."""
        for broker in brokers if self.for_audit else ():
            if self.level < Detail.ALL:
                for table, size in broker.table_sizes().items():
                    self._write_total(Event.TABLE, broker, table, size, now_ms)
                self._write_total(Event.TABLE, broker, DISTINCT_SUBSCRIPTIONS, broker.subscriptions_searched, now_ms)
            if self.level < Detail.HOPS:
                for kind, count in broker.counters.sent.items():
                    self._write_total(Event.SEND, broker, kind.value, count, now_ms)

    def _write_total(self, event: Event, broker: Broker, kind: str, value: int, now_ms: float) -> None:
        if value:
            row = self._row(event, str(broker.id), now_ms)
            row.kind, row.value = kind, value
            self._write(row)

    def _is_told(self, fact: Fact) -> bool:
        """Return whether a trace of deliveries includes a fact."""
        if fact.event is Event.RECEIVE:
            return self.for_audit and fact.link is LinkKind.CLIENT
        return fact.event in _OF_DELIVERIES

    def _fill_publication(self, row: Row, fact: Fact) -> None:
        if isinstance(fact.message_id, PublicationId):
            row.publication = self.names.publication(fact.message_id)
            if fact.searched is not None:
                row.match_us = self.profile.matching_us(fact.searched)
                row.select_us = self.profile.select_us
        elif fact.event is Event.REFUSE and fact.kind is MessageKind.PUBLICATION:
            row.publication = int(fact.value or 0)
        if fact.event in (Event.WINDOW, Event.TABLE, Event.DROP):
            row.value = fact.value

    def _row(self, event: Event, broker: str, now_ms: float) -> Row:
        return Row(run_id=self.run_id, algorithm=self.algorithm, event=event.value, broker=broker, time_ms=now_ms)

    def _write(self, row: Row) -> None:
        for sink in self.sinks:
            sink.write(row)


_OF_DELIVERIES = (Event.DELIVER, Event.DROP, Event.REFUSE)
"""The events in a trace of deliveries; all other events concern the paths."""


def _carries(fact: Fact) -> dict[str, str] | None:
    """Return the clusters that a copy carries over tree edges, as bits per region, or None."""
    civ, detour = fact.publication_civ, fact.detour
    if detour is None or not detour.cross:
        return None
    width = civ.clusters if civ is not None else 0
    return {region: format(bits, f"0{width}b") for region, bits in detour.cross}


def _carries_text(carries: dict[str, str] | None) -> str | None:
    return None if carries is None else " ".join(f"{region}:{bits}" for region, bits in carries.items())


def _text(value: object) -> str | None:
    return None if value is None else str(value)
