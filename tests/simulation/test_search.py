"""Every reachable state of small overlays (the guarantees of D3, D4, D5 and of the exchange at link up).

The searches are complete; those of the largest scenarios belong to the soak. To show that they would find defects, the
faults that the design guards against are planted one by one.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence

import msgspec
import pytest

from octopia.broker import advertising, confirming, exchanging, losses, subscribing
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings, Outcome, Session
from octopia.node import core as node
from octopia.protocol import Frame, Hello, Item
from octopia.protocol.directions import Directions
from octopia.protocol.messages import CivAck, Subscribe, SubscriptionDigest, Version
from octopia.settings import Algorithm
from octopia.simulator.search import DEEP, ORDINARY, Explorer, Order, Report, Violation, find_scenario, steps

AMPLE = 200_000
SOAK = 1_000_000
MARKS = dict.fromkeys(("host", "secondary", "crash"), pytest.mark.soak)
"""Scenarios with so many states that all of them are searched in the soak only."""


def search(scenario: str, limit: int = AMPLE, order: Order = Order.BREADTH) -> Report:
    return Explorer(find_scenario(scenario)).search(limit, order)


def expect_nothing_wrong(report: Report) -> None:
    if report.violation is not None:
        pytest.fail(str(report), pytrace=False)


def expect_violation(scenario: str, order: Order = Order.BREADTH) -> Violation:
    """Search until something is wrong, print the path to it, and replay that path."""
    report = search(scenario, order=order)
    assert report.violation is not None, f"the fault was not found: {report}"
    print(report)
    *before, last = Explorer(find_scenario(scenario)).replay(report.violation.path)
    assert not any(complaint for _, complaint in before)
    assert last[1] == report.violation.sentence
    return report.violation


@pytest.mark.parametrize("scenario", [pytest.param(each, marks=MARKS.get(each, ())) for each in ORDINARY])
def test_nothing_is_wrong_in_any_state_that_can_be_reached(scenario: str) -> None:
    report = search(scenario)
    expect_nothing_wrong(report)
    assert report.complete
    assert report.at_rest


@pytest.mark.parametrize("scenario", [*MARKS, *DEEP])
def test_the_ends_of_long_stories(scenario: str) -> None:
    report = search(scenario, 20_000, Order.DEPTH)
    expect_nothing_wrong(report)
    assert report.states >= 20_000
    assert report.at_rest


def search_adaptive(scenario: str, limit: int, order: Order) -> Report:
    adaptive = dataclasses.replace(find_scenario(scenario), algorithm=Algorithm.ADAPTIVE)
    return Explorer(adaptive).search(limit, order)


@pytest.mark.parametrize("scenario", [*ORDINARY, *DEEP])
def test_nothing_is_wrong_under_adaptive_routing(scenario: str) -> None:
    report = search_adaptive(scenario, 8_000, Order.DEPTH)
    expect_nothing_wrong(report)
    assert report.at_rest


@pytest.mark.soak
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("scenario", [*ORDINARY, *DEEP])
def test_a_million_states_under_adaptive_routing(scenario: str, order: Order) -> None:
    report = search_adaptive(scenario, SOAK, order)
    expect_nothing_wrong(report)
    assert report.complete or report.states >= SOAK


@pytest.mark.soak
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("scenario", DEEP)
def test_a_million_states(scenario: str, order: Order) -> None:
    report = Explorer(find_scenario(scenario)).search(SOAK, order, lambda line: print(scenario, line, file=sys.stderr))
    expect_nothing_wrong(report)
    assert report.complete or report.states >= SOAK


# Defects that the search must find.


def take_any_update(
    state: State, entry: CltEntry, secondary: BrokerId, version: Version, directions: Directions
) -> None:
    """Apply CIV updates regardless of their version."""
    entry.pending.pop(secondary, None)
    entry.versions[secondary] = version
    bit = secondary.cluster
    entry.civ = entry.civ.with_bit(bit) if directions else entry.civ.without_bit(bit)


def take_any_frame(session: Session, items: Sequence[Item], at: int, outcome: Outcome, now_ms: float) -> int:
    """Accept frames regardless of their sequence number."""
    frame = items[at]
    assert isinstance(frame, Frame)
    session._receiver.accepted = frame.sequence - 1
    return at + _on_frames(session, [frame], 0, outcome, now_ms)


_on_frames = Session._on_frames


def test_updates_of_bits_that_ignore_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: behind a link that lets duplicates through, only versions identify a stale CIV_UNSET."""
    monkeypatch.setattr(Session, "_on_frames", take_any_frame)
    expect_nothing_wrong(search("bits"))
    monkeypatch.setattr(advertising, "_update", take_any_update)
    violation = expect_violation("bits")
    assert violation.sentence == "publication 0 never reached subscription 1 of S, which was told of no loss"


def test_acknowledgements_that_ignore_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: a wait names a version, and an acknowledgement of an earlier one does not end it."""
    on_civ_ack = confirming.on_civ_ack

    def end_all_waits(state: State, host_broker: BrokerId, message: CivAck) -> None:
        for waiting in state.confirming.values():
            waiting.bits.update({each: version for each, version in message.stored if each in waiting.bits})
        on_civ_ack(state, host_broker, message)

    monkeypatch.setattr(confirming, "on_civ_ack", end_all_waits)
    assert "which was told of no loss" in expect_violation("publish").sentence


def test_confirmations_that_do_not_wait_for_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = confirming.begin

    def await_neighbours_only(
        state: State, last_hop: Peer, message: Subscribe, neighbours: Sequence[BrokerId], _: Sequence[CltEntry]
    ) -> None:
        begin(state, last_hop, message, neighbours, ())

    monkeypatch.setattr(confirming, "begin", await_neighbours_only)
    assert "which was told of no loss" in expect_violation("publish").sentence


def test_confirmations_that_do_not_wait_for_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = confirming.begin

    def await_bits_only(
        state: State, last_hop: Peer, message: Subscribe, _: Sequence[BrokerId], intersected: Sequence[CltEntry]
    ) -> None:
        begin(state, last_hop, message, (), intersected)

    monkeypatch.setattr(confirming, "begin", await_bits_only)
    assert "which was told of no loss" in expect_violation("publish").sentence


def test_entries_removed_on_an_incomplete_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    on_digest = exchanging.on_subscription_digest

    def believe(state: State, sender: BrokerId, digest: SubscriptionDigest) -> None:
        for entry in list(state.prt):
            if entry.last_hop == sender and entry.id not in digest.subscriptions:
                subscribing.remove_and_spread(state, sender, entry.id)
        on_digest(state, sender, digest)

    monkeypatch.setattr(exchanging, "on_subscription_digest", believe)
    assert "which was told of no loss" in expect_violation("line").sentence


def test_resent_frames_that_are_not_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_on_frames", take_any_frame)
    violation = expect_violation("resend")
    assert violation.sentence == "publication 0 was delivered twice to subscription 0 of S"


def test_a_recovering_broker_that_confirms_before_it_knows_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "knows_region", True)
    assert "which was told of no loss" in expect_violation("recovering").sentence


def test_a_recovering_broker_that_says_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "prt_is_complete", property(lambda state: True))
    assert "which was told of no loss" in expect_violation("secondary").sentence


def test_a_recovering_broker_that_takes_publications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "accepts_data", property(lambda state: True))
    assert "which was told of no loss" in expect_violation("line").sentence


def test_credit_that_goes_by_the_name_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that returns under its name would be given the credit of frames that its old session sent."""
    monkeypatch.setattr(node, "ClientId", lambda name, session: ClientId(name))
    assert "frames of class 0 were placed" in expect_violation("return").sentence


def greet_as_if_remembered(session: Session, hello: Hello, outcome: Outcome, now_ms: float) -> None:
    """Go on at the old number, whatever the other end remembers."""
    remembered = msgspec.structs.replace(hello, knows_incarnation=0)
    _on_hello(session, remembered if hello.knows_incarnation != session._incarnation else hello, outcome, now_ms)


_on_hello = Session._on_hello


def test_a_broker_that_goes_on_though_its_neighbour_remembers_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that is not remembered must begin a new sequence; otherwise the link is up and carries nothing."""
    monkeypatch.setattr(steps, "LinkSettings", lambda **settings: LinkSettings(**{**settings, "fences": False}))
    monkeypatch.setattr(Session, "_on_hello", greet_as_if_remembered)
    assert "never settled" in expect_violation("impostor").sentence


def test_an_older_broker_that_replaces_the_memory_of_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fencing, a greeting of an older incarnation makes a neighbour forget what it has accepted."""
    monkeypatch.setattr(steps, "LinkSettings", lambda **settings: LinkSettings(**{**settings, "fences": False}))
    assert expect_violation("old-impostor")


@pytest.mark.parametrize(
    ("function", "scenario"),
    [
        ("neighbour_restarted", "line"),
        ("dropped_for", "line"),
        ("link_came_up", "line"),
        ("on_notice", "line"),
        ("admitted_early", "grace"),
    ],
)
def test_a_loss_that_nobody_is_told_of(monkeypatch: pytest.MonkeyPatch, function: str, scenario: str) -> None:
    """Every part of the way of a notice is needed: without it, somebody misses a publication and hears nothing."""
    monkeypatch.setattr(losses, function, lambda *_: None)
    order = Order.DEPTH if scenario == "grace" else Order.BREADTH
    assert re.search("told of no loss|owes notices", expect_violation(scenario, order).sentence)
