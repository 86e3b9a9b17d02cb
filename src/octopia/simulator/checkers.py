"""Did everybody get what they should? Judged from outside, by evaluating filters directly.

``Ledger`` writes down what clients did, and when things had settled in between. From that alone it knows who must have
received a publication, and who may have: a request that was still on its way when a publication was made leaves both
answers open. It shares no code with routing.
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
    """An advertisement or subscription, with the times between which it was in force; times count settlings."""

    client: str
    filter: Disjunction
    is_subscription: bool
    since: int
    until: int | None = None

    def may_hold(self, time: int) -> bool:
        return self.since <= time and (self.until is None or self.until >= time)

    def must_hold(self, time: int) -> bool:
        return self.since < time and (self.until is None or self.until > time)


@dataclasses.dataclass(frozen=True, slots=True)
class _Published:
    client: str
    publication: Publication
    time: int


class Ledger:
    """What clients did, in order."""

    def __init__(self) -> None:
        self._time = 0
        self._issued: dict[str, _Issued] = {}
        self._published: dict[int, _Published] = {}

    def settle(self) -> None:
        """Note that everything before has had its effect."""
        self._time += 1

    def advertised(self, name: str, client: str, offer: Disjunction) -> None:
        """Note an advertisement."""
        self._issued[name] = _Issued(client, offer, is_subscription=False, since=self._time)

    def subscribed(self, name: str, client: str, interest: Disjunction) -> None:
        """Note a subscription."""
        self._issued[name] = _Issued(client, interest, is_subscription=True, since=self._time)

    def unadvertised(self, name: str, client: str) -> None:
        """Note that a client withdrew an advertisement; what it does not have, it cannot withdraw."""
        self._withdraw(name, client, is_subscription=False)

    def unsubscribed(self, name: str, client: str) -> None:
        """Note that a client withdrew a subscription; what it does not have, it cannot withdraw."""
        self._withdraw(name, client, is_subscription=True)

    def _withdraw(self, name: str, client: str, *, is_subscription: bool) -> None:
        issued = self._issued.get(name)
        if issued is None or issued.client != client or issued.is_subscription != is_subscription:
            return
        if issued.until is None:
            issued.until = self._time

    def published(self, number: int, client: str, publication: Publication) -> None:
        """Note a publication."""
        self._published[number] = _Published(client, publication, self._time)

    @property
    def attempted(self) -> int:
        """How many publications were attempted."""
        return len(self._published)

    def publication(self, number: int) -> tuple[str, Publication]:
        """Return a publication and the client that made it."""
        made = self._published[number]
        return made.client, made.publication

    def offers_at(self, number: int) -> list[tuple[str, Disjunction]]:
        """Return what the publisher of a publication had advertised when it made it."""
        made = self._published[number]
        issued = self._issued.items()
        own = [(name, each) for name, each in issued if each.client == made.client and not each.is_subscription]
        return [(name, each.filter) for name, each in own if each.may_hold(made.time)]

    def subscriptions_at(self, number: int) -> list[tuple[str, Disjunction, bool]]:
        """Return all subscriptions, and whether each could have been in force when a publication was made."""
        time = self._published[number].time
        issued = [(name, each) for name, each in self._issued.items() if each.is_subscription]
        return [(name, each.filter, each.may_hold(time)) for name, each in issued]

    def complaints(self, recorder: Recorder, scot: Scot) -> list[str]:
        """Return a sentence for everything that went wrong."""
        return [*self._delivery_complaints(recorder), *journey_complaints(recorder.hops, scot)]

    def expected(self, number: int) -> tuple[list[str], list[str]]:
        """Return the subscriptions that must have received a publication, and those that may have."""
        made = self._published[number]
        own = [each for each in self._issued.values() if each.client == made.client and not each.is_subscription]
        offers = [each for each in own if conforms(each.filter, made.publication)]
        may_pass = any(each.may_hold(made.time) for each in offers)
        must_pass = any(each.must_hold(made.time) for each in offers)
        interested = [
            (name, issued)
            for name, issued in self._issued.items()
            if issued.is_subscription and matches(issued.filter, made.publication)
        ]
        must = [name for name, issued in interested if must_pass and issued.must_hold(made.time)]
        may = [name for name, issued in interested if may_pass and issued.may_hold(made.time)]
        return must, may

    def _delivery_complaints(self, recorder: Recorder) -> Iterator[str]:
        received: dict[int, list[str]] = {number: [] for number in self._published}
        for delivery in recorder.deliveries:
            received[delivery.publication].append(delivery.subscription)
            if self._issued[delivery.subscription].client != delivery.client:
                yield f"publication {delivery.publication} reached {delivery.client} for somebody else's subscription"
        for number, names in received.items():
            must, may = self.expected(number)
            yield from _differences(number, names, must, may)


def _differences(number: int, received: list[str], must: list[str], may: list[str]) -> Iterator[str]:
    once = dict.fromkeys(received)
    for name in once:
        if received.count(name) > 1:
            yield f"publication {number} was delivered {received.count(name)} times to {name}"
        if name not in may:
            yield f"publication {number} was delivered to {name}, which does not want it"
    for name in must:
        if name not in once:
            yield f"publication {number} was not delivered to {name}, which wants it"


def journey_complaints(hops: list[Hop], scot: Scot) -> Iterator[str]:
    """Yield a sentence for every loop, every cluster entered twice, and every journey that is too long."""
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
            yield f"publication {number} came to {hop.receiver} twice, the second time from {hop.sender}"
            continue
        distance[hop.receiver] = distance[hop.sender] + 1
        if distance[hop.receiver] > scot.hop_bound:
            yield f"publication {number} took {distance[hop.receiver]} hops to {hop.receiver}, more than allowed"
        if sender.cluster != receiver.cluster:
            if receiver.cluster in entered:
                yield f"publication {number} entered cluster {receiver.cluster} at {hop.receiver} and before"
            entered[receiver.cluster] = hop.receiver
