"""Adaptive routing and a neighbour that is connected and grants no credit for publications, as one that recovers."""

from __future__ import annotations

import pytest
from node_support import Rig, numbers, plain

from octopia.link import Session
from octopia.protocol import Cause
from octopia.protocol.messages import GapNotice, LinkStatuses, Publish
from support import at, subscribe

NEIGHBOURS = ("a.0", "c.0", "b.1", "b.2")


def met(algorithm: str = "adaptive") -> Rig:
    """Return a rig in which c.0 wants publications."""
    rig = Rig(algorithm=algorithm)
    rig.meet(*NEIGHBOURS)
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.settle()
    for name in NEIGHBOURS:
        rig.told(name)
    return rig


def restart(rig: Rig, name: str) -> None:
    """Let a neighbour return without its state, not yet ready for publications."""
    rig.cut(name)
    rig.settle()
    rig.ends[name] = Session(2, rig.far_links)
    rig.ends[name].accept_data(False)
    rig.connect(name)
    rig.settle()


def got(rig: Rig) -> dict[str, list[int]]:
    heard = {name: numbers(rig.told(name)) for name in NEIGHBOURS}
    return {name: each for name, each in heard.items() if each}


def told_down(rig: Rig, name: str) -> list[tuple[str, ...]]:
    return [each.down_alinks for each in rig.told(name) if isinstance(each, LinkStatuses)]


def test_it_gets_nothing_until_it_grants_credit_and_copies_go_around_it() -> None:
    rig = met()
    restart(rig, "c.0")
    assert rig.node.links[at("c.0")].is_up
    rig.tell("a.0", plain(0))
    rig.settle()
    assert got(rig) == {"b.1": [0]}, "over the aLink of another cluster"
    rig.ends["c.0"].accept_data(True)
    rig.tell("a.0", plain(1))
    rig.settle()
    rig.tell("a.0", plain(2))
    rig.settle()
    assert got(rig)["c.0"][-1] == 2
    rig.broker.check()


def test_copies_that_wait_for_it_are_taken_back_when_it_closes() -> None:
    rig = met()
    rig.node.pace(at("c.0"), True)
    rig.tell("a.0", plain(0))
    rig.settle()
    assert (got(rig), rig.broker.waits_for(at("c.0"))) == ({}, 1)
    rig.ends["c.0"].accept_data(False)
    rig.settle()
    assert (got(rig), rig.broker.waits_for(at("c.0"))) == ({"b.1": [0]}, 0)
    rig.broker.check()


def test_secondary_neighbours_are_told_that_its_link_is_down_until_it_opens() -> None:
    rig = met()
    rig.cut("c.0")
    rig.settle()
    assert told_down(rig, "b.1") == [("c",)]
    restart(rig, "c.0")
    assert told_down(rig, "b.1") == []
    rig.ends["c.0"].accept_data(True)
    rig.settle()
    assert told_down(rig, "b.1") == [()]


@pytest.mark.parametrize("algorithm", ["static", "dynamic"])
def test_other_algorithms_let_copies_wait(algorithm: str) -> None:
    rig = met(algorithm)
    restart(rig, "c.0")
    rig.tell("a.0", plain(0))
    rig.settle()
    assert (got(rig), rig.broker.waits_for(at("c.0"))) == ({}, 1)
    rig.ends["c.0"].accept_data(True)
    rig.settle()
    assert got(rig) == {"c.0": [0]}


def test_ordered_publications_wait_for_it() -> None:
    rig = met()
    restart(rig, "c.0")
    first = plain(0)
    rig.tell("a.0", Publish(first.id, first.publication, None, first.hop, first.published_ms, ordered=True))
    rig.settle()
    assert (got(rig), rig.broker.waits_for(at("c.0"))) == ({}, 1)
    rig.ends["c.0"].accept_data(True)
    rig.settle()
    assert got(rig) == {"c.0": [0]}


def test_a_node_is_not_at_rest_while_copies_wait_for_it_to_open() -> None:
    rig = met()
    for name in ("b.1", "b.2"):
        rig.cut(name)
    restart(rig, "c.0")
    rig.tell("a.0", plain(0))
    rig.settle()
    assert (rig.broker.stranded, rig.node.is_at_rest) == (1, False)
    rig.ends["c.0"].accept_data(True)
    rig.settle()
    assert (rig.broker.stranded, got(rig)) == (0, {"c.0": [0]})


def test_a_node_that_stops_with_copies_without_a_way_tells_subscribers() -> None:
    rig = met()
    for name in ("b.1", "b.2"):
        rig.cut(name)
    restart(rig, "c.0")
    rig.tell("a.0", plain(0))
    rig.settle()
    rig.told("c.0")
    rig.node.give_up(rig.now_ms)
    rig.settle()
    assert GapNotice(Cause.SHUTDOWN, 1) in rig.told("c.0")
