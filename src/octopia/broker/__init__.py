"""The broker: a pure state machine that simulator and network drive alike."""

from octopia.broker.civ import ClusterIndexVector
from octopia.broker.core import OctopiaBroker
from octopia.broker.factory import hop_limit_of, make_broker
from octopia.broker.interface import (
    ALL_CLASSES,
    CONTROL_ONLY,
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
    Overflow,
    Placed,
    Routed,
    Verdict,
)
from octopia.broker.kinds import MessageKind
from octopia.broker.state import BrokerSettings

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
    "hop_limit_of",
    "make_broker",
]
