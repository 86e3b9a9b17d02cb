"""D3: a subscription withdrawn while an advertisement is on its way leaves no bit behind.

The publisher is at b.1, the subscriber at a.2, and b.2 is where the two meet. Messages between them are held back and
carried in every order that links allow.
"""

from collections.abc import Iterator, Sequence

import pytest

from octopia.content import intersects
from octopia.ids import AdvertisementId
from octopia.protocol.messages import CivSet, UnadvertiseRequest, UnsubscribeRequest
from support import HandDriven, at, offer, want

OLD, NEW = AdvertisementId(at("b.1"), 1, 0), AdvertisementId(at("b.1"), 1, 1)


def merges(*sequences: Sequence[str]) -> Iterator[list[str]]:
    """Yield every way to merge sequences that keeps the order of each."""
    waiting = [each for each in sequences if each]
    if not waiting:
        yield []
    for chosen in waiting:
        rest = [each[1:] if each is chosen else each for each in waiting]
        for merged in merges(*rest):
            yield [chosen[0], *merged]


def start() -> HandDriven:
    """An overlay in which b.2 has long known one advertisement of b.1."""
    net = HandDriven("a-b", 3)
    net.ask("P", "b.1", offer(0, "x > 0"))
    net.settle()
    return net


def act(net: HandDriven, step: str) -> None:
    match step.split():
        case ["subscribe"]:
            net.ask("S", "a.2", want(0, "x > 20"))
        case ["unsubscribe"]:
            net.ask("S", "a.2", UnsubscribeRequest(0))
        case ["advertise"]:
            net.ask("P", "b.1", offer(1, "x > 10"))
        case ["unadvertise"]:
            net.ask("P", "b.1", UnadvertiseRequest(1))
        case [source, target]:
            net.carry(source, target)


def stored_civs(net: HandDriven) -> dict[AdvertisementId, str]:
    for broker in net.brokers.values():
        broker.check()
    return {entry.id: str(entry.civ) for entry in net.brokers["b.1"].state.clt}


def outcomes(*sequences: Sequence[str]) -> list[dict[AdvertisementId, str]]:
    found = []
    for steps in merges(*sequences):
        net = start()
        for step in steps:
            act(net, step)
        net.settle()
        found.append(stored_civs(net))
    return found


ADVERTISED = ["advertise", "b.1 b.2"]
ANSWERED = ["b.2 b.1", "b.2 b.1"]


def test_withdrawn_in_any_order_it_leaves_no_bit():
    subscribed = ["subscribe", "a.2 b.2", "unsubscribe", "a.2 b.2"]
    found = outcomes(subscribed, ADVERTISED, ANSWERED)
    assert len(found) == 420
    assert all(each == {OLD: "010", NEW: "010"} for each in found)


def test_not_withdrawn_in_any_order_it_sets_both_bits():
    found = outcomes(["subscribe", "a.2 b.2"], ADVERTISED, ANSWERED)
    assert all(each == {OLD: "110", NEW: "110"} for each in found)


def test_an_advertisement_withdrawn_meanwhile_stays_withdrawn():
    found = outcomes(["subscribe", "a.2 b.2"], [*ADVERTISED, "unadvertise", "b.1 b.2"], ANSWERED)
    assert all(each == {OLD: "110"} for each in found)


def test_withdrawn_and_renewed_in_any_order_it_sets_both_bits():
    net = start()
    for step in ["subscribe", "a.2 b.2", "unsubscribe", "advertise", "a.2 b.2", "subscribe", "b.1 b.2", "a.2 b.2"]:
        act(net, step)
    net.settle()
    assert stored_civs(net) == {OLD: "110", NEW: "110"}


@pytest.mark.parametrize("the_papers_way", [False, True])
def test_matching_the_subscription_again_at_the_host_would_leave_a_bit_that_nobody_unsets(the_papers_way: bool):
    """Paper section 8: the CIV_SET "also carries the new subscription", "used to find matching advertisements"."""
    net = start()
    for step in ["advertise", "subscribe", "a.2 b.2"]:
        act(net, step)
    interest = next(iter(net.brokers["b.2"].state.prt)).interest
    (update,) = net.carry("b.2", "b.1")
    assert isinstance(update, CivSet)
    assert update.advertisements == (OLD,)
    if the_papers_way:
        for entry in net.brokers["b.1"].state.clt:
            if intersects(entry.offer, interest):
                entry.civ = entry.civ.with_bit(2)
    for step in ["unsubscribe", "a.2 b.2"]:
        act(net, step)
    net.settle()
    civs = {entry.id: str(entry.civ) for entry in net.brokers["b.1"].state.clt}
    assert civs == {OLD: "010", NEW: "110" if the_papers_way else "010"}
