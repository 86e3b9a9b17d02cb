"""The broker class of each routing algorithm, its hop limit, and the contents of its tables for reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from octopia.broker import inspection
from octopia.broker.common import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.broker.inspection import KnownAdvertisement, KnownSubscription
from octopia.broker.interface import Broker, Detail
from octopia.content import Publication
from octopia.ids import ClientId
from octopia.matching import INDEX, MatcherFactory
from octopia.overlay import Scot
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.settings import Algorithm
from octopia.tid import inspection as tid_inspection
from octopia.tid.core import TidBroker


def hop_limit_of(scot: Scot, algorithm: Algorithm) -> int:
    """Return the largest legitimate hop count of an algorithm.

    For TID-based routing it is the longest tree that a flood can build. Under adaptive routing, a copy crosses at most
    2k + 1 iLinks in each region, and the links between regions.
    """
    if algorithm.is_tid:
        return len(scot.brokers)
    if algorithm is Algorithm.ADAPTIVE:
        return (2 * scot.clusters + 1) * (scot.diameter + 1) + scot.diameter
    return scot.hop_bound


def make_broker(
    neighbourhood: Neighbourhood,
    settings: BrokerSettings,
    incarnation: int = 1,
    matchers: MatcherFactory = INDEX,
    restarted_at_ms: float | None = None,
) -> Broker:
    """Return a broker that runs the algorithm of ``settings``; a restarted one recovers from its neighbours."""
    if settings.routing.algorithm.is_tid:
        return TidBroker(neighbourhood, settings, incarnation, matchers)
    return OctopiaBroker(neighbourhood, settings, incarnation, matchers, restarted_at_ms=restarted_at_ms)


def trace_at(broker: Broker, detail: Detail) -> Detail:
    """Change the detail of a broker's trace while it runs, and return the detail before."""
    if not isinstance(broker, OctopiaBroker | TidBroker):
        raise TypeError(f"expected a broker of a known algorithm, got {type(broker).__name__}")
    settings = broker.state.settings
    broker.state.settings = dataclasses.replace(settings, detail=detail)
    return settings.detail


class Inspection:
    """The contents of a broker's tables, for reports to people."""

    def __init__(self, broker: Broker):
        if not isinstance(broker, OctopiaBroker | TidBroker):
            raise TypeError(f"expected a broker of a known algorithm, got {type(broker).__name__}")
        self._broker = broker

    def subscriptions(self) -> Iterator[KnownSubscription]:
        """Yield the subscriptions that the broker knows."""
        if isinstance(self._broker, TidBroker):
            return tid_inspection.subscriptions_in(self._broker.state)
        return inspection.subscriptions_in(self._broker.state)

    def advertisements(self) -> Iterator[KnownAdvertisement]:
        """Yield the advertisements that the broker knows."""
        if isinstance(self._broker, TidBroker):
            return tid_inspection.advertisements_in(self._broker.state)
        return inspection.advertisements_in(self._broker.state)

    def is_wanted(self, publication: Publication) -> bool:
        """Return whether a subscription that the broker knows matches a publication."""
        if isinstance(self._broker, TidBroker):
            return tid_inspection.is_wanted(self._broker.state, publication)
        return inspection.is_wanted(self._broker.state, publication)

    def issued_by(self, client: ClientId) -> tuple[int, int]:
        """Return the numbers of advertisements and of subscriptions of a local client."""
        return inspection.issued_by(self._broker.state, client)

    @property
    def published(self) -> int:
        """The number of publications that the broker has accepted from its clients."""
        return self._broker.state.next_publication
