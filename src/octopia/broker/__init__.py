"""The broker: a pure state machine, driven by the simulator and by the network runtime."""

from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import (
    Broker,
    Case,
    Counters,
    Decision,
    Delivered,
    Detail,
    Effects,
    Event,
    Fact,
    ForClients,
    Forward,
    LimitReached,
    LinkView,
    Loss,
    Placed,
    Routed,
    Told,
    Verdict,
)
from octopia.broker.state import BrokerSettings

__all__ = [
    "Broker",
    "BrokerSettings",
    "Case",
    "Counters",
    "Decision",
    "Delivered",
    "Detail",
    "Effects",
    "Event",
    "Fact",
    "ForClients",
    "Forward",
    "LimitReached",
    "Loss",
    "LinkView",
    "OctopiaBroker",
    "Placed",
    "Routed",
    "Told",
    "Verdict",
]
