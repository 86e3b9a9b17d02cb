"""Checks of all deliveries of a run, independent of routing.

``Ledger`` records the actions of clients, and the moments when everything had settled. From that it computes which
subscriptions must have received a publication, and which may have: a request that was still in progress when a
publication was made allows both answers. While a link is cut or a broker is down, publications stay under way. One that
is not delivered in the end is an error, unless its subscriber was told of a loss after it was made: without a notice,
no delivery may be missing. The ledger evaluates filters directly and shares no code with routing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from octopia.content import Disjunction, Publication, conforms, matches
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.simulator.record import Hop, Recorder


@dataclasses.dataclass(slots=True)
class _Issued:
    """An advertisement or subscription and the period in which it was in force; times count settled states.

    A publication was under way from ``begin`` to ``end``. It may reach a subscription that was in force at any time in
    between. It must reach one that was in force all the time, or since a confirmation before it was made. Subscriptions
    at a crashed broker are out of force until they are issued again.
    """

    client: str
    filter: Disjunction
    is_subscription: bool
    since: int
    since_ms: float
    until: int | None = None
    until_ms: float | None = None
    confirmed_ms: float | None = None
    last_outage: int | None = None

    def was_issued_at(self, made_ms: float) -> bool:
        return self.since_ms <= made_ms and (self.until_ms is None or self.until_ms >= made_ms)

    def may_hold(self, begin: int, end: int) -> bool:
        return self.since <= end and (self.until is None or self.until >= begin)

    def must_hold(self, begin: int, end: int, made_ms: float) -> bool:
        settled = self.since < begin and (self.last_outage is None or self.last_outage < begin)
        confirmed = self.confirmed_ms is not None and self.confirmed_ms <= made_ms
        interrupted = self.last_outage is not None and self.last_outage >= begin and not confirmed
        return (settled or confirmed) and not interrupted and (self.until is None or self.until > end)


@dataclasses.dataclass(slots=True)
class _Published:
    """A publication, under way from ``begin`` to ``end``; one that its client could not send has ``failed``."""

    client: str
    publication: Publication
    made_ms: float
    begin: int
    end: int | None = None
    failed: bool = False


class Ledger:
    """The actions of clients, in order."""

    def __init__(self) -> None:
        self._time = 0
        self._issued: dict[str, _Issued] = {}
        self._published: dict[int, _Published] = {}
        self._under_way: list[_Published] = []
        self._cuts: dict[tuple[BrokerId, ...], None] = {}
        self._crashed: dict[object, None] = {}
        self._told_ms: dict[str, float] = {}

    def settle(self) -> None:
        """Record that everything so far has taken effect, except over cut links and at brokers that are down."""
        if not self._cuts and not self._crashed:
            for made in self._under_way:
                made.end = self._time
            self._under_way.clear()
        self._time += 1

    def cut(self, link: tuple[BrokerId, ...]) -> None:
        """Record that a link was cut."""
        self._cuts[link] = None

    def healed(self, link: tuple[BrokerId, ...]) -> None:
        """Record that a link was healed."""
        self._cuts.pop(link, None)

    def crashed(self, broker: object, clients: list[str]) -> None:
        """Record that a broker and its clients' connections crashed."""
        self._crashed[broker] = None
        self._interrupt(clients)

    def restarted(self, broker: object, clients: list[str]) -> None:
        """Record that a broker was restarted."""
        self._crashed.pop(broker, None)
        self._interrupt(clients)

    def _interrupt(self, clients: list[str]) -> None:
        for issued in self._issued.values():
            if issued.client in clients:
                issued.last_outage = self._time
                issued.confirmed_ms = None

    def told(self, client: str, now_ms: float) -> None:
        """Record that a client was told of a loss: it may miss whatever was published before."""
        self._told_ms[client] = now_ms

    def cut_off(self, client: str, now_ms: float) -> None:
        """Record that a client was told that it is too slow, and has lost its connection and all that it issued."""
        self.told(client, now_ms)
        for issued in self._issued.values():
            if issued.client == client and issued.until is None:
                issued.until, issued.until_ms = self._time, now_ms

    def confirmed(self, name: str, now_ms: float) -> None:
        """Record that a subscription was confirmed to its client."""
        self._issued[name].confirmed_ms = now_ms

    def advertised(self, name: str, client: str, offer: Disjunction, now_ms: float) -> None:
        """Record an advertisement."""
        self._issued[name] = _Issued(client, offer, is_subscription=False, since=self._time, since_ms=now_ms)

    def subscribed(self, name: str, client: str, interest: Disjunction, now_ms: float) -> None:
        """Record a subscription."""
        self._issued[name] = _Issued(client, interest, is_subscription=True, since=self._time, since_ms=now_ms)

    def unadvertised(self, name: str, client: str, now_ms: float) -> None:
        """Record the withdrawal of an advertisement; ignored if the client does not have it."""
        self._withdraw(name, client, now_ms, is_subscription=False)

    def unsubscribed(self, name: str, client: str, now_ms: float) -> None:
        """Record the withdrawal of a subscription; ignored if the client does not have it."""
        self._withdraw(name, client, now_ms, is_subscription=True)

    def _withdraw(self, name: str, client: str, now_ms: float, *, is_subscription: bool) -> None:
        issued = self._issued.get(name)
        if issued is None or issued.client != client or issued.is_subscription != is_subscription:
            return
        if issued.until is None:
            issued.until = self._time
            issued.until_ms = now_ms

    def published(self, number: int, client: str, publication: Publication, now_ms: float) -> None:
        """Record a publication."""
        made = self._published[number] = _Published(client, publication, now_ms, self._time)
        self._under_way.append(made)

    def failed(self, number: int, client: str, publication: Publication, now_ms: float) -> None:
        """Record a publication that its client could not send."""
        self._published[number] = _Published(client, publication, now_ms, self._time, self._time, failed=True)

    @property
    def under_way(self) -> list[int]:
        """The numbers of the publications still under way, because a link is cut or a broker is down."""
        return [number for number, made in self._published.items() if made.end is None]

    @property
    def faults(self) -> list[str]:
        """The faults that last, as text: cut links and brokers that are down."""
        cuts = [f"{'-'.join(map(str, link))} is cut" for link in self._cuts]
        return [*cuts, *(f"{each} is down" for each in self._crashed)]

    def subscriber(self, name: str) -> str:
        """Return the client of a subscription."""
        return self._issued[name].client

    @property
    def attempted(self) -> int:
        """The number of attempted publications."""
        return len(self._published)

    def publication(self, number: int) -> tuple[str, Publication]:
        """Return a publication and the client that made it."""
        made = self._published[number]
        return made.client, made.publication

    def offers_at(self, number: int) -> list[tuple[str, Disjunction]]:
        """Return the publisher's advertisements at the time of a publication."""
        made = self._published[number]
        issued = self._issued.items()
        own = [(name, each) for name, each in issued if each.client == made.client and not each.is_subscription]
        return [(name, each.filter) for name, each in own if each.may_hold(made.begin, made.begin)]

    def subscriptions_at(self, number: int) -> list[tuple[str, Disjunction, bool]]:
        """Return all subscriptions, each with whether it was in force at the time of a publication."""
        made = self._published[number]
        issued = [(name, each) for name, each in self._issued.items() if each.is_subscription]
        return [(name, each.filter, each.was_issued_at(made.made_ms)) for name, each in issued]

    def complaints(self, recorder: Recorder, *, may_miss: bool = False) -> list[str]:
        """Return a sentence for every wrong or missing delivery; with ``may_miss``, missing ones are allowed."""
        return list(self._delivery_complaints(recorder, may_miss))

    def expected(self, number: int) -> tuple[list[str], list[str]]:
        """Return the subscriptions that must have received a publication, and those that may have."""
        made = self._published[number]
        own = [each for each in self._issued.values() if each.client == made.client and not each.is_subscription]
        offers = [each for each in own if conforms(each.filter, made.publication)]
        begin, end = made.begin, self._end(made)
        may_pass = any(each.may_hold(begin, begin) for each in offers)
        # A publication that is still under way need not have arrived.
        is_certain = made.end is not None and not made.failed
        must_pass = is_certain and any(each.must_hold(begin, begin, made.made_ms) for each in offers)
        interested = [
            (name, issued)
            for name, issued in self._issued.items()
            if issued.is_subscription and matches(issued.filter, made.publication)
        ]
        must = [name for name, issued in interested if must_pass and issued.must_hold(begin, end, made.made_ms)]
        may = [name for name, issued in interested if may_pass and issued.may_hold(begin, end)]
        return must, may

    def _end(self, made: _Published) -> int:
        return self._time if made.end is None else made.end

    def _delivery_complaints(self, recorder: Recorder, may_miss: bool) -> Iterator[str]:
        received: dict[int, list[str]] = {number: [] for number in self._published}
        for delivery in recorder.deliveries:
            received[delivery.publication].append(delivery.subscription)
            if self._issued[delivery.subscription].client != delivery.client:
                yield f"publication {delivery.publication} reached {delivery.client} for another client's subscription"
        for number, names in received.items():
            must, may = self.expected(number)
            made_ms = self._published[number].made_ms
            unheard = [] if may_miss else [name for name in must if self._told_after(name) < made_ms]
            yield from _differences(number, names, unheard, may)

    def _told_after(self, name: str) -> float:
        """Return when the client of a subscription was last told of a loss."""
        return self._told_ms.get(self._issued[name].client, float("-inf"))


def _differences(number: int, received: list[str], must: list[str], may: list[str]) -> Iterator[str]:
    once = dict.fromkeys(received)
    for name in once:
        if received.count(name) > 1:
            yield f"publication {number} was delivered {received.count(name)} times to {name}"
        if name not in may:
            yield f"publication {number} was delivered to {name}, which does not want it"
    for name in must:
        if name not in once:
            yield f"publication {number} was not delivered to {name}, which wants it and was told of no loss"


def journey_complaints(hops: list[Hop], scot: Scot) -> Iterator[str]:
    """Yield a sentence for every loop, every cluster entered twice, and every path that is too long."""
    journeys: dict[int, list[Hop]] = {}
    for hop in hops:
        if hop.publication is not None:
            journeys.setdefault(hop.publication, []).append(hop)
    for number, journey in journeys.items():
        yield from _journey_complaints(number, journey, scot)


def _journey_complaints(number: int, journey: list[Hop], scot: Scot) -> Iterator[str]:
    start = journey[0].sender
    distance = {start: 0}
    entered = {BrokerId.parse(start).cluster: start}
    for hop in journey:
        sender, receiver = BrokerId.parse(hop.sender), BrokerId.parse(hop.receiver)
        if hop.receiver in distance:
            yield f"publication {number} reached {hop.receiver} twice, the second time from {hop.sender}"
            continue
        distance[hop.receiver] = distance[hop.sender] + 1
        if distance[hop.receiver] > scot.hop_bound:
            yield f"publication {number} took {distance[hop.receiver]} hops to {hop.receiver}, more than allowed"
        if sender.cluster != receiver.cluster:
            if receiver.cluster in entered:
                yield f"publication {number} entered cluster {receiver.cluster} twice, again at {hop.receiver}"
            entered[receiver.cluster] = hop.receiver
