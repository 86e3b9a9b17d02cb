"""Plans of deliveries are kept from batch to batch, and never outlive the subscriptions and clients that they name."""

from __future__ import annotations

from node_support import Rig, numbers, plain

from octopia.protocol.messages import UnsubscribeRequest
from octopia.simulator.search.canonical import clone
from support import want


def met(*clients: str) -> Rig:
    """Return a rig with a neighbour, and with clients that want every x."""
    rig = Rig()
    rig.meet("a.0", "c.0", "b.1", "b.2")
    for name in clients:
        rig.join(name, want(0, "x > 0"))
    rig.settle()
    return rig


def delivered(rig: Rig, name: str) -> list[int]:
    """Return the numbers of the publications that a client has had."""
    rig.settle()
    return numbers(rig.heard[name])


def test_the_same_plan_serves_batch_after_batch() -> None:
    rig = met("C", "D")
    for number in range(4):
        rig.tell("a.0", plain(number))
    assert delivered(rig, "C") == delivered(rig, "D") == [0, 1, 2, 3]


def test_a_number_that_is_used_again_belongs_to_another_subscription() -> None:
    rig = met("C")
    rig.tell("a.0", plain(0))
    rig.tell("C", UnsubscribeRequest(0))
    rig.join("D", want(0, "x > 0"))
    rig.settle()
    rig.tell("a.0", plain(1))
    assert delivered(rig, "C") == [0]
    assert delivered(rig, "D") == [1]


def test_a_client_that_subscribes_later_gets_what_follows() -> None:
    rig = met("C")
    rig.tell("a.0", plain(0))
    rig.settle()
    rig.join("D", want(0, "x > 0"))
    rig.tell("a.0", plain(1))
    assert delivered(rig, "C") == [0, 1]
    assert delivered(rig, "D") == [1]


def test_a_client_that_comes_back_by_name_has_no_mail_of_the_first() -> None:
    rig = met("C", "D")
    rig.tell("a.0", plain(0))
    rig.settle()
    rig.node.detach(rig.ids["C"], 0.0)
    rig.join("C", incarnation=2)
    rig.tell("a.0", plain(1))
    assert delivered(rig, "C") == []
    assert delivered(rig, "D") == [0, 1]


def test_a_clone_of_a_node_delivers_to_its_own_clients() -> None:
    rig = met("C")
    rig.tell("a.0", plain(0))
    rig.settle()
    original, rig.node = rig.node, clone(rig.node)
    rig.tell("a.0", plain(1))
    assert delivered(rig, "C") == [0, 1]
    assert all(link.mailbox.is_empty for link in original.clients.values())
