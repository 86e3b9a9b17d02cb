"""The way of a publication through a broker, as ARCHITECTURE.md lists it: which functions run, and how many."""

from __future__ import annotations

import importlib
import operator
import re
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from octopia.algorithms import make_broker
from octopia.broker import BrokerSettings
from octopia.content import Publication, parse_filter
from octopia.ids import PublicationId, SubscriptionId
from octopia.link import LinkSettings
from octopia.matching import Match
from octopia.node import Node, NodeSettings, introduce
from octopia.overlay import Scot, parse_tree
from octopia.protocol import Ack, Frame
from octopia.protocol.messages import Deliver, Publish, PublishRequest, Subscribe
from octopia.settings import PAPER_ROUTING
from octopia.wire import Reader, encode, encode_all, relaying

BATCH = 64
TRACKED = 1 << 14
"""The flag of types whose objects the garbage collector tracks."""
CALLS_MAX = 0 if relaying.IS_COMPILED else 48
"""The Python functions, properties among them, that run for a publication at a broker that passes it on.

About fifty run per batch, less than one per publication. Compiled functions do not count.
"""

SCOT = Scot(parse_tree("path:3"), 1)
A, B, C = SCOT.brokers
PAGE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()


def relay() -> Node:
    """Return the middle node of three, behind which somebody wants every publication."""
    settings, links = BrokerSettings(PAPER_ROUTING, queue_capacity=4096), NodeSettings(LinkSettings(), LinkSettings())
    nodes = {}
    for broker in SCOT.brokers:
        neighbourhood = SCOT.neighbourhood(broker)
        nodes[broker] = Node(make_broker(neighbourhood, settings), neighbourhood.neighbours, 1, links)
    for low, high in SCOT.alinks:
        introduce(nodes[low], nodes[high])
    nodes[B].receive(C, [Frame(1, Subscribe(SubscriptionId(C, 1, 0), parse_filter("x >= 0")))], 0.0)
    nodes[B].ready(0.0)
    return nodes[B]


def batch(start: int) -> bytes:
    """Return the bytes of a batch of publications from a neighbour."""
    made = [Publication({"x": n, "price": 1.5, "symbol": "IBM"}, bytes(20)) for n in range(BATCH)]
    copies = [Publish(PublicationId(A, 1, start + n), each, None, 1, 0.0) for n, each in enumerate(made)]
    return b"".join(encode(Frame(start + n, copy)) for n, copy in enumerate(copies))


def calls_of_a_hop() -> Counter[str]:
    """Count the calls of functions of this package while a batch passes a broker, from bytes to bytes."""
    node, reader, calls = relay(), Reader(), Counter[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/octopia/" in file:
            calls[f"{file.rpartition('/octopia/')[2]}:{frame.f_code.co_name}"] += 1

    def carry(data: bytes) -> list[bytes]:
        node.receive(A, list(reader.feed(data)), 0.0)
        return [encode_all(items) for _, items in node.ready(0.0).writes]

    carry(batch(1))
    data = batch(1 + BATCH)
    sys.setprofile(note)
    try:
        written = carry(data)
    finally:
        sys.setprofile(None)
    *publications, acknowledgement = Reader().feed(b"".join(written))
    assert len(publications) == BATCH
    assert isinstance(acknowledgement, Ack)
    return calls


def test_a_hop_takes_few_calls():
    calls = calls_of_a_hop()
    assert sum(calls.values()) / BATCH <= CALLS_MAX + 1


def test_the_functions_that_are_listed_are_those_that_run():
    _, _, section = PAGE.partition("**At a broker that passes it on**")
    table, _, _ = section.partition("\n\nAt the host broker")
    listed = re.findall(r"`((?:content|wire|link|node|matching|broker)/[a-z_]+)\.py:([A-Za-z_.]+)`", table)
    assert len(listed) > 10
    ran = calls_of_a_hop()
    for name, function in listed:
        module = importlib.import_module(f"octopia.{name.replace('/', '.')}")
        assert callable(operator.attrgetter(function)(module)), f"{name}:{function}"
        is_plain = (module.__file__ or "").endswith(".py")
        if is_plain and function != "deliver_to" and name not in UNCOMPILED:
            assert f"{name}.py:{function.rpartition('.')[2]}" in ran, f"{name}:{function} does not run"


UNCOMPILED = ("content/encoded", "wire/relaying", "matching/matched")
"""Modules that plain Python does not use, the last one because it scans one subscription without an index."""


@pytest.mark.skipif(not relaying.IS_COMPILED, reason="classes of plain Python are always tracked")
@pytest.mark.parametrize(
    "kind", [Publication, Publish, PublishRequest, Deliver, Frame, Match], ids=lambda kind: kind.__name__
)
def test_the_garbage_collector_does_not_track_publications_in_transit(kind: type):
    assert not kind.__flags__ & TRACKED
