"""The broker: a pure state machine that simulator and network drive alike."""

from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import (
    Broker,
    Case,
    Counters,
    Decision,
    Detail,
    Effects,
    Event,
    Fact,
    Forward,
    LinkView,
    Placed,
    Routed,
    Verdict,
)
from octopia.broker.state import BrokerSettings
from octopia.protocol import ALL_CLASSES, CONTROL_ONLY, ClusterIndexVector, MessageKind, Overflow

__all__ = [
    "ALL_CLASSES",
    "CONTROL_ONLY",
    "Broker",
    "BrokerSettings",
    "Case",
    "ClusterIndexVector",
    "Counters",
    "Decision",
    "Detail",
    "Effects",
    "Event",
    "Fact",
    "Forward",
    "LinkView",
    "MessageKind",
    "OctopiaBroker",
    "Overflow",
    "Placed",
    "Routed",
    "Verdict",
]
