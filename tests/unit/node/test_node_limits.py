"""Limits at a node: publishers beyond their rate get no credit for a while, requests beyond a limit are refused."""

from __future__ import annotations

import dataclasses

from node_support import CLIENT_LINKS, LINKS, Rig, make_node

from octopia.broker import LimitReached, OctopiaBroker
from octopia.node import Node, NodeSettings
from octopia.overlay import Scot, parse_tree
from octopia.protocol import CONTROL_ONLY
from octopia.protocol.messages import Refused, UnsubscribeRequest
from octopia.settings import UNLIMITED, Limit, ResourceLimits
from support import at, make_settings, offer, say, want


def rig_with_rate(publications_per_second: float) -> Rig:
    limits = dataclasses.replace(UNLIMITED, publications_per_second_per_client=publications_per_second)
    rig = Rig(make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, limits=limits)))
    rig.meet("a.0", "c.0", "b.1", "b.2")
    return rig


def publish(rig: Rig, name: str, *numbers: int) -> list[LimitReached]:
    """Let a client publish one by one, as its credit allows, and return the limits that it reached."""
    reached = []
    for number in numbers:
        rig.tell(name, say(number, x=1))
        reached += rig.carry().limits_reached
    return reached


def test_a_publisher_beyond_its_rate_gets_no_credit_until_it_is_within_it_again():
    rig = rig_with_rate(10.0)
    client = rig.join("P", offer(0, "x > 0"))
    assert publish(rig, "P", *range(12)) == [LimitReached(client, Limit.PUBLICATION_RATE)]
    rig.settle()
    assert rig.ends["P"].classes == CONTROL_ONLY
    assert rig.node.held_back(Limit.PUBLICATION_RATE) == 1
    assert rig.node.held_back(Limit.BYTE_RATE) == 0
    rig.now_ms = 299.0
    rig.node.wake(rig.now_ms)
    rig.settle()
    assert not rig.node.accepts_data_from(client)
    rig.now_ms = 300.0  # Twelve were sent, ten may come at once, and one is to come.
    assert rig.node.next_deadline_ms is not None
    assert rig.node.next_deadline_ms <= rig.now_ms
    rig.node.wake(rig.now_ms)
    rig.settle()
    assert rig.ends["P"].classes != CONTROL_ONLY
    assert rig.node.held_back(Limit.PUBLICATION_RATE) == 0


def test_a_pause_is_reported_once_and_what_is_on_its_way_makes_it_longer():
    rig = rig_with_rate(10.0)
    rig.join("P", offer(0, "x > 0"))
    assert len(publish(rig, "P", *range(20))) == 1
    assert [pause.until_ms for pause in rig.node._held_back.values()] == [1_100.0]


def test_others_and_control_messages_are_not_held_back():
    rig = rig_with_rate(1.0)
    rig.join("P", offer(0, "x > 0"))
    other = rig.join("Q", offer(0, "x > 0"))
    publish(rig, "P", 0, 1)
    rig.settle()
    assert rig.node.accepts_data_from(other)
    rig.tell("P", UnsubscribeRequest(7))
    rig.settle()
    assert [type(each) for each in rig.told("P")] == [Refused]


def test_nothing_is_kept_of_a_client_that_has_left():
    rig = rig_with_rate(1.0)
    client = rig.join("P", offer(0, "x > 0"))
    rig.tell("P", say(0, x=1), say(1, x=1))
    rig.settle()
    rig.node.detach(client, rig.now_ms)
    assert rig.node._held_back == {}


def test_requests_beyond_a_limit_are_refused_and_reported():
    neighbourhood = Scot(parse_tree("a"), 1).neighbourhood(at("a.0"))
    limits = ResourceLimits(subscriptions_per_client=1, advertisements_per_client=1)
    broker = OctopiaBroker(neighbourhood, dataclasses.replace(make_settings(), limits=limits))
    rig = Rig(Node(broker, neighbourhood.neighbours, 1, NodeSettings(LINKS, CLIENT_LINKS)))
    client = rig.join("C", want(0, "x > 0"), offer(0, "x > 0"))
    assert broker.most_issued() == (1, 1)
    rig.told("C")
    rig.tell("C", want(1, "x > 0"), offer(1, "x > 0"), UnsubscribeRequest(0), want(2, "x > 0"))
    assert [each.limit for each in rig.carry().limits_reached] == [Limit.SUBSCRIPTIONS, Limit.ADVERTISEMENTS]
    refused = [each for each in rig.told("C") if isinstance(each, Refused)]
    assert [(each.request, each.number) for each in refused] == [("subscription", 1), ("advertisement", 1)]
    assert all("expected at most 1 " in each.reason for each in refused)
    assert list(broker.state.clients[client].subscriptions) == [2]
    assert broker.counters.refused == 2
