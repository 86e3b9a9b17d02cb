"""The broker class of each routing algorithm, and its hop limit."""

from __future__ import annotations

from octopia.broker.common import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import Broker
from octopia.matching import INDEX, MatcherFactory
from octopia.overlay import Scot
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.settings import Algorithm
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
