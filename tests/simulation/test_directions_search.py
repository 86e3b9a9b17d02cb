"""Every reachable state of the control plane under adaptive routing: requests and faults, without publications.

At rest, every host broker must hold exactly the directions of the subscriptions in force.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from octopia.broker import answers
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.protocol.messages import CivUnset, PublishRequest
from octopia.settings import Algorithm
from octopia.simulator.search import DEEP, ORDINARY, Explorer, Order, Report, find_scenario

LIMIT = 30_000
"""Some scenarios have more states: the statuses of links arrive in any order, too."""


def search(name: str, limit: int = 200_000, order: Order = Order.BREADTH) -> Report:
    """Search a scenario without its publications."""
    scenario = find_scenario(name)
    clients = tuple(
        dataclasses.replace(
            client, script=tuple(each for each in client.script if not isinstance(each, PublishRequest))
        )
        for client in scenario.clients
    )
    adaptive = dataclasses.replace(scenario, clients=clients, algorithm=Algorithm.ADAPTIVE)
    return Explorer(adaptive).search(limit, order)


@pytest.mark.parametrize("name", ORDINARY)
def test_answers_are_right_at_rest(name: str) -> None:
    report = search(name, LIMIT)
    assert report.violation is None, str(report)
    assert report.complete or report.states >= LIMIT


@pytest.mark.parametrize("name", DEEP)
def test_answers_are_right_at_the_ends_of_long_stories(name: str) -> None:
    report = search(name, 10_000, Order.DEPTH)
    assert report.violation is None, str(report)
    assert report.at_rest


def test_a_direction_that_is_told_only_when_the_bit_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would find a broker that treats the set as static and dynamic routing do."""
    add = answers.add

    def add_first(state: State, entries: list[CltEntry], direction: str) -> None:
        add(state, [entry for entry in entries if not entry.directions], direction)

    monkeypatch.setattr(answers, "add", add_first)
    violation = search("control").violation
    assert violation is not None
    assert "but the PRT says" in violation.sentence


def test_a_direction_that_never_goes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "send_civ_updates", all_but_unsets(State.send_civ_updates))
    violation = search("publish").violation
    assert violation is not None
    assert "holds the answer" in violation.sentence or "the CIV of" in violation.sentence


def all_but_unsets(send: Callable[..., None]) -> Callable[..., None]:
    def send_some(state: State, update: type, entries: list[CltEntry]) -> None:
        if update is not CivUnset:
            send(state, update, entries)

    return send_some
