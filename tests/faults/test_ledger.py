"""The ledger of fault runs, with plain numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from ledger import Ledger, Outcome


def is_even(attributes: Mapping[str, object]) -> bool:
    return attributes["even"] is True


def everything(_: Mapping[str, object]) -> bool:
    return True


@pytest.fixture
def ledger() -> Ledger:
    """Publications 0 to 5, made and accepted at the times 0 to 5; a subscriber to all, one to even ones."""
    made = Ledger()
    made.confirmed("all", everything, 0.0)
    made.confirmed("even", is_even, 0.0)
    for number in range(6):
        made.made(number, {"n": number, "even": number % 2 == 0}, float(number))
        made.answered(number, Outcome.ACCEPTED)
    return made


def deliver(ledger: Ledger, *but: int) -> None:
    """Deliver everything to those who want it, except some publications."""
    for number, made in ledger.publications.items():
        for name, owed in ledger.subscriptions.items():
            if number not in but and owed.wants(made.attributes):
                ledger.received(name, number)


def test_all_delivered_once_is_sound(ledger: Ledger):
    deliver(ledger)
    verdict = ledger.judge()
    assert verdict.breaches == []
    assert (verdict.accepted, verdict.owed, verdict.delivered, verdict.told, verdict.gaps) == (6, 9, 9, 0, 0)


def test_a_loss_that_nobody_was_told_of_is_a_breach(ledger: Ledger):
    deliver(ledger, 2)
    verdict = ledger.judge()
    assert verdict.lost_unheard == {"all": [2], "even": [2]}
    assert verdict.breaches == ["all missed without being told: 1 (2)", "even missed without being told: 1 (2)"]
    assert verdict.is_only_unheard


def test_only_what_was_made_before_the_gap_is_excused(ledger: Ledger):
    deliver(ledger, 2, 3, 4)
    ledger.told("all", 3.5)
    ledger.told("even", 4.0)
    verdict = ledger.judge()
    assert verdict.lost_unheard == {"all": [4], "even": []}
    assert verdict.told == 4


def test_a_gap_of_one_subscription_excuses_no_other(ledger: Ledger):
    deliver(ledger, 2)
    ledger.told("all", 9.0)
    assert ledger.judge().lost_unheard == {"all": [], "even": [2]}


def test_without_excuses_a_gap_does_not_help(ledger: Ledger):
    deliver(ledger, 4)
    ledger.told("all", 9.0)
    ledger.told("even", 9.0)
    assert ledger.judge().breaches == []
    assert ledger.judge(3.0, excuses=False).lost_unheard == {"all": [4], "even": [4]}
    assert ledger.judge(5.0, excuses=False).breaches == []


def test_two_deliveries_are_a_breach_even_with_a_gap(ledger: Ledger):
    deliver(ledger)
    ledger.received("even", 2)
    ledger.told("even", 9.0)
    verdict = ledger.judge()
    assert verdict.doubled == {"all": [], "even": [2]}
    assert not verdict.is_only_unheard


def test_what_does_not_match_is_unwanted(ledger: Ledger):
    deliver(ledger)
    ledger.received("even", 3)
    assert ledger.judge().breaches == ["even received without wanting it: 1 (3)"]


def test_what_was_never_made_is_unknown(ledger: Ledger):
    deliver(ledger)
    ledger.received("all", 77)
    assert ledger.judge().breaches == ["all received though nobody published it: 1 (77)"]


@pytest.mark.parametrize(("times", "is_sound"), [(0, True), (1, True), (2, False)])
def test_what_failed_may_arrive_at_most_once(ledger: Ledger, times: int, is_sound: bool):
    deliver(ledger)
    ledger.made(6, {"n": 6, "even": True}, 6.0)
    ledger.answered(6, Outcome.FAILED)
    for _ in range(times):
        ledger.received("all", 6)
    verdict = ledger.judge()
    assert (verdict.failed, verdict.breaches == []) == (1, is_sound)


def test_a_publication_without_an_answer_is_a_breach(ledger: Ledger):
    deliver(ledger)
    ledger.made(6, {"n": 6, "even": True}, 6.0)
    assert ledger.judge().breaches == ["no answer to the publisher: 1 (6)"]


def test_a_subscription_is_owed_nothing_from_before_its_confirmation_or_after_its_end(ledger: Ledger):
    deliver(ledger)
    ledger.confirmed("late", everything, 3.0)
    assert ledger.missing("late") == [3, 4, 5]
    ledger.ended("late", 5.0)
    assert ledger.missing("late") == [3, 4]
    assert ledger.judge().breaches == [], "its end tells the program that something may be missing"
    ledger.confirmed("late again", everything, 5.0)
    assert ledger.judge().lost_unheard["late again"] == [5]


def test_every_publication_and_every_subscription_is_noted_once(ledger: Ledger):
    with pytest.raises(AssertionError, match="got 3 again"):
        ledger.made(3, {}, 0.0)
    with pytest.raises(AssertionError, match="got even again"):
        ledger.confirmed("even", is_even, 0.0)
