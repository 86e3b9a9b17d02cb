"""Which class of broker runs an algorithm."""

from __future__ import annotations

from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import Broker
from octopia.broker.state import BrokerSettings
from octopia.matching import SCAN, MatcherFactory
from octopia.overlay.neighbourhood import Neighbourhood


def make_broker(
    neighbourhood: Neighbourhood,
    settings: BrokerSettings,
    incarnation: int = 1,
    matchers: MatcherFactory = SCAN,
) -> Broker:
    """Make the broker that runs the algorithm of ``settings``."""
    return OctopiaBroker(neighbourhood, settings, incarnation, matchers)
