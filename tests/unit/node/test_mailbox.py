"""The replies that wait for one client."""

from __future__ import annotations

import pytest

from octopia.node.mailbox import Mailbox
from octopia.protocol.messages import ClientReply, Confirmed, Deliver, Lost
from support import publish


def answers(count: int) -> list[ClientReply]:
    return [Confirmed("subscription", each) for each in range(count)]


def deliveries(count: int) -> list[Deliver]:
    some = publish("b.0", 0, x=1)
    return [Deliver(some.id, some.publication, (each,), 0, 0.0) for each in range(count)]


def filled(given: int, delivered: int, lost: int = 0) -> Mailbox:
    mailbox = Mailbox()
    mailbox.answers, mailbox.deliveries, mailbox.lost = answers(given), deliveries(delivered), lost
    return mailbox


def test_empty_means_nothing_at_all() -> None:
    assert filled(0, 0).is_empty
    assert not filled(1, 0).is_empty
    assert not filled(0, 1).is_empty
    assert not filled(0, 0, lost=1).is_empty


@pytest.mark.parametrize("lost", [0, 7])
@pytest.mark.parametrize(("given", "delivered"), [(0, 0), (2, 0), (0, 2), (2, 3)])
def test_the_notice_of_losses_leaves_first_then_answers_then_deliveries(given: int, delivered: int, lost: int) -> None:
    expected = [*[Lost(lost)][: bool(lost)], *answers(given), *deliveries(delivered)]
    mailbox = filled(given, delivered, lost)
    assert mailbox.take_all() == expected
    assert mailbox.is_empty
    assert mailbox.take_all() == []


@pytest.mark.parametrize("lost", [0, 7])
def test_taking_answers_and_then_one_delivery_after_the_other_gives_the_same(lost: int) -> None:
    mailbox = filled(2, 3, lost)
    one_by_one = [*mailbox.take_answers(), *iter(mailbox.take_delivery, None)]
    assert one_by_one == filled(2, 3, lost).take_all()
    assert mailbox.is_empty


def test_deliveries_wait_if_only_answers_may_go() -> None:
    mailbox = filled(1, 1)
    assert mailbox.take_answers() == answers(1)
    assert mailbox.take_answers() == []
    assert mailbox.deliveries == deliveries(1)


def test_losses_are_told_once() -> None:
    mailbox = filled(0, 1, lost=2)
    assert mailbox.take_answers() == [Lost(2)]
    assert mailbox.take_answers() == []
