"""Markers of fields that are no part of a state, and the canonical form that leaves them out."""

from __future__ import annotations

import enum
from collections import deque

import msgspec

from octopia.broker import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.content import Publication
from octopia.ids import BrokerId
from octopia.link import LinkSettings, Session
from octopia.matching import SCAN
from octopia.node import Node, NodeSettings
from octopia.overlay import Scot, parse_tree
from octopia.protocol import Cause, Frame, Grant, Hello, Overflow
from octopia.protocol.messages import Data
from octopia.simulator.search.canonical import digest, fields_of, marks_of
from octopia.simulator.search.scenarios import advertise, publish, subscribe

A0 = BrokerId("a", 0)
VALUES = (enum.Enum, msgspec.Struct, Publication, Data, Frame)


class TestMarkers:
    """Fields that are no part of a state say so at their declaration."""

    def test_every_marked_field_exists(self) -> None:
        seen = {kind for kind in _kinds_within(_busy_node()) if marks_of(kind)}
        assert {each.__name__ for each in seen} >= {"Node", "Session", "State", "OutputQueue", "Clt", "Prt"}
        for kind in seen:
            for name in marks_of(kind):
                assert name in _declared(kind), f"{kind.__name__} marks {name}, which it does not have"

    def test_history_is_no_part_of_a_state(self) -> None:
        one, other = _busy_node(), _busy_node()
        other.broker.state.recent.append((0.0, A0, ()))
        other.broker.state.counters.refused += 1
        other.broker.counters.count_loss(Cause.SLOW_CLIENT, 1)
        assert digest(one) == digest(other)

    def test_any_other_field_is(self) -> None:
        one, other = _busy_node(), _busy_node()
        other.broker.state.next_publication += 1
        assert digest(one) != digest(other)


def _busy_node() -> Node:
    scot = Scot(parse_tree("path:2"), 2)
    neighbourhood = scot.neighbourhood(A0)
    broker = OctopiaBroker(neighbourhood, BrokerSettings(), matchers=SCAN)
    node = Node(broker, neighbourhood.neighbours, 1, NodeSettings(LinkSettings(), LinkSettings()))
    client = node.admit("P", Overflow.DISCONNECT, Hello(1, 0, 0, Grant(1, 1000, ())), 0.0)
    node.receive(client, [Frame(1, advertise()), Frame(2, subscribe()), Frame(3, publish(0))], 0.0)
    node.ready(0.0)
    return node


def _kinds_within(value: object, seen: dict[type, None] | None = None) -> dict[type, None]:
    """Return the types of all objects that a value holds and that have fields."""
    seen = {} if seen is None else seen
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | deque):
        parts = list(value)
    elif type(value).__module__.startswith("octopia.") and not isinstance(value, VALUES):
        seen[type(value)] = None
        parts = [getattr(value, name) for name in fields_of(value)]
    else:
        parts = []
    for part in parts:
        _kinds_within(part, seen)
    return seen


def _declared(kind: type) -> set[str]:
    slots = {name for each in kind.__mro__ for name in getattr(each, "__slots__", ())}
    return slots or set(fields_of(_busy_node() if kind is Node else Session(1, LinkSettings())))
